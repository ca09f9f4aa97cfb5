// What a system may refuse: threads, locks, files that are none. Its calls are told here what to answer.
// labels of this file: native -threads
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "base/file.h"
#include "base/file_lock.h"
#include "base/threads.h"
#include "bounded_memory.h"
#include "formats/temp_folder.h"
#include "must.h"

namespace {
int flock_error = 0, interruptions = 0;  // what flock() answers; how often it is interrupted before that
}  // namespace

// In the place of the C library's.
extern "C" int flock(int fd, int operation) noexcept {
  errno = interruptions > 0 ? EINTR : flock_error;
  if (interruptions-- > 0 || flock_error != 0) return -1;
  return static_cast<int>(::syscall(SYS_flock, fd, operation));
}

namespace llada {
namespace {

namespace fs = std::filesystem;

class Refusals : public testing::Test {
 protected:
  void SetUp() override { flock_error = interruptions = 0; }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

TEST_F(Refusals, ALockIsHeldByOneAtATime) {
  auto one = FileLock::open(path("lock")), two = FileLock::open(path("lock"));
  ASSERT_TRUE(one && two);
  interruptions = 3;
  EXPECT_TRUE(one->try_hold());
  EXPECT_FALSE(two->try_hold());
  EXPECT_EQ(one->warning() + two->warning(), "");
  {
    const FileLock moved = std::move(*one);
    EXPECT_FALSE(two->try_hold());
  }
  EXPECT_TRUE(two->try_hold());
}

TEST_F(Refusals, AFileSystemWithoutLocksHoldsNobodyUp) {
  for (const int code : {ENOSYS, ENOLCK, EOPNOTSUPP}) {
    auto lock = must(FileLock::open(path("lock")));
    flock_error = code;
    EXPECT_TRUE(lock->try_hold());
    EXPECT_EQ(lock->warning(), path("lock") + ": its file system has no locks (" + std::strerror(code) +
                                   "); let no other process write there meanwhile");
    flock_error = 0;
  }
}

TEST_F(Refusals, WhatIsNoRegularFileIsNeitherMappedNorWaitedFor) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  for (const std::string& name : {path("pipe"), path("socket"), std::string("/dev/zero")}) {
    const auto mapped = MappedFile::open(name);
    ASSERT_FALSE(mapped) << name;
    EXPECT_EQ(mapped.error().message, name + ": not a regular file");
    EXPECT_EQ(exit_status(mapped.error()), 2);
    EXPECT_EQ(why_not(read_file(name)), name + ": not a regular file") << name;
  }
  ::close(listener);
  // What a user names may be a pipe.
  std::thread writer([&] { std::ofstream(path("pipe")) << "text"; });
  const auto read = read_any_file(path("pipe"));
  writer.join();
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, "text");
}

TEST_F(Refusals, AMappedFileThatWasWrittenToHasChangedAndATouchedOneHasNot) {
  const auto later = [&](const std::string& name) {
    fs::last_write_time(name, fs::last_write_time(name) + std::chrono::seconds(1));
  };
  for (const size_t size : {size_t{0}, size_t{1}, size_t{5000}, size_t{1} << 20}) {
    const std::string name = path("file");
    std::ofstream(name, std::ios::binary) << std::string(size, 'a');
    const auto file = must(MappedFile::open(name));
    later(name);
    EXPECT_TRUE(file->check_unchanged()) << size;
    fs::permissions(name, fs::perms::owner_read | fs::perms::owner_write);
    EXPECT_TRUE(file->check_unchanged()) << size;
    // Any byte, of a file of a MiB and less.
    for (const size_t at : {size_t{0}, size / 3, size - 1}) {
      if (size == 0) continue;
      std::fstream(name, std::ios::in | std::ios::out | std::ios::binary).seekp(static_cast<std::streamoff>(at)) << 'b';
      later(name);
      EXPECT_EQ(why_not(file->check_unchanged()),
                name + ": it was written to since it was opened, needed an unchanged file")
          << size << " " << at;
      std::fstream(name, std::ios::in | std::ios::out | std::ios::binary).seekp(static_cast<std::streamoff>(at)) << 'a';
      later(name);
      EXPECT_TRUE(file->check_unchanged()) << "as it was";
    }
    fs::resize_file(name, size + 1);
    EXPECT_FALSE(file->check_unchanged()) << size;
  }
  // Of a large one another model's bytes anywhere, the last ones among them.
  const std::string name = path("large");
  std::ofstream(name, std::ios::binary) << std::string(5'000'001, 'a');
  const auto file = must(MappedFile::open(name));
  std::fstream(name, std::ios::in | std::ios::out | std::ios::binary).seekp(5'000'000) << 'b';
  later(name);
  EXPECT_FALSE(file->check_unchanged());
  fs::remove(name);  // replaced by name
  std::ofstream(name, std::ios::binary) << "another";
  std::ofstream(path("other"), std::ios::binary) << std::string(100, 'a');
  const auto kept = MappedFile::open(path("other"));
  fs::rename(name, path("other"));
  EXPECT_TRUE(kept->check_unchanged());
}

TEST(FileErrors, WhoHasToAct) {
  for (const int code : {ENOENT, ENOTDIR, EISDIR, ENAMETOOLONG, EACCES})
    EXPECT_EQ(exit_status(file_error("x", "open", code)), 2);
  for (const int code : {EACCES, EPERM, EROFS, ENOSPC, EMFILE, EIO, ENOMEM})
    EXPECT_EQ(exit_status(file_error("x", "create", code)), 1);
  EXPECT_EQ(file_error("a/b", "create", EACCES).message, "a/b: cannot create: Permission denied");
}

TEST(ExpandHome, AsAShellHasIt) {
  EXPECT_EQ(expand_home("~/hf", "/home/me"), "/home/me/hf");
  EXPECT_EQ(expand_home("~", "/home/me"), "/home/me");
  for (const char* other : {"", "/~/x", "x/~", "~x", "~x/y", "./~"}) EXPECT_EQ(expand_home(other, "/home/me"), other);
  EXPECT_EQ(expand_home("~/hf", ""), "~/hf");
}

// The system gives some threads and refuses a later one.
TEST(ThreadPool, WithoutAllItsThreadsItIsAnErrorAndNoThreadStays) {
  if (!kMemoryCanBeBounded) GTEST_SKIP() << "sanitizers need the address space";
  EXPECT_EQ(in_bounded_memory([] {
              for (int attempt = 0; attempt < 2; ++attempt) try {
                  const ThreadPool pool(1000);
                  return 1;
                } catch (const std::system_error& error) {
                  if (error.code() != std::errc::resource_unavailable_try_again) return 2;
                }
              if (!alone_here()) return 3;
              ThreadPool small(2);  // what it gave is free again
              std::atomic<int> sum = 0;
              small.run(10, [&](int64_t i, int) { sum += static_cast<int>(i); });
              return sum == 45 ? 0 : 4;
            }),
            0);
}

}  // namespace
}  // namespace llada
