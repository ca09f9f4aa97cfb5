// Texts, names and errors of Windows 10 and later, and functions of C that the C++ library calls for names. It is in
// every program, as all others of the layer use it.
#include <dirent.h>

#include <cerrno>
#include <cwchar>
#include <utility>

#include "base/api_windows.h"

namespace {

constexpr wchar_t kReplaced = 0xfffd;
constexpr int kBegun = 1, kListed = -1;  // of a folder's dd_stat

void take_name(_WDIR& folder, const WIN32_FIND_DATAW& found) {
  static_assert(sizeof folder.dd_dir.d_name == sizeof found.cFileName);
  std::wmemcpy(folder.dd_dir.d_name, found.cFileName, std::size(found.cFileName));
  folder.dd_dir.d_namlen = static_cast<unsigned short>(std::wcslen(found.cFileName));
  // A name may have halves of characters, of which the C++ library makes an exception.
  const auto is_high = [](wchar_t unit) { return unit >= 0xd800 && unit < 0xdc00; };
  const auto is_low = [](wchar_t unit) { return unit >= 0xdc00 && unit < 0xe000; };
  for (wchar_t* unit = folder.dd_dir.d_name; *unit != 0; ++unit) {
    if (is_high(*unit) && is_low(unit[1]))
      ++unit;
    else if (is_high(*unit) || is_low(*unit))
      *unit = kReplaced;
  }
}

}  // namespace

extern "C" {

// The narrow encoding of the C++ library's paths is that of these functions of C, which know UTF-8 in no locale of the
// system's C library. Here they do; they also take its place in the program and in llada.dll. A character of two UTF-16
// units is read in two calls, of three bytes and of one. A name that is no UTF-8 is no exception: what cannot be
// read is replaced, as wide() does, and there is no such file.
size_t mbrtowc(wchar_t* to, const char* from, size_t size, mbstate_t* state) {
  static mbstate_t own;
  mbstate_t& low = state != nullptr ? *state : own;
  if (from == nullptr) return low = 0, 0;
  if (size == 0) return static_cast<size_t>(-2);
  if (low != 0) {
    if (to != nullptr) *to = static_cast<wchar_t>(low);
    return low = 0, 1;
  }
  const auto lead = static_cast<unsigned char>(*from);
  const size_t length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  wchar_t units[2] = {};
  const int count =
      size < length ? 0
                    : ::MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, from, static_cast<int>(length), units, 2);
  if (count == 0) {
    if (to != nullptr) *to = kReplaced;
    return 1;
  }
  if (to != nullptr) *to = units[0];
  if (count == 2) return low = units[1], length - 1;
  return lead == 0 ? 0 : length;
}

size_t wcrtomb(char* to, wchar_t unit, mbstate_t* state) {
  static mbstate_t own;
  mbstate_t& high = state != nullptr ? *state : own;
  if (to == nullptr) return high = 0, 1;
  const bool both = high != 0, opens = unit >= 0xd800 && unit < 0xdc00;
  if (opens && !both) return high = unit, 0;
  const wchar_t units[2] = {static_cast<wchar_t>(std::exchange(high, 0)), unit};
  const int bytes = ::WideCharToMultiByte(CP_UTF8, 0, both ? units : units + 1, both ? 2 : 1, to, 4, nullptr, nullptr);
  return bytes > 0 ? static_cast<size_t>(bytes) : (errno = EILSEQ, static_cast<size_t>(-1));
}

size_t mbrlen(const char* from, size_t size, mbstate_t* state) { return mbrtowc(nullptr, from, size, state); }

// Folders are listed by these. The C library's own ones read memory that nobody wrote where a path has more than 260
// characters.
_WDIR* _wopendir(const wchar_t* path) {
  std::wstring name = llada::os::long_name(path);
  const DWORD attributes = ::GetFileAttributesW(name.c_str());
  if (attributes == INVALID_FILE_ATTRIBUTES) return errno = llada::os::errno_of(::GetLastError()), nullptr;
  if ((attributes & FILE_ATTRIBUTE_DIRECTORY) == 0) return errno = ENOTDIR, nullptr;
  if (!name.ends_with(L'\\') && !name.ends_with(L'/')) name += L'\\';
  WIN32_FIND_DATAW found;
  const HANDLE handle = ::FindFirstFileW((name + L'*').c_str(), &found);
  const DWORD error = handle == INVALID_HANDLE_VALUE ? ::GetLastError() : NO_ERROR;
  if (error != NO_ERROR && error != ERROR_FILE_NOT_FOUND) return errno = llada::os::errno_of(error), nullptr;
  auto* const folder = new _WDIR{};
  folder->dd_handle = reinterpret_cast<intptr_t>(handle);
  folder->dd_stat = error == NO_ERROR ? 0 : kListed;  // an empty disk's root has not even itself
  if (error == NO_ERROR) take_name(*folder, found);
  return folder;
}

_wdirent* _wreaddir(_WDIR* folder) {
  if (folder->dd_stat == kListed) return nullptr;
  if (folder->dd_stat == 0) return folder->dd_stat = kBegun, &folder->dd_dir;
  WIN32_FIND_DATAW found;
  if (::FindNextFileW(reinterpret_cast<HANDLE>(folder->dd_handle), &found) != FALSE)
    return take_name(*folder, found), &folder->dd_dir;
  if (const DWORD error = ::GetLastError(); error != ERROR_NO_MORE_FILES) errno = llada::os::errno_of(error);
  folder->dd_stat = kListed;
  return nullptr;
}

int _wclosedir(_WDIR* folder) {
  const auto handle = reinterpret_cast<HANDLE>(folder->dd_handle);
  if (handle != INVALID_HANDLE_VALUE) ::FindClose(handle);
  delete folder;
  return 0;
}

}  // extern "C"

namespace llada::os {

std::wstring wide(std::string_view text) {
  const int bytes = static_cast<int>(text.size());
  std::wstring out(static_cast<size_t>(::MultiByteToWideChar(CP_UTF8, 0, text.data(), bytes, nullptr, 0)), L'\0');
  ::MultiByteToWideChar(CP_UTF8, 0, text.data(), bytes, out.data(), static_cast<int>(out.size()));
  return out;
}

std::string narrow(std::wstring_view text) {
  const int units = static_cast<int>(text.size());
  const int bytes = ::WideCharToMultiByte(CP_UTF8, 0, text.data(), units, nullptr, 0, nullptr, nullptr);
  std::string out(static_cast<size_t>(bytes), '\0');
  ::WideCharToMultiByte(CP_UTF8, 0, text.data(), units, out.data(), bytes, nullptr, nullptr);
  return out;
}

std::wstring long_name(std::wstring given) {
  constexpr size_t kMost = 240;  // of 260, with room for a name in a folder
  if (given.size() < kMost || given.starts_with(LR"(\\?\)") || given.starts_with(LR"(\\.\)")) return given;
  std::wstring whole(::GetFullPathNameW(given.c_str(), 0, nullptr, nullptr), L'\0');
  whole.resize(::GetFullPathNameW(given.c_str(), static_cast<DWORD>(whole.size()), whole.data(), nullptr));
  if (whole.empty()) return given;
  return whole.starts_with(LR"(\\)") ? LR"(\\?\UNC)" + whole.substr(1) : LR"(\\?\)" + whole;
}
std::wstring wide_path(std::string_view path) { return long_name(wide(path)); }

int errno_of(unsigned long error) {
  switch (error) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_PATHNAME:
    case ERROR_INVALID_DRIVE:
    case ERROR_BAD_NETPATH:
      return ENOENT;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
    case ERROR_USER_MAPPED_FILE:
      return EACCES;
    case ERROR_PRIVILEGE_NOT_HELD:
      return EPERM;
    case ERROR_ALREADY_EXISTS:
    case ERROR_FILE_EXISTS:
      return EEXIST;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
      return ENOSPC;
    case ERROR_BROKEN_PIPE:
    case ERROR_NO_DATA:
    case ERROR_PIPE_NOT_CONNECTED:
      return EPIPE;
    case ERROR_LOCK_VIOLATION:
    case ERROR_IO_PENDING:
      return EWOULDBLOCK;
    case ERROR_TOO_MANY_OPEN_FILES:
      return EMFILE;
    case ERROR_FILENAME_EXCED_RANGE:
      return ENAMETOOLONG;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
    case ERROR_COMMITMENT_LIMIT:
      return ENOMEM;
    case ERROR_CALL_NOT_IMPLEMENTED:
    case ERROR_NOT_SUPPORTED:
    case ERROR_INVALID_FUNCTION:
      return ENOSYS;
    case ERROR_OPERATION_ABORTED:
      return EAGAIN;
    case ERROR_DIRECTORY:
      return ENOTDIR;
    default:
      return EIO;
  }
}

}  // namespace llada::os
