// llada pull, -hf and what is said of paths that are no model: the program against a stand-in hub.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/hub_access.h"
#include "cli/process.h"
#include "formats/temp_folder.h"
#include "hub/stand_in.h"

namespace llada::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class PullCli : public ::testing::Test {
 protected:
  void SetUp() override {
    std::map<std::string, StandInHub::File> files = {{"README.md", {"# a model"}}, {"logo.png", {"png"}}};
    for (const auto& entry : fs::directory_iterator(tiny_model())) {
      const std::string file = entry.path().filename().string();
      files[file] = {content_of(entry.path()), file.ends_with(".safetensors")};
    }
    hub.emplace(files, "tiny/llada");
  }
  void TearDown() override { hub.reset(); }
  std::vector<std::string> environment(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> list = {"HF_ENDPOINT=" + hub->endpoint(),
                                     "HF_HOME=" + (root / "hf").string(),
                                     "no_proxy=*",
                                     "HF_HUB_CACHE",
                                     "HUGGINGFACE_HUB_CACHE",
                                     "HF_TOKEN",
                                     "HF_TOKEN_PATH",
                                     "HF_HUB_OFFLINE",
                                     "HUGGING_FACE_HUB_TOKEN",
                                     "TERM=xterm"};
    list.insert(list.end(), more.begin(), more.end());
    return list;
  }
  ProcessResult llada(const Words& words, const std::vector<std::string>& more = {}) const {
    return run_llada(words, {.environment = environment(more)});
  }
  void expect_one_line(const ProcessResult& result, int status, const std::string& says) {
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }
  const TempFolder temp_;
  const fs::path root = temp_.path();
  std::optional<StandInHub> hub;
};

TEST_F(PullCli, AModelIsPulledRunAndListed) {
  LLADA_NEEDS_DOWNLOADS();
  const auto pulled = llada({"pull", "tiny/llada", "--json"});
  ASSERT_EQ(pulled.status, 0) << pulled.err;
  const Json report = Json::parse(pulled.out);
  const fs::path folder = report["path"].get<std::string>();
  EXPECT_EQ(folder, root / "hf/hub/models--tiny--llada/snapshots" / hub->commit);
  EXPECT_EQ(report["bytes"], report["downloaded_bytes"]);
  EXPECT_FALSE(fs::exists(folder / "README.md"));
  EXPECT_FALSE(fs::exists(folder / "logo.png"));

  const Words rest = {"-p", "Sort the numbers from smallest to largest: 3 1 2", "--gen-length", "8", "--json"};
  Words from_hub = {"run", "-hf", "tiny/llada"}, from_folder = {"run", "-m", tiny_model()};
  from_hub.insert(from_hub.end(), rest.begin(), rest.end());
  from_folder.insert(from_folder.end(), rest.begin(), rest.end());
  const auto offline = llada(from_hub, {"HF_HUB_OFFLINE=1"});
  ASSERT_EQ(offline.status, 0) << offline.err;
  EXPECT_EQ(Json::parse(offline.out)["stats"]["canvas_hash"],
            Json::parse(run_llada(from_folder).out)["stats"]["canvas_hash"]);

  const auto list = llada({"pull", "--list"});
  EXPECT_NE(list.out.find("tiny/llada"), std::string::npos) << list.out;
  const Json listed = Json::parse(llada({"pull", "--list", "--json"}).out);
  ASSERT_EQ(listed["snapshots"].size(), 1u);
  EXPECT_EQ(listed["snapshots"][0]["bytes"], report["bytes"]);
  EXPECT_EQ(listed["snapshots"][0]["revisions"], Json({"main"}));
  const auto inspected = llada({"inspect", "-hf", "tiny/llada", "--json"});
  EXPECT_EQ(inspected.status, 0) << inspected.err;

  const auto removed = llada({"pull", "--delete", "tiny/llada", "--json"});
  ASSERT_EQ(removed.status, 0) << removed.err;
  EXPECT_EQ(Json::parse(removed.out), Json({{"removed", "tiny/llada"}, {"bytes", report["bytes"]}}));
  EXPECT_FALSE(fs::exists(root / "hf/hub/models--tiny--llada"));
  expect_one_line(llada({"pull", "--delete", "tiny/llada"}), 2, "models--tiny--llada: nothing of it is cached");
}

// Before the weights: what cannot be opened is not downloaded.
TEST_F(PullCli, AFolderThatCannotBeOpenedIsRefusedEarly) {
  LLADA_NEEDS_DOWNLOADS();
  auto files = hub->files;
  const auto refused = [&](const std::string& says) {
    hub.emplace(files, "tiny/llada");
    const auto result = llada({"pull", "tiny/llada"});
    EXPECT_EQ(result.status, 2);
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_TRUE(hub->asked_elsewhere().empty()) << "where the weights are";
  };
  const auto config = files["config.json"];
  const auto tokenizer = files["tokenizer.json"];
  files.erase("tokenizer.json");
  files["tokenizer.model"] = {"sentencepiece"};
  refused("needed tokenizer.json, or vocab.json and merges.txt");
  fs::remove_all(root / "hf");
  files["config.json"].content.replace(config.content.find("LLaDAModelLM"), 12, "BertForMasked");
  refused("architectures: found \"BertForMasked\"");
  // What its files do not say may be said, and stands in the command that runs it.
  fs::remove_all(root / "hf");
  files["tokenizer.json"] = tokenizer;
  files["config.json"].content = config.content;
  files["config.json"].content.replace(config.content.find("LLaDAModelLM"), 12, "LlamaForCausalLM");
  refused("needed --attention-block N");
  const auto pulled = llada({"pull", "tiny/llada", "--attention-block", "32", "--shift", "false"});
  EXPECT_EQ(pulled.status, 0) << pulled.err;
  EXPECT_NE(pulled.err.find("llada run -hf tiny/llada --attention-block 32 --shift false -p"), std::string::npos)
      << pulled.err;
  fs::remove_all(root / "hf");
  files["config.json"].content = config.content;
  files["config.json"].content.replace(config.content.find("LLaDAModelLM"), 12, "Gemma2ForCausalLM");
  refused("architectures: found \"Gemma2ForCausalLM\", which is an ordinary, autoregressive model's");
}

// Of a GGUF file nothing is here yet that could be judged: the hub's own word for it is.
TEST_F(PullCli, AnOrdinaryModelsFileIsNamedBeforeItIsDownloaded) {
  LLADA_NEEDS_DOWNLOADS();
  hub.emplace(std::map<std::string, StandInHub::File>{{"gemma-Q4_0.gguf", {"GGUF", true}}}, "tiny/llada");
  hub->change = [](const WebRequest& request, WebReply& reply) {
    if (request.path.starts_with("/api/")) reply.body.insert(1, R"("gguf": {"architecture": "gemma3"}, )");
  };
  expect_one_line(llada({"pull", "tiny/llada", "--shift", "maybe"}), 2, "--shift: found 'maybe', needed true or false");
  expect_one_line(llada({"pull", "tiny/llada"}), 2,
                  "tiny/llada: general.architecture is \"gemma3\", which is an ordinary, autoregressive model's, which "
                  "other programs run; its weights were not downloaded");
  EXPECT_TRUE(hub->asked_elsewhere().empty());
}

TEST_F(PullCli, AShortNameStandsWhereAModelDoes) {
  LLADA_NEEDS_DOWNLOADS();
  auto files = hub->files;
  hub.emplace(files, "JetLM/SDAR-1.7B-Chat");
  const auto pulled = llada({"pull", "sdar-1.7b"});
  ASSERT_EQ(pulled.status, 0) << pulled.err;
  EXPECT_NE(pulled.out.find("models--JetLM--SDAR-1.7B-Chat"), std::string::npos) << pulled.out;
  const Words rest = {"Sort the numbers from smallest to largest: 3 1 2", "--gen-length", "8", "--quiet"};
  Words named = {"run", "sdar-1.7b"}, by_folder = {"run", tiny_model()};
  named.insert(named.end(), rest.begin(), rest.end());
  by_folder.insert(by_folder.end(), rest.begin(), rest.end());
  const auto ran = llada(named, {"HF_HUB_OFFLINE=1"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, run_llada(by_folder).out);
  EXPECT_EQ(llada({"inspect", "sdar-1.7b", "--json"}, {"HF_HUB_OFFLINE=1"}).status, 0);
  const std::string made = (root / "made.gguf").string();
  const auto converted = llada({"convert", "sdar-1.7b", made, "--type", "f16"}, {"HF_HUB_OFFLINE=1"});
  EXPECT_EQ(converted.status, 0) << converted.err;
  EXPECT_TRUE(fs::exists(made));
  expect_one_line(llada({"convert", "", made, "--type", "f16"}), 2, "'' is no path: needed a file or a folder");
  fs::remove_all(root / "hf");
  expect_one_line(llada({"convert", "sdar-1.7b", made, "--type", "q9"}, {"HF_HUB_OFFLINE=1"}), 2,
                  "found 'q9', needed one of f32");  // not that the model is not cached
}

TEST_F(PullCli, HomeIsFoundInHfHome) {
  LLADA_NEEDS_DOWNLOADS();
  const auto listed = llada({"pull", "--list"}, {"HOME=" + root.string(), "HF_HOME=~/of it"});
  EXPECT_TRUE(listed.out.starts_with((root / "of it/hub").string())) << listed.out;
  const auto cache = llada({"pull", "--list"}, {"HOME=" + root.string(), "HF_HUB_CACHE=~"});
  EXPECT_TRUE(cache.out.starts_with(root.string() + ":")) << cache.out;
}

TEST_F(PullCli, ATokenIsSentAndNeverShown) {
  LLADA_NEEDS_DOWNLOADS();
  hub->instead = [](const WebRequest& request) {
    return WebReply{.status = 403, .headers = {{"X-Error-Code", "GatedRepo"}}, .body = request.header("authorization")};
  };
  fs::create_directories(root / "hf");
  std::ofstream(root / "hf" / "token") << "hf_from_file\n";
  for (const bool in_file : {false, true}) {
    const auto refused = llada({"pull", "tiny/llada"}, in_file ? Words{} : Words{"HF_TOKEN=hf_from_environment"});
    expect_one_line(refused, 2, "accept its terms");
    EXPECT_EQ(hub->asked().back().header("authorization"),
              in_file ? "Bearer hf_from_file" : "Bearer hf_from_environment");
    EXPECT_EQ(refused.err.find("hf_from"), std::string::npos) << refused.err;
  }
  const auto broken = llada({"pull", "tiny/llada"}, {"HF_TOKEN=hf_x\r\nX-Evil: 1"});
  expect_one_line(broken, 2, "characters that no token has");
  EXPECT_EQ(broken.err.find("Evil"), std::string::npos);
}

TEST_F(PullCli, CtrlCLeavesWhatTheNextCallGoesOnWith) {
  LLADA_NEEDS_DOWNLOADS();
  LLADA_NEEDS_TERMINAL();
  hub->change = [](const WebRequest& request, WebReply& reply) {
    if (request.path.ends_with(".safetensors")) reply.pause_ms = 10;
  };
  for (const Words& words : {Words{"pull", "tiny/llada"}, Words{"run", "-hf", "tiny/llada", "-p", "x"}}) {
    const auto stopped = run_llada_on_terminal(words, {.environment = environment(), .interrupt_after = "10 %"});
    EXPECT_TRUE(stopped.status == 130 || stopped.status == 1000 + 2) << stopped.status << stopped.out;
    EXPECT_NE(stopped.out.find("the same command goes on from here"), std::string::npos) << stopped.out;
    EXPECT_NE(stopped.out.find(" of "), std::string::npos) << stopped.out;
  }
  const Json report = Json::parse(llada({"pull", "tiny/llada", "--json"}).out);
  EXPECT_LT(report["downloaded_bytes"], report["bytes"]) << "what the first two had is used";
}

TEST_F(PullCli, WrongRequestsAreOneLine) {
  expect_one_line(llada({"pull"}), 2, "needs OWNER/NAME, or --list");
  expect_one_line(llada({"pull", "tiny/llada", "--list"}), 2, "--list");
  expect_one_line(llada({"pull", "tiny"}), 2, "needed OWNER/NAME");
  expect_one_line(llada({"pull", "tiny/llada", "--offline"}), 2, "not in the cache (offline");
  expect_one_line(llada({"pull", "tiny/llada"}, {"HF_ENDPOINT=ftp://x"}), 2, "HF_ENDPOINT");
  expect_one_line(llada({"run", "-hf", "tiny", "-p", "x"}), 2, "-hf: 'tiny'");
  expect_one_line(llada({"run", "-hf", "tiny/llada", "-m", tiny_model(), "-p", "x"}), 2, "-m: not together with -hf");
}

// A path that is no model is told apart from one that is missing, and the way to a model is named.
TEST_F(PullCli, WhatAPathIsInsteadOfAModel) {
  const fs::path clone = root / "clone", pickles = root / "pickles", empty = root / "empty", many = root / "many";
  for (const fs::path& folder : {clone, pickles, empty, many}) fs::create_directories(folder);
  for (const fs::path& folder : {clone, pickles}) fs::copy(tiny_model() + "/config.json", folder / "config.json");
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') + "\nsize 16000000000\n";
  std::ofstream(clone / "model.safetensors") << pointer;
  std::ofstream(root / "m.gguf") << pointer;
  std::ofstream(pickles / "pytorch_model.bin") << "PK";
  std::ofstream(many / "a-Q8_0.gguf") << "GGUF";
  std::ofstream(many / "b.gguf") << "GGUF";
  const std::pair<std::string, std::string> cases[] = {
      {"GSAI-ML/LLaDA-8B-Instruct", "is taken by -hf GSAI-ML/LLaDA-8B-Instruct"},
      {"https://huggingface.co/GSAI-ML/LLaDA-8B-Instruct", "an address, needed a file or a folder"},
      {clone.string(), "a Git LFS pointer of"},
      {(root / "m.gguf").string(), "a Git LFS pointer of"},
      {pickles.string(), "Python pickles"},
      {empty.string(), "no model"},
      {many.string(), "name the file: " + (many / "a-Q8_0.gguf").string() + " (2 in all)"},
      {(root / "missing").string(), "No such file"},
      {"./missing/x", "No such file"},
      {"", "'' is no path"},
  };
  for (const auto& [path, says] : cases) {
    expect_one_line(llada({"inspect", path}), 2, says);
    expect_one_line(llada({"run", "-m", path, "-p", "x"}), 2, says);
  }
}

TEST(TransferText, SaysRateAndTimeLeft) {
  using Clock = cli::TransferText::Clock;
  const Clock::time_point begin{};
  cli::TransferText text;
  EXPECT_EQ(text.update(1'000'000'000, 16'000'000'000, begin), "1.0 GB of 16 GB");
  EXPECT_EQ(text.update(1'400'000'000, 16'000'000'000, begin + std::chrono::seconds(10)),
            "1.4 GB of 16 GB, 40 MB/s, about 6 min left");
  // The last ten seconds count, not the pause before them.
  EXPECT_EQ(text.update(1'400'000'000, 16'000'000'000, begin + std::chrono::seconds(100)), "1.4 GB of 16 GB");
  EXPECT_EQ(text.update(2'400'000'000, 16'000'000'000, begin + std::chrono::seconds(110)),
            "2.4 GB of 16 GB, 100 MB/s, about 2 min left");
  EXPECT_EQ(cli::TransferText().update(7, -1, begin), "7 B");
}

}  // namespace
}  // namespace llada::test
