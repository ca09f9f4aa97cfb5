// Windows' headers in their order, and UTF-8, in which the tree writes, beside UTF-16, in which Windows reads. For the
// files that are named after it.
#pragma once
// clang-format off
#include <winsock2.h>
#include <ws2tcpip.h>
#include <windows.h>
#include <bcrypt.h>
#include <mstcpip.h>
#include <psapi.h>
#include <shellapi.h>
#include <winhttp.h>
#include <winioctl.h>
// clang-format on
#include <string>
#include <string_view>

namespace llada::os {

std::wstring wide(std::string_view text);
std::string narrow(std::wstring_view text);

}  // namespace llada::os
