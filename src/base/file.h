// Files: read-only mappings for weights, whole small files, and atomic replacement for outputs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace llada {

// "PATH: cannot WHAT: why", from an errno. A path that does not exist or may not be opened is the caller's mistake
// (invalid_input). All else is the machine's: a folder without write permission, no space, too many open files.
Error file_error(const std::string& path, std::string_view what, int code);

// Tells a file, or files that belong together, from others, and from the same file before it was changed.
struct FileIdentity {
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // when it was last changed, since 1970
  uint64_t sample = 0;      // a hash of 64 pieces of 16 KiB, of all bytes up to a MiB

  bool operator==(const FileIdentity&) const = default;
  // Joins another file: adds its bytes, and keeps the later of the two times.
  FileIdentity with(const FileIdentity& other) const;
};

// A whole file mapped read-only; moves, never copies. The span stays valid while the object (or one moved
// from it) lives.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, identity_.bytes}; }
  const std::string& path() const { return path_; }
  const FileIdentity& identity() const { return identity_; }  // as it was opened

  // Checks that the mapped file is unchanged since it was opened. Its size must be the same, and either its time or its
  // sample. So a file that was only touched has not changed. A file that was replaced by name has not changed either,
  // since the mapping holds the old one. Reading bytes behind the end of a file that became shorter raises a signal, so
  // call this before. Costs a system call while nobody touches the file.
  Status check_unchanged() const;

  // Tells the system that [offset, offset + size) is not needed soon; its pages stop counting as resident.
  void drop(size_t offset, size_t size) const;
  // Asks the system to read these bytes from the disk; does not wait for them.
  void will_read(size_t offset, size_t size) const;
  // Asks the system to map the file in large pages, where the file system keeps it so (AtomicFile writes for that).
  void use_large_pages() const;

 private:
  MappedFile() = default;
  uint64_t sample() const;
  std::string path_;
  const std::byte* data_ = nullptr;
  int fd_ = -1;
  FileIdentity identity_;
};

// Reads a descriptor to its end: a file, a pipe, a terminal. `name` stands for the file in errors. `before_read` is
// called before each read, which may wait.
Result<std::string> read_all(int fd, const std::string& name, size_t limit_bytes,
                             const std::function<void()>& before_read = {});

// Reads a small regular file (config, template) whole; refuses more than `limit_bytes`. Anything else is refused
// before it is read: a pipe that nobody writes to would never end.
Result<std::string> read_file(const std::string& path, size_t limit_bytes = size_t{256} << 20);

// The same for a path that a user gives for reading, which may be a pipe or a device as well.
Result<std::string> read_any_file(const std::string& path, size_t limit_bytes = size_t{256} << 20);

// "~/x" below `home`, as a shell has it; every other path as it is, and all where `home` is empty. For paths from
// environment variables and files, which no shell expands.
std::string expand_home(std::string_view path, std::string_view home);

// Fails when the file system of `path`, which need not exist, has less than `bytes` left.
Status check_free_space(const std::string& path, uint64_t bytes);

// Writes beside `path` and puts the file in place in commit(). Until then an existing file at `path` is untouched and
// no new one is there. Where the file system allows it, the data has no name before commit(), so that even a killed
// process leaves nothing. Elsewhere it is a ".tmp" file that the destructor removes, and the rest of a killed process
// does not disturb later writers. Only regular files are replaced (never a device), and keep their mode; a symbolic
// link is written through, also one to a file that is not there yet.
class AtomicFile {
 public:
  // named: as where the file system has no files without names.
  enum class Data { nameless_if_possible, named };
  static Result<AtomicFile> create(const std::string& path, Data data = Data::nameless_if_possible);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);
  Status write(const void* data, size_t size) { return write({static_cast<const std::byte*>(data), size}); }
  uint64_t position() const { return position_; }
  // Calls check with a path to a file of `size` bytes: first the bytes written so far, then zeros. Returns its status;
  // writing may go on.
  Status try_out(uint64_t size, const std::function<Status(const std::string& path)>& check);
  Status commit();  // flush, fsync, rename over `path`

 private:
  AtomicFile() = default;
  Status put(std::span<const std::byte> bytes);  // to the system, past the buffer
  Status flush();
  Status place();  // gives the data its name
  Status name_temporary(const std::function<bool(const char*)>& make);
  std::string path_, target_, temporary_;
  int fd_ = -1;
  bool nameless_ = false;
  uint64_t position_ = 0;
  std::unique_ptr<std::byte[]> buffer_;
  size_t buffered_ = 0;
};

// Writes a whole AtomicFile at once.
Status write_file(const std::string& path, std::string_view text);

// Deletes the ".tmp" files of this process (the first sixteen at any time). Async-signal-safe: for the
// handler of a signal that ends the program, the only one who may call it.
void remove_unfinished_files() noexcept;

}  // namespace llada
