// Nemotron-Labs-Diffusion: logits and whole answers of Ministral 3's class with the family's masks, and of loops
// written apart from this program (tools/upstream/nemotron.py); and self-speculation on other models.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/pretokenizer_regexes.h"
#include "devices/small_model.h"
#include "engine/class_goldens.h"
#include "engine/inspect.h"
#include "engine/session.h"
#include "failing/failing_device.h"
#include "formats/convert.h"
#include "formats/family.h"
#include "formats/temp_folder.h"
#include "geometry/peaked_engine.h"
#include "hexagon/hexagon_tools.h"
#include "kernels/kernels.h"
#include "memory/prefix_cache.h"

namespace llada::nemotron {
namespace {

using decode::Acceptance;
using nlohmann::json;
using testing::HasSubstr;
using upstream::Converted, upstream::expect_answer, upstream::expect_logits, upstream::generate;

const std::string kMade = LLADA_SOURCE_DIR "/tests/data/nemotron/";

const json& golden() {
  static const json all = json::parse(std::ifstream(kMade + "golden.json"));
  return all;
}

// As a file of its own architecture; made once.
const std::string& converted() {
  static const Converted made(kMade + "folder", "nemotron");
  return made.path;
}

std::shared_ptr<const Model> load(const std::string& path, LoadOptions options = {}) {
  options.threads = 2;
  if (path.starts_with(kMade)) options.overrides = {.mask_id = golden()["mask"], .attention_block = golden()["block"]};
  return *must(Model::load(path, options));
}

decode::DecodeOptions plain(const json& answer, Acceptance rule, decode::KvChoice kv = decode::KvChoice::block) {
  decode::DecodeOptions o;
  o.gen_length = answer["length"];
  o.block_length = golden()["block"];
  o.acceptance = rule, o.threshold = answer["threshold"];
  o.kv = kv;
  o.early_stop = decode::EarlyStop::none;
  return o;
}

TEST(Nemotron, LogitsAndAnswersAreThoseOfItsClassAndLoops) {
  for (const std::string& file : {converted(), kMade + "model.gguf"}) {
    const auto model = load(file);
    expect_logits(model, golden()["logits"], file);
    for (const json& answer : golden()["answers"]) {
      const std::string what = fmt::format("{}, a prompt of {}", file, answer["prompt"].size());
      const Generation blocks = generate(model, answer, plain(answer, Acceptance::threshold));
      expect_answer(answer["blocks"], blocks, what);
      EXPECT_EQ(blocks.stats.decode.nfe, answer["blocks"]["forwards"].get<int64_t>()) << what;
      const Generation verified = generate(model, answer, plain(answer, Acceptance::causal));
      expect_answer(answer["verified"], verified, what + ", verified");
      EXPECT_EQ(verified.stats.decode.nfe, answer["verified"]["forwards"].get<int64_t>()) << what;
      decode::DecodeOptions one = plain(answer, Acceptance::threshold);
      one.block_length = 1;  // nothing but the token that the causal pass says
      const Generation causal = generate(model, answer, one);
      expect_answer(answer["autoregressive"], causal, what + ", one token after the other");
      EXPECT_EQ(causal.stats.decode.nfe, answer["autoregressive"]["forwards"].get<int64_t>());
      EXPECT_EQ(verified.tokens, causal.tokens) << "drafts change no token";
    }
  }
}

// labels: native
TEST(Nemotron, EveryInstructionSetGivesTheSameAnswers) {
  for (const auto* table : kernels::available()) {
    const std::string what(table->isa);
    const auto model = load(converted(), {.isa = what});
    expect_logits(model, golden()["logits"], what);
    for (const json& answer : golden()["answers"]) {
      expect_answer(answer["blocks"], generate(model, answer, plain(answer, Acceptance::threshold)), what);
      expect_answer(answer["verified"], generate(model, answer, plain(answer, Acceptance::causal)), what);
    }
  }
}

TEST(Nemotron, WhatIsKeptIsWhatWouldBeComputed) {
  const auto model = load(converted());
  for (const json& answer : golden()["answers"])
    for (const Acceptance rule : {Acceptance::threshold, Acceptance::causal}) {
      const Generation kept = generate(model, answer, plain(answer, rule));
      const Generation all = generate(model, answer, plain(answer, rule, decode::KvChoice::none));
      EXPECT_EQ(kept.stats.canvas_hash, all.stats.canvas_hash);
      EXPECT_EQ(kept.stats.decode.nfe, all.stats.decode.nfe);
      EXPECT_LT(kept.stats.decode.rows, all.stats.decode.rows);
    }
}

// Longer than a piece (kPromptPiece), on random weights whose answers every key changes.
TEST(Nemotron, PiecesOfAPromptAreReadCausally) {
  ModelConfig config = small_config(RopePairing::half_split, 2);
  config.family = find_family("nemotron-labs-diffusion");
  config.attention_block = 8, config.causal_text = true;
  config.context = 1024, config.mask_id = 1499, config.eos_id = config.pad_id = 1498;
  const SmallModel weights = make_small_model(DType::F32, config);
  const auto model = must(Model::from_memory(in_memory(weights), nullptr, {.threads = 2}, {}));
  json asked = {{"length", 24}, {"threshold", 0.5}};
  for (int32_t p = 0; p < 600; ++p) asked["prompt"].push_back(7 + p * 31 % 1400);
  for (const Acceptance rule : {Acceptance::threshold, Acceptance::causal}) {
    const Generation kept = generate(*model, asked, plain(asked, rule));
    const Generation all = generate(*model, asked, plain(asked, rule, decode::KvChoice::none));
    EXPECT_EQ(kept.tokens, all.tokens);
  }
}

// A prompt whose keys are kept from a request before, of whole pages or not.
TEST(Nemotron, KeptPrefixesChangeNothing) {
  const auto model = load(converted());
  const auto prefixes = std::make_shared<PrefixCache>(int64_t{1} << 24);
  const auto session = must(Session::create(model, {.prefixes = prefixes}));
  std::vector<int32_t> prompt(64);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(3 + i * 7 % 80);
  int64_t reused = 0;
  for (const size_t length : {size_t{64}, size_t{50}})
    for (const Acceptance rule : {Acceptance::threshold, Acceptance::causal, Acceptance::threshold}) {
      json asked = golden()["answers"][2];
      asked["prompt"] = std::vector(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(length));
      const auto shared =
          must((*session)->generate(asked["prompt"].get<std::vector<int32_t>>(), plain(asked, rule), {}));
      EXPECT_EQ(shared->tokens, generate(model, asked, plain(asked, rule)).tokens);
      reused += shared->stats.reused_positions;
    }
  EXPECT_EQ(reused, 2 * 64 + 3 * 32) << "whole pages of all but the first";
}

// Devices whose weights are rounded, over a model whose answers no rounding changes.
void expect_peaked_answers(const PeakedEngine& engine, const std::string& what, int64_t length) {
  const auto prompt = random_prompt(engine.spec, engine.spec.offset + 5, 7);
  decode::DecodeOptions o;
  o.gen_length = length, o.block_length = engine.spec.config.attention_block;
  o.acceptance = Acceptance::threshold, o.kv = decode::KvChoice::block, o.early_stop = decode::EarlyStop::none;
  const auto first = [&](std::vector<int32_t> tokens) {
    tokens.resize(static_cast<size_t>(length));
    return tokens;
  };
  EXPECT_EQ(first(engine.generate(prompt, o).tokens), answer_to(engine.spec, prompt, length)) << what;
  PeakedSpec causal = engine.spec;
  causal.config.attention_block = 1;  // every token is that of the row before it
  o.acceptance = Acceptance::causal;
  EXPECT_EQ(first(engine.generate(prompt, o).tokens), answer_to(causal, prompt, length)) << what;
}

// labels: native
TEST(Nemotron, RoundedWeightsAndWindowsGiveTheSameAnswers) {
  for (const DType type : {DType::Q4_0, DType::Q8_0}) {
    expect_peaked_answers(PeakedEngine("nemotron", type, {.threads = 2}), std::string(traits(type).name), 20);
    expect_peaked_answers(
        PeakedEngine(
            "nemotron", type,
            {.device = "sim:v79-8elite,window=60%,head=npu,fallback=none", .plugin = &failing_devices(), .threads = 2}),
        "sim", 20);
  }
}

// labels: long device native
TEST(Nemotron, TheEmulatedDspGivesTheSameAnswers) {
  SKIP_WITHOUT_EMULATOR();
  const SmallModel weights = make_peaked_model(peaked_spec("nemotron"));
  const std::string gguf = testing::TempDir() + fmt::format("llada_peaked_{}.gguf", ::getpid());
  ASSERT_TRUE(convert_to_gguf(in_memory(weights), nullptr, gguf, {.type = DType::Q4_0, .progress = {}}));
  expect_peaked_answers(PeakedEngine("nemotron", gguf, {.device = "hexagon:fallback=none", .threads = 1}), "hexagon",
                        2);
  std::filesystem::remove(gguf);
}

TEST(Nemotron, IsSaidAndRefusedByName) {
  const auto summary = must(inspect_model(converted()));
  EXPECT_TRUE(summary->config.causal_text);
  const auto model = load(converted());
  const auto session = Session::create(model, {});
  const auto refused = [&](const ScoreOptions& options) {
    return why_not((*session)->score({.prompt = {5, 6}, .continuations = {{7}}, .options = options}));
  };
  EXPECT_THAT(refused({.method = ScoreMethod::duel}), HasSubstr("method: found duel with a model that reads finished"));
  EXPECT_THAT(refused({.cfg_scale = 1}), HasSubstr("cfg_scale: found 1 with a model that reads finished"));
  decode::DecodeOptions o;
  o.revision = decode::Revision::dual_path;
  EXPECT_THAT(why_not((*session)->generate(std::vector<int32_t>{5, 6}, o, {})),
              HasSubstr("reads finished text causally"));
}

// Blocks are counted from the end of the prompt, and those before one are read causally.
TEST(Nemotron, ScoresAreThoseOfItsClass) {
  const auto model = load(converted());
  const auto session = Session::create(model, {});
  for (const json& one : golden()["scores"]) {
    ScoreRequest request{.prompt = one["prompt"].get<std::vector<int32_t>>(), .continuations = {}, .options = {}};
    request.options.method = ScoreMethod::chain;
    for (const json& text : one["texts"]) request.continuations.push_back(text["tokens"].get<std::vector<int32_t>>());
    const auto score = must((*session)->score(request));
    for (size_t c = 0; c < request.continuations.size(); ++c) {
      const auto expected = one["texts"][c]["log_probabilities"].get<std::vector<double>>();
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(score->continuations[c].tokens[i].log_probability, expected[i], 5e-4) << c << ", token " << i;
    }
    // The first token of a whole block is as well known where the block is read in one forward.
    request.options.method = ScoreMethod::pseudo, request.options.groups = 1;
    const auto together = must((*session)->score(request));
    for (size_t c = 0; c < request.continuations.size(); ++c)
      for (size_t i = 0; i + 8 <= request.continuations[c].size(); i += 8)
        EXPECT_EQ(together->continuations[c].tokens[i].log_probability,
                  score->continuations[c].tokens[i].log_probability);
  }
}

// SDAR's kind of model, read with blocks of one token: what drafts in its own blocks and causal verification give.
TEST(SelfSpeculationRun, EqualsBlocksOfOneToken) {
  for (const char* name : {"sdar", "llada2", "fast_dllm"}) {
    const PeakedEngine engine(name, DType::F32, {.threads = 2});
    const PeakedSpec& spec = engine.spec;
    decode::DecodeOptions o;
    o.gen_length = 11, o.block_length = spec.config.attention_block;
    o.acceptance = Acceptance::causal, o.kv = decode::KvChoice::block, o.early_stop = decode::EarlyStop::none;
    const auto prompt = random_prompt(spec, spec.offset + 6, 3);
    const Generation verified = engine.generate(prompt, o);
    EXPECT_EQ(std::vector(verified.tokens.begin(), verified.tokens.begin() + 11), answer_to(spec, prompt, 11)) << name;
    EXPECT_LT(verified.stats.decode.nfe, 11) << "drafts of a sure model are right";

    PeakedSpec single = spec;
    single.config.attention_block = 1;
    const SmallModel weights = make_peaked_model(single);
    const auto model = must(Model::from_memory(in_memory(weights), nullptr, {.threads = 2}, {}));
    o.acceptance = Acceptance::threshold, o.block_length = 1;
    const auto plain = must((*Session::create(*model, {}))->generate(prompt, o, {}));
    EXPECT_EQ(plain->tokens, verified.tokens) << name;
  }
}

// Published folders have Llama 3's rule or Mistral's; llama.cpp's converter writes the name of either.
TEST(Nemotron, InspectNamesAWrongRuleOfTheTokenizer) {
  const auto remarks = [](std::string_view rule) {
    const TempFolder folder;
    for (const char* name : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(kMade + "folder/" + name, folder / name);
    const json split = {{"type", "Split"},
                        {"pattern", {{"Regex", find_pre_tokenizer(rule)->regexes[0]}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
    const json bytes = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
    json vocab = {{"\u0120", 0}};  // ByteLevel's letter for a space
    for (char c = '!'; c <= '~'; ++c) vocab[std::string(1, c)] = c - ' ';
    const json model = {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array()}};
    folder.write("tokenizer.json", json{{"model", model},
                                        {"added_tokens", json::array()},
                                        {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
                                        {"decoder", bytes}}
                                       .dump());
    return must(inspect_model(folder.path()))->config.remarks;
  };
  const auto named =
      testing::Contains(HasSubstr("the tokenizer cuts text as llama-bpe, and the vocabulary was made "
                                  "for tekken"));
  EXPECT_THAT(remarks("llama-bpe"), named);
  EXPECT_THAT(remarks("tekken"), testing::Not(testing::Contains(HasSubstr("cuts text"))));
}

}  // namespace
}  // namespace llada::nemotron
