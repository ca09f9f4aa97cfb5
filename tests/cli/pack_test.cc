// llada pack and --pack-cache as a user sees them.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "engine/convert.h"
#include "formats/temp_folder.h"

namespace llada::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Pack : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(convert_model(tiny_model(), model, "q8_0", {})); }

  ProcessResult run(Words words) const {
    return run_llada(words, {.environment = {"XDG_CACHE_HOME=" + folder.path()}});
  }
  ProcessResult answer(Words more = {}) const {
    Words words = {"run",          "-m", model, "-p", "Sort the numbers from smallest to largest: 38 41 6",
                   "--gen-length", "16"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  Json list() const { return Json::parse(run({"pack", "--list", "--json"}).out); }

  TempFolder folder;
  const std::string model = folder / "model.gguf", cache = folder / "llada/packed";
};

TEST_F(Pack, MakesListsChecksAndRemoves) {
  const auto without = answer();
  ASSERT_EQ(without.status, 0) << without.err;
  EXPECT_FALSE(fs::exists(cache));
  const auto made = run({"pack", model, "--json"});
  ASSERT_EQ(made.status, 0) << made.err;
  const Json report = Json::parse(made.out);
  EXPECT_TRUE(report.at("made"));
  EXPECT_EQ(report.at("bytes"), fs::file_size(report.at("path").get<std::string>()));
  EXPECT_NE(run({"pack", model}).out.find(", was there"), std::string::npos);
  const auto with = answer({"--verbose"});
  EXPECT_EQ(with.out, without.out);
  EXPECT_EQ(with.err.find("warning"), std::string::npos) << with.err;
  EXPECT_NE(run({"pack", "--verify", model}).out.find("every checksum is right"), std::string::npos);
  EXPECT_EQ(list().at("packed").at(0).at("state"), "ready");
  EXPECT_NE(run({"pack", "--list"}).out.find(fs::canonical(model).string() + "  ready"), std::string::npos);

  fs::last_write_time(model, fs::last_write_time(model) + std::chrono::seconds(5));
  EXPECT_EQ(list().at("packed").at(0).at("state"), "its model has changed");
  const auto off = answer({"--pack-cache", "off"});
  EXPECT_EQ(off.out, without.out);
  EXPECT_EQ(off.err.find("warning"), std::string::npos) << off.err;
  const auto again = answer();
  EXPECT_EQ(again.out, without.out);
  EXPECT_NE(again.err.find("llada: warning: "), std::string::npos);
  EXPECT_NE(again.err.find("the model's file has changed since it was packed; the weights are packed again\n"),
            std::string::npos)
      << again.err;
  EXPECT_EQ(list().at("packed").at(0).at("state"), "ready");

  EXPECT_EQ(run({"pack", "--remove", model}).status, 0);
  EXPECT_TRUE(list().at("packed").empty());
  const auto nothing = run({"pack", "--remove", model});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_NE(nothing.err.find("has no packed weights in"), std::string::npos) << nothing.err;
  ASSERT_EQ(run({"pack", model}).status, 0);
  fs::remove(model);
  EXPECT_NE(run({"pack", "--prune"}).out.find("removed"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(cache));
}

TEST_F(Pack, AFolderOfTheUsersIsFilledByTheFirstStart) {
  const std::string own = folder / "own";
  const auto first = answer({"--pack-cache", own}), second = answer({"--pack-cache", own});
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(second.out, first.out);
  EXPECT_EQ(Json::parse(run({"pack", "--list", "--pack-cache", own, "--json"}).out).at("packed").size(), 1u);
  EXPECT_FALSE(fs::exists(cache));
}

TEST_F(Pack, ADiskThatIsFullIsOneLineAndTheAnswerComes) {
  const auto without = answer();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1 << 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto made = run({"pack", model});
  const auto with = answer({"--pack-cache", cache});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(made.status, 1);
  EXPECT_NE(made.err.find("write failed: File too large"), std::string::npos) << made.err;
  EXPECT_EQ(std::ranges::count(made.err, '\n'), 1) << made.err;
  EXPECT_EQ(with.status, 0);
  EXPECT_EQ(with.out, without.out);
  EXPECT_NE(with.err.find("File too large; the weights are packed in memory\n"), std::string::npos) << with.err;
  EXPECT_TRUE(list().at("packed").empty());
  for (const auto& entry : fs::directory_iterator(cache)) EXPECT_EQ(entry.path().extension(), ".lock") << entry.path();
}

}  // namespace
}  // namespace llada::test
