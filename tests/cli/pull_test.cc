// llada pull, -hf and what is said of paths that are no model: the program against a stand-in hub.

#include "base/file.h"
#include "cli/hub_access.h"
#include "cli/process.h"
#include "formats/rounded_fixture.h"
#include "hub/stand_in.h"

namespace llada::test {
namespace {

class PullCli : public ::testing::Test {
 protected:
  void SetUp() override {
    std::map<std::string, StandInHub::File> files = {{"README.md", {"# a model"}}, {"logo.png", {"png"}}};
    for (const auto& entry : fs::directory_iterator(tiny_model())) {
      const std::string file = entry.path().filename().string();
      files[file] = {*read_file(entry.path()), file.ends_with(".safetensors")};
    }
    hub.emplace(files, "tiny/llada");
  }
  void TearDown() override { hub.reset(); }
  Words environment(const Words& more = {}) const {
    return with(with({"HF_ENDPOINT=" + hub->endpoint(), "HF_HOME=" + (root / "hf").string()},
                     split("no_proxy=* HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_TOKEN HF_TOKEN_PATH HF_HUB_OFFLINE "
                           "HUGGING_FACE_HUB_TOKEN TERM=xterm")),
                more);
  }
  ProcessResult llada(const Words& words, const Words& more = {}) const {
    return run_llada(words, {.environment = environment(more)});
  }
  const TempFolder temp_;
  const fs::path root = temp_.path();
  std::optional<StandInHub> hub;
};

TEST_F(PullCli, AModelIsPulledRunAndListed) {
  LLADA_NEEDS_DOWNLOADS();
  const Json report = json_of({"pull", "tiny/llada", "--json"}, {.environment = environment()});
  const fs::path folder = report["path"].get<std::string>();
  EXPECT_EQ(folder, root / "hf/hub/models--tiny--llada/snapshots" / hub->commit);
  EXPECT_EQ(report["bytes"], report["downloaded_bytes"]);
  EXPECT_FALSE(fs::exists(folder / "README.md"));
  EXPECT_FALSE(fs::exists(folder / "logo.png"));

  const Words rest = {"-p", "Sort the numbers from smallest to largest: 3 1 2", "--gen-length", "8", "--json"};
  const Json offline =
      json_of(with({"run", "-hf", "tiny/llada"}, rest), {.environment = environment({"HF_HUB_OFFLINE=1"})});
  EXPECT_EQ(offline["stats"]["canvas_hash"], json_of(with({"run", "-m", tiny_model()}, rest))["stats"]["canvas_hash"]);

  const auto list = llada({"pull", "--list"});
  EXPECT_THAT(list.out, HasSubstr("tiny/llada"));
  const Json listed = Json::parse(llada({"pull", "--list", "--json"}).out);
  ASSERT_EQ(listed["snapshots"].size(), 1u);
  EXPECT_EQ(listed["snapshots"][0]["bytes"], report["bytes"]);
  EXPECT_EQ(listed["snapshots"][0]["revisions"], Json({"main"}));
  done({"inspect", "-hf", "tiny/llada", "--json"}, {.environment = environment()});

  EXPECT_EQ(json_of({"pull", "--delete", "tiny/llada", "--json"}, {.environment = environment()}),
            Json({{"removed", "tiny/llada"}, {"bytes", report["bytes"]}}));
  EXPECT_FALSE(fs::exists(root / "hf/hub/models--tiny--llada"));
  expect_one_line(llada({"pull", "--delete", "tiny/llada"}), 2, "models--tiny--llada: nothing of it is cached");
}

// Folders of every scheme that other software rounds weights by; ModelOpt writes its settings beside config.json, too.
TEST_F(PullCli, RoundedFoldersArePulledAndRun) {
  LLADA_NEEDS_DOWNLOADS();
  using namespace testing_models;
  const auto pulled = [&](const std::map<std::string, std::string>& files, const std::string& name) {
    std::map<std::string, StandInHub::File> served;
    for (const auto& [file, content] : files) served[file] = {content, file.ends_with(".safetensors")};
    hub.emplace(served, "some/" + name);
    const ProcessResult pull = llada({"pull", "some/" + name, "--json"});
    EXPECT_EQ(pull.status, 0) << name << ": " << pull.err;
    if (pull.status != 0) return Json();
    const std::string folder = Json::parse(pull.out)["path"];
    EXPECT_EQ(llada({"run", folder, "--raw", "-p", "abc", "-n", "8"}).status, 0) << name;
    return Json::parse(llada({"inspect", folder, "--json"}).out);
  };
  for (const RoundedForm& form : rounded_forms()) {
    const Json said = pulled(files_of(rounded_folder(config_of_bytes(&kLladaFamily), form)), form.name);
    EXPECT_THAT(said.dump(), HasSubstr("rounded by other software")) << form.name;
    EXPECT_THAT(said.dump(), HasSubstr(traits(form.type).name)) << form.name;
  }
  RoundedForm form = rounded_form("nvfp4_modelopt");
  form.config = R"("quantization_config":null)";
  auto files = files_of(rounded_folder(config_of_bytes(&kLladaFamily), form));
  files["hf_quant_config.json"] = R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"NVFP4"}})";
  EXPECT_THAT(pulled(files, "beside").dump(), HasSubstr("rounded by other software"));
}

// Before the weights: what cannot be opened is not downloaded.
TEST_F(PullCli, AFolderThatCannotBeOpenedIsRefusedEarly) {
  LLADA_NEEDS_DOWNLOADS();
  auto files = hub->files;
  const auto refused = [&](const std::string& says) {
    hub.emplace(files, "tiny/llada");
    const auto result = llada({"pull", "tiny/llada"});
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err, HasSubstr(says));
    EXPECT_TRUE(hub->asked_elsewhere().empty()) << "where the weights are";
  };
  const std::string config = files["config.json"].content;
  const auto tokenizer = files["tokenizer.json"];
  const auto be = [&](const char* architecture) {
    fs::remove_all(root / "hf");
    files["config.json"].content = config;
    files["config.json"].content.replace(config.find("LLaDAModelLM"), 12, architecture);
  };
  files.erase("tokenizer.json");
  files["tokenizer.model"] = {"sentencepiece"};
  refused("needed tokenizer.json, or vocab.json and merges.txt");
  be("BertForMasked");
  refused("architectures: found \"BertForMasked\"");
  // What its files do not say may be said, and stands in the command that runs it.
  files["tokenizer.json"] = tokenizer;
  be("LlamaForCausalLM");
  refused("needed --attention-block N");
  const auto pulled = llada({"pull", "tiny/llada", "--attention-block", "32", "--shift", "false"});
  EXPECT_EQ(pulled.status, 0) << pulled.err;
  EXPECT_THAT(pulled.err, HasSubstr("llada run -hf tiny/llada --attention-block 32 --shift false -p"));
  be("Gemma2ForCausalLM");
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
  EXPECT_THAT(pulled.out, HasSubstr("models--JetLM--SDAR-1.7B-Chat"));
  const Words rest = {"Sort the numbers from smallest to largest: 3 1 2", "--gen-length", "8", "--quiet"};
  const ProcessInput offline{.environment = environment({"HF_HUB_OFFLINE=1"})};
  EXPECT_EQ(done(with({"run", "sdar-1.7b"}, rest), offline).out, run_llada(with({"run", tiny_model()}, rest)).out);
  done({"inspect", "sdar-1.7b", "--json"}, offline);
  const std::string made = (root / "made.gguf").string();
  done({"convert", "sdar-1.7b", made, "--type", "f16"}, offline);
  EXPECT_TRUE(fs::exists(made));
  expect_one_line(llada({"convert", "", made, "--type", "f16"}), 2, "'' is no path: needed a file or a folder");
  fs::remove_all(root / "hf");
  expect_one_line(run_llada({"convert", "sdar-1.7b", made, "--type", "q9"}, offline), 2,
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
    EXPECT_THAT(refused.err, Not(HasSubstr("hf_from")));
  }
  const auto broken = llada({"pull", "tiny/llada"}, {"HF_TOKEN=hf_x\r\nX-Evil: 1"});
  expect_one_line(broken, 2, "characters that no token has");
  EXPECT_THAT(broken.err, Not(HasSubstr("Evil")));
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
    EXPECT_THAT(stopped.out, HasSubstr("the same command goes on from here"));
    EXPECT_THAT(stopped.out, HasSubstr(" of "));
  }
  const Json report = Json::parse(llada({"pull", "tiny/llada", "--json"}).out);
  EXPECT_LT(report["downloaded_bytes"], report["bytes"]) << "what the first two had is used";
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

TEST(ShippedModel, LiesBesideTheProgramsFolder) {
  const TempFolder temp;
  const fs::path root = temp.path(), file = root / "share/llada/tiny-llada.gguf";
  EXPECT_TRUE(cli::is_short_name("tiny-llada"));
  const auto missing = cli::shipped_model(root / "bin");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::invalid_input);
  EXPECT_TRUE(missing.error().message.contains("found no " + file.string())) << missing.error().message;
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "a model";
  const auto found = cli::shipped_model(root / "bin");
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, file);
}

}  // namespace
}  // namespace llada::test
