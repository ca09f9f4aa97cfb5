// llada pack and --pack-cache as a user sees them.
#include "cli/process.h"
#include "engine/convert.h"

namespace llada::test {
namespace {

class Pack : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(convert_model({.path = tiny_model(), .out_path = model, .type = "q8_0", .imatrix = {}}, {}));
  }

  ProcessResult run(Words words) const {
    return run_llada(words, {.environment = {"XDG_CACHE_HOME=" + folder.path()}});
  }
  ProcessResult answer(const Words& more = {}) const {
    return run(
        with({"run", "-m", model, "-p", "Sort the numbers from smallest to largest: 38 41 6", "-n", "16"}, more));
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
  EXPECT_THAT(run({"pack", model}).out, HasSubstr(", was there"));
  const auto with = answer({"--verbose"});
  EXPECT_EQ(with.out, without.out);
  EXPECT_THAT(with.err, Not(HasSubstr("warning")));
  EXPECT_THAT(run({"pack", "--verify", model}).out, HasSubstr("every checksum is right"));
  EXPECT_EQ(list().at("packed").at(0).at("state"), "ready");
  EXPECT_THAT(run({"pack", "--list"}).out, HasSubstr(fs::canonical(model).string() + "  ready"));

  fs::last_write_time(model, fs::last_write_time(model) + std::chrono::seconds(5));
  EXPECT_EQ(list().at("packed").at(0).at("state"), "its model has changed");
  const auto off = answer({"--pack-cache", "off"});
  EXPECT_EQ(off.out, without.out);
  EXPECT_THAT(off.err, Not(HasSubstr("warning")));
  const auto again = answer();
  EXPECT_EQ(again.out, without.out);
  EXPECT_THAT(again.err, HasSubstr("llada: warning: "));
  EXPECT_THAT(again.err, HasSubstr("the model's file has changed since it was packed; the weights are packed again\n"));
  EXPECT_EQ(list().at("packed").at(0).at("state"), "ready");

  EXPECT_EQ(run({"pack", "--remove", model}).status, 0);
  EXPECT_TRUE(list().at("packed").empty());
  expect_one_line(run({"pack", "--remove", model}), 2, "has no packed weights in");
  ASSERT_EQ(run({"pack", model}).status, 0);
  fs::remove(model);
  EXPECT_THAT(run({"pack", "--prune"}).out, HasSubstr("removed"));
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
  std::optional<FileLimit> limit(1 << 20);
  const auto made = run({"pack", model}), with = answer({"--pack-cache", cache});
  limit.reset();
  expect_one_line(made, 1, "write failed: File too large");
  EXPECT_EQ(with.status, 0);
  EXPECT_EQ(with.out, without.out);
  EXPECT_THAT(with.err, HasSubstr("File too large; the weights are packed in memory\n"));
  EXPECT_TRUE(list().at("packed").empty());
  for (const auto& entry : fs::directory_iterator(cache)) EXPECT_EQ(entry.path().extension(), ".lock") << entry.path();
}

}  // namespace
}  // namespace llada::test
