// Files that are replaced whole or not at all, the thread pool, traces, random numbers.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "base/threads.h"
#include "base/trace.h"
#include "formats/temp_folder.h"

namespace llada {
namespace {

namespace fs = std::filesystem;

class TemporaryFolder : public testing::Test {
 protected:
  std::string path(const char* name) const { return (folder_ / name).string(); }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

using Files = TemporaryFolder;

TEST_F(Files, AtomicFileReplacesOnlyOnCommit) {
  std::ofstream(path("out")) << "old";
  {
    auto file = AtomicFile::create(path("out"));
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_TRUE(file->write("new", 3));
  }
  EXPECT_EQ(*read_file(path("out")), "old");
  EXPECT_EQ(entries(), 1u) << "an abandoned write leaves nothing behind";
  {
    auto file = AtomicFile::create(path("out"));
    const std::string large(3'000'000, 'x');  // more than one buffer
    ASSERT_TRUE(file->write(large.data(), large.size()));
    EXPECT_EQ(file->position(), large.size());
    ASSERT_TRUE(file->commit());
  }
  EXPECT_EQ(fs::file_size(path("out")), 3'000'000u);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, AtomicFileWritesPiecesOfAnySize) {
  std::string all;
  auto file = AtomicFile::create(path("out"));
  ASSERT_TRUE(file);
  for (const size_t size : {size_t{1}, size_t{2} << 20, size_t{0}, (size_t{2} << 20) - 1, size_t{5} << 20,
                            (size_t{4} << 20) + 7, size_t{3000}}) {
    const std::string piece(size, static_cast<char>('a' + all.size() % 23));
    ASSERT_TRUE(file->write(piece.data(), piece.size()));
    all += piece;
    ASSERT_EQ(file->position(), all.size());
  }
  ASSERT_TRUE(file->commit());
  EXPECT_TRUE(*read_file(path("out")) == all);
}

constexpr AtomicFile::Data kWays[] = {AtomicFile::Data::nameless_if_possible, AtomicFile::Data::named};

void replace(const std::string& path, AtomicFile::Data way, const std::string& text) {
  auto file = AtomicFile::create(path, way);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->write(text.data(), text.size()));
  const auto committed = file->commit();
  ASSERT_TRUE(committed) << committed.error().message;
}

unsigned mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST_F(Files, AtomicFileKeepsTheModeOfWhatItReplaces) {
  const mode_t mask = ::umask(027);
  for (const auto way : kWays) {
    for (const mode_t mode : {0600, 0444, 0664, 0755}) {
      std::ofstream(path("secret")) << "old";
      ASSERT_EQ(::chmod(path("secret").c_str(), mode), 0);
      replace(path("secret"), way, "new");
      EXPECT_EQ(mode_of(path("secret")), mode);
      EXPECT_EQ(*read_file(path("secret")), "new");
      fs::remove(path("secret"));
    }
    replace(path("fresh"), way, "new");
    EXPECT_EQ(mode_of(path("fresh")), 0640u) << "a new one follows the mask";
    fs::remove(path("fresh"));
  }
  ::umask(mask);
}

TEST_F(Files, AtomicFileWritesThroughSymbolicLinks) {
  fs::create_directory(path("deep"));
  for (const auto way : kWays) {
    std::ofstream(path("target")) << "old";
    fs::create_symlink("target", path("link"));
    fs::create_symlink(path("deep") + "/../link", path("second"));  // a link to a link, absolute
    fs::create_symlink("deep/later", path("dangling"));
    fs::create_symlink("missing/file", path("nowhere"));
    fs::create_symlink("round", path("round"));
    replace(path("second"), way, "new");
    EXPECT_EQ(*read_file(path("target")), "new");
    replace(path("dangling"), way, "made");
    EXPECT_EQ(*read_file(path("deep/later")), "made");
    for (const char* link : {"link", "second", "dangling"}) EXPECT_TRUE(fs::is_symlink(path(link))) << link;
    for (const char* bad : {"nowhere", "round"}) {
      const auto file = AtomicFile::create(path(bad), way);
      ASSERT_FALSE(file);
      EXPECT_EQ(file.error().message.rfind(path(bad), 0), 0u) << file.error().message;
    }
    EXPECT_EQ(entries(), 7u) << "links, target and folder";
    fs::remove(path("deep/later"));
    for (const char* name : {"target", "link", "second", "dangling", "nowhere", "round"}) fs::remove(path(name));
  }
}

// A process that was killed leaves its temporary file where data must have names; ours may get the same id.
TEST_F(Files, LeftOverTemporariesBlockNoName) {
  for (const auto way : kWays) {
    for (const char* form : {"out.{}.tmp", "out.{}-0.tmp", "out.{}-1.tmp"})
      std::ofstream(path(fmt::format(fmt::runtime(form), ::getpid()).c_str())) << "left over";
    auto first = AtomicFile::create(path("out"), way);
    auto second = AtomicFile::create(path("out"), way);  // two at once
    ASSERT_TRUE(first && second);
    ASSERT_TRUE(first->write("1", 1) && second->write("2", 1));
    ASSERT_TRUE(first->commit());
    EXPECT_EQ(*read_file(path("out")), "1");
    ASSERT_TRUE(second->commit());
    EXPECT_EQ(*read_file(path("out")), "2");
    EXPECT_EQ(entries(), 4u) << "what others left stays theirs";
    for (const auto& entry : fs::directory_iterator(folder_)) fs::remove(entry.path());
  }
}

TEST_F(Files, ASignalHandlerCanRemoveWhatIsNotFinished) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGTERM, [](int) {
      remove_unfinished_files();
      ::_exit(7);
    });
    auto done = AtomicFile::create(path("done"), AtomicFile::Data::named);
    auto abandoned = AtomicFile::create(path("abandoned"), AtomicFile::Data::named);
    auto open = AtomicFile::create(path("open"), AtomicFile::Data::named);
    if (!done || !abandoned || !open || !done->commit()) ::_exit(1);
    abandoned = invalid("gone");
    if (std::distance(fs::directory_iterator(folder_), fs::directory_iterator()) != 2) ::_exit(2);
    ::raise(SIGTERM);
    ::_exit(3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7) << status;
  EXPECT_EQ(entries(), 1u);
  EXPECT_TRUE(fs::exists(path("done")));
}

TEST_F(Files, ErrorsNameThePathAndWhoHasToAct) {
  const auto missing = MappedFile::open(path("missing"));
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find(path("missing")), std::string::npos);
  EXPECT_EQ(exit_status(missing.error()), 2);
  const auto folder = MappedFile::open(folder_.string());
  ASSERT_FALSE(folder);
  EXPECT_EQ(exit_status(folder.error()), 2);
  const auto nowhere = AtomicFile::create(path("no/such/folder"));
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(exit_status(nowhere.error()), 2);
  std::ofstream(path("big")) << std::string(100, 'x');
  EXPECT_FALSE(read_file(path("big"), 99));
}

TEST_F(Files, APipeIsReadToItsEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string text(20'000, 'x');  // more than one read, less than a pipe holds
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  const std::string name = "/proc/self/fd/" + std::to_string(ends[0]);
  if (!fs::exists("/proc/self/fd")) GTEST_SKIP() << "no /proc here";
  const auto read = read_any_file(name, text.size());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, text);
  ::close(ends[0]);
  EXPECT_FALSE(read_file(name, text.size())) << "nor a pipe where a file is expected";
  const auto folder = read_any_file(folder_.string());
  ASSERT_FALSE(folder);
  EXPECT_EQ(exit_status(folder.error()), 2);
  std::ofstream(path("full")) << text;
  EXPECT_TRUE(read_file(path("full"), text.size()));
  EXPECT_FALSE(read_file(path("full"), text.size() - 1));
}

TEST_F(Files, EmptyFilesMap) {
  std::ofstream(path("empty")).flush();
  const auto file = MappedFile::open(path("empty"));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->bytes().size(), 0u);
}

TEST_F(Files, TraceIsJsonWithALanePerName) {
  Trace trace;
  { const TraceSpan span(&trace, "cpu", "mat\"mul"); }
  { const TraceSpan span(&trace, "decode", "step"); }
  { const TraceSpan nothing(nullptr, "cpu", "absent"); }
  ASSERT_TRUE(trace.write(path("trace.json")));
  const std::string json = *read_file(path("trace.json"));
  EXPECT_NE(json.find(R"("name":"mat\"mul")"), std::string::npos);
  EXPECT_NE(json.find(R"("args":{"name":"decode"})"), std::string::npos);
  EXPECT_EQ(json.find("absent"), std::string::npos);
}

TEST(ThreadPool, EveryIndexOnceForAnyNumberOfThreads) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (const int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
      std::atomic<bool> thread_in_range{true};
      pool.run(count, [&](int64_t i, int thread) {
        ++hits[static_cast<size_t>(i)];
        if (thread < 0 || thread >= threads) thread_in_range = false;
      });
      for (const auto& h : hits) EXPECT_EQ(h.load(), 1);
      EXPECT_TRUE(thread_in_range);
    }
  }
}

TEST(ThreadPool, ManyShortLoopsAndPauses) {
  ThreadPool pool(3);
  int64_t total = 0;
  for (int loop = 0; loop < 2000; ++loop) {
    std::array<int64_t, 6> out{};
    pool.run(6, [&](int64_t i, int) { out[static_cast<size_t>(i)] = i + loop; });
    total += std::accumulate(out.begin(), out.end(), int64_t{0});
    if (loop % 500 == 0) ::usleep(2000);  // long enough for the workers to go to sleep
  }
  EXPECT_EQ(total, 2000 * 15 + 6 * (1999 * 2000 / 2));
}

// A worker that the system does not let run holds up no loop that it has not entered.
std::atomic<bool> worker_is_held{false}, worker_may_go{false};

TEST(ThreadPool, AWorkerThatDoesNotRunIsNotWaitedFor) {
  ThreadPool pool(2);
  std::atomic<pthread_t> worker{};
  std::atomic<bool> known{false};
  while (!known)
    pool.run(2, [&](int64_t, int thread) {
      if (thread == 0) return ::usleep(100), void();
      worker = ::pthread_self();
      known = true;
    });
  worker_is_held = worker_may_go = false;
  const auto before = std::signal(SIGUSR1, [](int) {
    worker_is_held = true;
    while (!worker_may_go) ::usleep(100);
  });
  ASSERT_EQ(::pthread_kill(worker, SIGUSR1), 0);
  while (!worker_is_held) ::usleep(100);
  for (int loop = 0; loop < 3; ++loop) {
    std::vector<int> by(100, -1);
    pool.run(100, [&](int64_t i, int thread) { by[static_cast<size_t>(i)] = thread; });
    EXPECT_EQ(by, std::vector<int>(100, 0));
  }
  worker_may_go = true;
  for (known = false; !known;)
    pool.run(2, [&](int64_t, int thread) {
      if (thread == 0) ::usleep(100);
      if (thread == 1) known = true;
    });
  std::signal(SIGUSR1, before);
}

TEST(ThreadPool, WhatABodyThrowsLeavesTheCallAndThePoolWorksOn) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int loop = 0; loop < 20; ++loop) {
      std::atomic<int> inside = 0;
      const auto body = [&](int64_t i, int) {
        ++inside;
        if (i % 13 == loop % 13) throw std::out_of_range(std::to_string(i));
        --inside;
      };
      try {
        pool.run(100, body);
        ADD_FAILURE() << "nothing was thrown";
      } catch (const std::out_of_range& error) {
        EXPECT_EQ(std::stoi(error.what()) % 13, loop % 13);
      }
      const int left = inside;
      std::atomic<int64_t> sum = 0;
      pool.run(100, [&](int64_t i, int) { sum += i; });
      EXPECT_EQ(sum, 4950);
      EXPECT_EQ(inside, left) << "the first body is used no more";
    }
  }
}

TEST(WithinMemory, MakesErrorsOfRefusalsAndLetsBugsPass) {
  const auto kind_and_line = [](auto work) {
    const Status status = within_memory(work);
    return status ? std::pair(ErrorKind::invalid_input, std::string("well"))
                  : std::pair(status.error().kind, status.error().message);
  };
  EXPECT_EQ(kind_and_line([] { return Status(); }).second, "well");
  EXPECT_EQ(kind_and_line([]() -> Status { throw std::bad_alloc(); }),
            std::pair(ErrorKind::memory, std::string("out of memory")));
  const auto refused = [](std::errc code) {
    return [code]() -> Status { throw std::system_error(std::make_error_code(code)); };
  };
  EXPECT_EQ(kind_and_line(refused(std::errc::resource_unavailable_try_again)),
            std::pair(ErrorKind::memory, std::string("the system gives no thread or no memory for one")));
  EXPECT_EQ(kind_and_line(refused(std::errc::io_error)).first, ErrorKind::failed);
  EXPECT_THROW(static_cast<void>(within_memory([]() -> Status { throw std::logic_error("a bug"); })), std::logic_error);
}

TEST(Random, IsAFunctionOfItsCountersAndUniform) {
  EXPECT_EQ(uniform(1, 2, 3, 4), uniform(1, 2, 3, 4));
  EXPECT_NE(uniform(1, 2, 3, 4), uniform(1, 2, 4, 3));
  EXPECT_NE(uniform(1, 2, 3, 4), uniform(2, 2, 3, 4));
  double sum = 0, squares = 0;
  constexpr int kDraws = 100000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double u = uniform(9, i % 7, i / 1000, i);
    ASSERT_GT(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.005);
}

}  // namespace
}  // namespace llada
