// The operating system's files, names and memory, as far as the program needs them: os_posix.cc or os_windows.cc, of
// which CMake takes one. console.h has terminals and signals, sockets.h connections, system.h processors. No other file
// of the tree includes a header of the system, and tests/layering checks it.
//
// Paths are UTF-8 on every system. A call that fails returns false, -1 or nothing, and leaves its reason in errno.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace llada::os {

inline constexpr int kStdin = 0, kStdout = 1, kStderr = 2;

// How a file is opened, in any combination.
enum Access : unsigned {
  kRead = 1,
  kWrite = 2,
  kCreate = 4,        // where it is missing
  kNew = 8,           // with kCreate: fails where it is there
  kAppend = 16,       // every write goes behind the last byte
  kOwnersAlone = 32,  // with kCreate: nobody else may open it, as far as the system has such files
  kAtOnce = 64        // a pipe with nobody at its other end is not waited for
};

int open(const std::string& path, unsigned access);
void close(int fd);
// At most so many bytes from or to the descriptor, whose number is returned; begun again where a signal interrupts it.
int64_t read(int fd, void* data, size_t size);
int64_t write(int fd, const void* data, size_t size);
int64_t read_at(int fd, void* data, size_t size, int64_t offset);
int64_t write_at(int fd, const void* data, size_t size, int64_t offset);
int64_t position(int fd);
bool resize(int fd, int64_t bytes);
bool sync(int fd);  // returns when the disk has its bytes
bool sync_folder(const std::string& path);

// Wait for so long at most, -1: for ever. True: a call of read() or write() need not wait, or ends with an error.
bool wait_readable(int fd, int milliseconds);
bool wait_writable(int fd, int milliseconds);

enum class FileKind : uint8_t { regular, folder, pipe, socket, other };
struct FileInfo {
  FileKind kind = FileKind::other;
  int64_t bytes = 0;
  int64_t modified_ns = 0;          // since 1970
  uint64_t device = 0, number = 0;  // together: which file it is
  unsigned mode = 0;                // the permissions, for set_mode()
};
std::optional<FileInfo> info(int fd);
std::optional<FileInfo> info(const std::string& path);
std::optional<FileInfo> link_info(const std::string& path);  // of a symbolic link itself
inline bool same_file(const FileInfo& a, const FileInfo& b) { return a.device == b.device && a.number == b.number; }
inline bool same_file(const std::string& a, const std::string& b) {  // both there, and one file
  const auto first = info(a), second = info(b);
  return first && second && same_file(*first, *second);
}

bool exists(const std::string& path);
bool may_read(const std::string& path);
bool may_run(const std::string& path);
bool writable_only(int fd);

bool set_mode(int fd, unsigned mode);
inline constexpr unsigned kOwnersMode = 0600;
bool make_private_folder(const std::string& path);  // which nobody else may enter
bool remove(const std::string& path);
void remove_in_handler(const char* path) noexcept;             // in the handler of a signal
bool replace(const std::string& from, const std::string& to);  // one step: `to` is never missing
bool link(const std::string& file, const std::string& name);
bool symbolic_link(const std::string& target, const std::string& name);
// Where a symbolic link leads to; nothing where the path is none.
std::optional<std::string> link_target(const std::string& path);
// Whether making a link failed because this file system has none.
bool links_are_absent(int code);

// Files without a name, which vanish with their process: -1 where the system has none. path_of_open() is a path by
// which such a file can be opened meanwhile; name_open() gives it a name.
int open_nameless(const std::string& folder, unsigned access);
std::string path_of_open(int fd);
bool name_open(int fd, const std::string& name);

// One process at a time has a lock on the file, until it closes the descriptor. errno is EWOULDBLOCK
// where another has it; any other errno says that the file system has no locks.
bool lock(int fd);

// "C:\\x" and "/x"; "x/y" and "" are relative.
bool is_absolute(const std::string& path);
std::string folder_of(const std::string& path);  // "." of a name alone
std::optional<uint64_t> free_bytes(const std::string& folder);

// Read-only views of files; null where it fails.
const std::byte* map(int fd, size_t bytes);
void unmap(const std::byte* data, size_t bytes);
enum class Advice : uint8_t { drop, will_read, large_pages };
void advise(const std::byte* data, size_t bytes, Advice advice);

// Memory whose pages nobody has touched; `align` is a power of two. Null where there is none.
std::byte* allocate(size_t align, size_t bytes);
void free_allocated(std::byte* data) noexcept;
void release(std::byte* data, size_t bytes);  // whole pages of it: contents are lost, addresses stay
int64_t page_bytes();
int64_t machine_bytes();  // of memory

int process_id();
// The variable of the environment; empty where it is not set.
std::string variable(const char* name);
bool has_variable(const char* name);                            // empty ones count
void set_variable(const char* name, const std::string& value);  // where it is not set; before other threads start
std::string home_folder();                                      // empty where the system does not tell
// The words of the command line as UTF-8.
std::vector<std::string> words_of(int argc, char** argv);
// Runs another program in the place of this one. Returns where that fails.
void run_instead(const std::string& path, const std::vector<std::string>& words);

// Code that is loaded while the program runs; null and a reason where that fails.
void* load_library(const std::string& path, std::string& why);
void* symbol(void* library, const char* name);
std::string file_of_code(const void* address);  // the library or program that holds it; empty where not known

}  // namespace llada::os
