// Files that are replaced whole or not at all, the thread pool, traces, random numbers.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/file.h"
#include "base/random.h"
#include "base/threads.h"
#include "base/trace.h"

namespace llada {
namespace {

namespace fs = std::filesystem;

class TemporaryFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "llada-base-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
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
  const auto read = read_file(name, text.size());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, text);
  ::close(ends[0]);
  const auto folder = read_file(folder_.string());
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
