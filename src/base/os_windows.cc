// The system's files, names and memory on Windows 10 and later. Descriptors are those of the C library, over handles
// that let others read, write, rename and remove the file meanwhile, as on other systems.
#include <fcntl.h>
#include <io.h>
#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <thread>

#include "base/api_windows.h"
#include "base/os.h"

namespace llada::os {
namespace {

constexpr DWORD kShared = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

// Leaves the reason of a failure in errno; returns whether there was none.
bool told(BOOL worked) {
  if (worked == FALSE) errno = errno_of(::GetLastError());
  return worked != FALSE;
}

HANDLE handle_of(int fd) { return reinterpret_cast<HANDLE>(::_get_osfhandle(fd)); }

bool is_folder(const std::wstring& path) {
  const DWORD attributes = ::GetFileAttributesW(path.c_str());
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

HANDLE open_for_information(const std::string& path, DWORD more = 0) {
  return ::CreateFileW(wide_path(path).c_str(), FILE_READ_ATTRIBUTES, kShared, nullptr, OPEN_EXISTING,
                       FILE_FLAG_BACKUP_SEMANTICS | more, nullptr);
}

std::optional<FileInfo> info_of(HANDLE handle) {
  FileInfo info;
  const DWORD type = ::GetFileType(handle);
  if (type == FILE_TYPE_UNKNOWN && ::GetLastError() != NO_ERROR) return errno = EBADF, std::nullopt;
  if (type == FILE_TYPE_PIPE) info.kind = FileKind::pipe;
  if (type != FILE_TYPE_DISK) return info;
  BY_HANDLE_FILE_INFORMATION file;
  if (!told(::GetFileInformationByHandle(handle, &file))) return std::nullopt;
  constexpr int64_t kTicksTo1970 = 116'444'736'000'000'000, kTickNs = 100;
  const auto joined = [](DWORD high, DWORD low) { return uint64_t{high} << 32 | low; };
  const bool folder = (file.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  const auto changed =
      static_cast<int64_t>(joined(file.ftLastWriteTime.dwHighDateTime, file.ftLastWriteTime.dwLowDateTime));
  return FileInfo{folder ? FileKind::folder : FileKind::regular,
                  static_cast<int64_t>(joined(file.nFileSizeHigh, file.nFileSizeLow)),
                  (changed - kTicksTo1970) * kTickNs,
                  file.dwVolumeSerialNumber,
                  joined(file.nFileIndexHigh, file.nFileIndexLow),
                  0644};
}

std::optional<FileInfo> info_and_close(HANDLE handle) {
  if (!told(handle != INVALID_HANDLE_VALUE)) return std::nullopt;
  const auto info = info_of(handle);
  ::CloseHandle(handle);
  return info;
}

OVERLAPPED at(int64_t offset) {
  OVERLAPPED place{};
  place.Offset = static_cast<DWORD>(offset & 0xffffffff);
  place.OffsetHigh = static_cast<DWORD>(offset >> 32);
  return place;
}

DWORD clamped(size_t size) { return static_cast<DWORD>(std::min<size_t>(size, size_t{1} << 30)); }

// A console's line, as bytes that were not asked for yet.
std::string typed;

int64_t read_console(HANDLE console, void* data, size_t size) {
  if (typed.empty()) {
    wchar_t line[4096];
    DWORD count = 0;
    ::SetLastError(NO_ERROR);
    if (!told(::ReadConsoleW(console, line, static_cast<DWORD>(std::size(line)) - 1, &count, nullptr))) return -1;
    if (count == 0 && ::GetLastError() == ERROR_OPERATION_ABORTED) {  // Ctrl-C, whose handler runs on another thread
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return errno = EAGAIN, -1;
    }
    constexpr wchar_t kControlZ = 26;  // the end of the input where it begins a line
    if (count == 0 || line[0] == kControlZ) return 0;
    if (line[count - 1] >= 0xd800 && line[count - 1] < 0xdc00) {  // the first half of a character
      DWORD more = 0;
      if (::ReadConsoleW(console, line + count, 1, &more, nullptr) != FALSE) count += more;
    }
    typed = narrow({line, count});
  }
  const size_t taken = std::min(size, typed.size());
  typed.copy(static_cast<char*>(data), taken);
  typed.erase(0, taken);
  return static_cast<int64_t>(taken);
}

}  // namespace

int open(const std::string& path, unsigned access) {
  const std::wstring name = wide_path(path);
  if ((access & kWrite) != 0 && is_folder(name)) return errno = EISDIR, -1;
  const DWORD asked = ((access & kRead) != 0 ? GENERIC_READ : 0) | ((access & kWrite) != 0 ? GENERIC_WRITE : 0);
  const DWORD how = (access & kNew) != 0 ? CREATE_NEW : (access & kCreate) != 0 ? OPEN_ALWAYS : OPEN_EXISTING;
  const HANDLE handle = ::CreateFileW(name.c_str(), asked, kShared, nullptr, how,
                                      FILE_ATTRIBUTE_NORMAL | FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  if (!told(handle != INVALID_HANDLE_VALUE)) return -1;
  const int flags = _O_BINARY | _O_NOINHERIT | ((access & kAppend) != 0 ? _O_APPEND : 0);
  const int fd = ::_open_osfhandle(reinterpret_cast<intptr_t>(handle), flags);
  if (fd < 0) ::CloseHandle(handle);
  return fd;
}

void close(int fd) { ::_close(fd); }

int64_t read(int fd, void* data, size_t size) {
  const HANDLE handle = handle_of(fd);
  DWORD mode = 0, count = 0;
  if (::GetConsoleMode(handle, &mode) != FALSE) return read_console(handle, data, size);
  if (const auto info = info_of(handle); info && info->kind == FileKind::folder) return errno = EISDIR, -1;
  if (told(::ReadFile(handle, data, clamped(size), &count, nullptr))) return count;
  return errno == EPIPE ? 0 : -1;  // the end, after the last writer of a pipe
}

int64_t write(int fd, const void* data, size_t size) {
  const int count = ::_write(fd, data, static_cast<unsigned>(clamped(size)));
  if (count < 0) errno = errno == EINVAL ? EPIPE : errno;  // so the C library says that a pipe's reader has gone
  return count;
}

int64_t read_at(int fd, void* data, size_t size, int64_t offset) {
  OVERLAPPED place = at(offset);
  DWORD count = 0;
  if (::ReadFile(handle_of(fd), data, clamped(size), &count, &place) != FALSE) return count;
  if (::GetLastError() == ERROR_HANDLE_EOF) return 0;
  return told(FALSE), -1;
}
int64_t write_at(int fd, const void* data, size_t size, int64_t offset) {
  OVERLAPPED place = at(offset);
  DWORD count = 0;
  return told(::WriteFile(handle_of(fd), data, clamped(size), &count, &place)) ? int64_t{count} : -1;
}

int64_t position(int fd) { return ::_lseeki64(fd, 0, SEEK_CUR); }
bool resize(int fd, int64_t bytes) {
  FILE_END_OF_FILE_INFO end;
  end.EndOfFile.QuadPart = bytes;
  return told(::SetFileInformationByHandle(handle_of(fd), FileEndOfFileInfo, &end, sizeof end));
}
bool sync(int fd) { return told(::FlushFileBuffers(handle_of(fd))); }
bool sync_folder(const std::string&) { return true; }  // replace() writes through

bool wait_readable(int fd, int milliseconds) {
  const HANDLE handle = handle_of(fd);
  if (DWORD mode = 0; ::GetConsoleMode(handle, &mode) != FALSE)
    return ::WaitForSingleObject(handle, milliseconds < 0 ? INFINITE : static_cast<DWORD>(milliseconds)) ==
           WAIT_OBJECT_0;
  if (::GetFileType(handle) != FILE_TYPE_PIPE) return true;  // files and NUL
  constexpr int kLookMs = 5;
  for (int waited = 0;; waited += kLookMs) {
    DWORD bytes = 0;
    if (::PeekNamedPipe(handle, nullptr, 0, nullptr, &bytes, nullptr) == FALSE || bytes > 0) return true;
    if (milliseconds >= 0 && waited >= milliseconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(kLookMs));
  }
}
bool wait_writable(int, int) { return true; }  // a write waits by itself

std::optional<FileInfo> info(int fd) { return info_of(handle_of(fd)); }
std::optional<FileInfo> info(const std::string& path) { return info_and_close(open_for_information(path)); }
std::optional<FileInfo> link_info(const std::string& path) {
  return info_and_close(open_for_information(path, FILE_FLAG_OPEN_REPARSE_POINT));
}

bool exists(const std::string& path) {
  return told(::GetFileAttributesW(wide_path(path).c_str()) != INVALID_FILE_ATTRIBUTES);
}
bool may_read(const std::string& path) {
  const int fd = open(path, kRead);
  if (fd >= 0) close(fd);
  return fd >= 0;
}
bool may_run(const std::string& path) { return exists(path + ".exe"); }
bool writable_only(int fd) {
  DWORD available = 0;
  const HANDLE handle = handle_of(fd);
  return ::GetFileType(handle) == FILE_TYPE_PIPE &&
         ::PeekNamedPipe(handle, nullptr, 0, nullptr, &available, nullptr) == FALSE &&
         ::GetLastError() == ERROR_ACCESS_DENIED;
}

// Folders below a user's own are closed to others by inheritance.
bool set_mode(int, unsigned) { return true; }
bool make_private_folder(const std::string& path) { return told(::CreateDirectoryW(wide_path(path).c_str(), nullptr)); }
bool remove(const std::string& path) { return told(::DeleteFileW(wide_path(path).c_str())); }
// No handler interrupts a thread here: it runs on its own.
void remove_in_handler(const char* path) noexcept { remove(path); }
bool replace(const std::string& from, const std::string& to) {
  constexpr int kTries = 20;  // whoever indexes or scans new files lets go of them soon
  const std::wstring old_name = wide_path(from), new_name = wide_path(to);
  for (int i = 0;; ++i) {
    if (told(::MoveFileExW(old_name.c_str(), new_name.c_str(), MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)))
      return true;
    if (errno != EACCES || i == kTries || is_folder(new_name)) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}
bool link(const std::string& file, const std::string& name) {
  return told(::CreateHardLinkW(wide_path(name).c_str(), wide_path(file).c_str(), nullptr));
}
// They need a right that users seldom have, and the C++ library does not know them; hard links serve as well.
bool symbolic_link(const std::string&, const std::string&) { return errno = ENOSYS, false; }
// The file at the end of all links.
std::optional<std::string> link_target(const std::string& path) {
  const HANDLE link = open_for_information(path, FILE_FLAG_OPEN_REPARSE_POINT);
  if (link == INVALID_HANDLE_VALUE) return std::nullopt;
  // Files that the system keeps elsewhere, as OneDrive's, are reparse points too.
  FILE_ATTRIBUTE_TAG_INFO tag{};
  const bool is_link = ::GetFileInformationByHandleEx(link, FileAttributeTagInfo, &tag, sizeof tag) != FALSE &&
                       (tag.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 &&
                       IsReparseTagNameSurrogate(tag.ReparseTag);
  ::CloseHandle(link);
  if (!is_link) return std::nullopt;
  const HANDLE handle = open_for_information(path);
  if (handle == INVALID_HANDLE_VALUE) return std::nullopt;
  wchar_t name[32'768];
  const DWORD length = ::GetFinalPathNameByHandleW(handle, name, static_cast<DWORD>(std::size(name)), 0);
  ::CloseHandle(handle);
  if (length == 0 || length >= std::size(name)) return std::nullopt;
  return narrow({name, length});
}
bool links_are_absent(int code) { return code == EPERM || code == EACCES || code == ENOSYS || code == EIO; }

int open_nameless(const std::string&, unsigned) { return errno = ENOSYS, -1; }
std::string path_of_open(int) { return {}; }
bool name_open(int, const std::string&) { return errno = ENOSYS, false; }

// A byte behind every file's end: such a lock keeps others from the bytes that it covers.
bool lock(int fd) {
  OVERLAPPED place = at(INT64_MAX - 1);
  return told(::LockFileEx(handle_of(fd), LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &place));
}

bool is_absolute(const std::string& path) {
  return path.starts_with('/') || path.starts_with('\\') || (path.size() > 2 && path[1] == ':');
}
std::string folder_of(const std::string& path) {
  const size_t slash = path.find_last_of("/\\");
  if (slash == std::string::npos) return path.size() > 1 && path[1] == ':' ? path.substr(0, 2) + '.' : ".";
  return slash == 0 || path[slash - 1] == ':' ? path.substr(0, slash + 1) : path.substr(0, slash);
}
std::optional<uint64_t> free_bytes(const std::string& folder) {
  ULARGE_INTEGER bytes;
  if (!told(::GetDiskFreeSpaceExW(wide_path(folder).c_str(), &bytes, nullptr, nullptr))) return std::nullopt;
  return bytes.QuadPart;
}

const std::byte* map(int fd, size_t bytes) {
  const HANDLE mapping = ::CreateFileMappingW(handle_of(fd), nullptr, PAGE_READONLY, 0, 0, nullptr);
  if (!told(mapping != nullptr)) return nullptr;
  const void* const data = ::MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, bytes);
  told(data != nullptr);
  ::CloseHandle(mapping);  // the view holds it
  return static_cast<const std::byte*>(data);
}
void unmap(const std::byte* data, size_t) { ::UnmapViewOfFile(data); }

void advise(const std::byte* data, size_t bytes, Advice advice) {
  auto* const begin = const_cast<std::byte*>(data);
  // Unlocking pages that are not locked takes them out of the working set.
  if (advice == Advice::drop) static_cast<void>(::VirtualUnlock(begin, bytes));
  WIN32_MEMORY_RANGE_ENTRY range{begin, bytes};
  if (advice == Advice::will_read) static_cast<void>(::PrefetchVirtualMemory(::GetCurrentProcess(), 1, &range, 0));
}

std::byte* allocate(size_t align, size_t bytes) { return static_cast<std::byte*>(::_aligned_malloc(bytes, align)); }
void free_allocated(std::byte* data) noexcept { ::_aligned_free(data); }
void release(std::byte* data, size_t bytes) {
  ::VirtualAlloc(data, bytes, MEM_RESET, PAGE_READWRITE);
  static_cast<void>(::VirtualUnlock(data, bytes));
}
int64_t page_bytes() {
  static const int64_t bytes = [] {
    SYSTEM_INFO system;
    ::GetSystemInfo(&system);
    return int64_t{system.dwPageSize};
  }();
  return bytes;
}
int64_t machine_bytes() {
  MEMORYSTATUSEX memory{};
  memory.dwLength = sizeof memory;
  return ::GlobalMemoryStatusEx(&memory) != FALSE ? static_cast<int64_t>(memory.ullTotalPhys) : 0;
}

int process_id() { return static_cast<int>(::GetCurrentProcessId()); }
std::string variable(const char* name) {
  const std::wstring wide_name = wide(name);
  std::wstring value(::GetEnvironmentVariableW(wide_name.c_str(), nullptr, 0), L'\0');
  if (value.empty()) return {};
  value.resize(::GetEnvironmentVariableW(wide_name.c_str(), value.data(), static_cast<DWORD>(value.size())));
  return narrow(value);
}
bool has_variable(const char* name) {
  return ::GetEnvironmentVariableW(wide(name).c_str(), nullptr, 0) != 0 || ::GetLastError() != ERROR_ENVVAR_NOT_FOUND;
}
void set_variable(const char* name, const std::string& value) {
  if (!has_variable(name)) ::SetEnvironmentVariableW(wide(name).c_str(), wide(value).c_str());
}
std::string home_folder() {
  const std::string home = variable("HOME");
  return home.empty() ? variable("USERPROFILE") : home;
}
std::vector<std::string> words_of(int, char**) {
  int count = 0;
  LPWSTR* const words = ::CommandLineToArgvW(::GetCommandLineW(), &count);
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) out.push_back(narrow(words[i]));
  ::LocalFree(words);
  return out;
}
void run_instead(const std::string&, const std::vector<std::string>&) { errno = ENOEXEC; }  // none is built for Windows

void* load_library(const std::string& path, std::string& why) {
  void* const library = reinterpret_cast<void*>(::LoadLibraryW(wide(path).c_str()));
  if (library == nullptr) why = path + ": error " + std::to_string(::GetLastError()) + " of LoadLibrary";
  return library;
}
void* symbol(void* library, const char* name) {
  return reinterpret_cast<void*>(::GetProcAddress(static_cast<HMODULE>(library), name));
}
std::string file_of_code(const void* address) {
  HMODULE module = nullptr;
  constexpr DWORD kHow = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  if (::GetModuleHandleExW(kHow, static_cast<LPCWSTR>(address), &module) == FALSE) return {};
  wchar_t name[32'768];
  return narrow({name, ::GetModuleFileNameW(module, name, static_cast<DWORD>(std::size(name)))});
}

}  // namespace llada::os
