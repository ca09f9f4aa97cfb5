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
// A path as Windows takes it: a long one gets a head, without which it would need a setting of the system.
std::wstring wide_path(std::string_view path);
std::wstring long_name(std::wstring path);
int errno_of(unsigned long error);

}  // namespace llada::os
