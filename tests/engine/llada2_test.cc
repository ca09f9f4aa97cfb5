// LLaDA2 from the file to the answer, with random weights: generation against a loop in double arithmetic
// that recomputes everything, exact block K/V against none bit for bit, both file formats, every stored type.
#include <gmock/gmock.h>

#include <map>

#include "formats/convert.h"
#include "llada2_files.h"
#include "must.h"

namespace llada {
namespace {

using decode::Acceptance;
using decode::KvChoice;
using decode::Revision;
using testing::HasSubstr;

class Llada2 : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("llada_llada2_{}", ::getpid());
    std::filesystem::create_directories(folder_);
    small_.emplace(make_small_model(DType::F32, tiny_llada2(8)));
    whole_.emplace(make_small_model(DType::F32, tiny_llada2(32)));
    write_gguf(*small_, path("block8.gguf"));
    write_hf_folder(*whole_, path("hf"));
  }
  static void TearDownTestSuite() {
    small_.reset();
    whole_.reset();
    std::filesystem::remove_all(folder_);
  }
  static std::string path(const std::string& name) { return (folder_ / name).string(); }

  static decode::DecodeOptions published(int64_t block, int64_t gen) {
    decode::DecodeOptions o;
    o.gen_length = gen;
    o.block_length = block;
    o.acceptance = Acceptance::llada2;
    o.threshold = 0.02;  // random weights are not sure of themselves
    o.early_stop = decode::EarlyStop::none;
    o.kv = KvChoice::block;
    return o;
  }
  static decode::DecodeOptions editing(Revision revision, KvChoice kv, double edit_threshold, int64_t edit_steps) {
    decode::DecodeOptions o = published(8, 28);
    o.acceptance = Acceptance::threshold, o.threshold = 0.012;
    o.revision = revision, o.edit_threshold = edit_threshold, o.edit_steps = edit_steps;
    o.kv = kv;
    return o;
  }
  static Generation generate(Session& session, const std::vector<int32_t>& prompt, const decode::DecodeOptions& o) {
    return *must(session.generate(prompt, o, {}));
  }

  static inline std::filesystem::path folder_;
  static inline std::optional<SmallModel> small_, whole_;  // blocks of 8 and, as in every folder, of 32
};

std::vector<int32_t> prompt_of(int64_t n) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>(37 + 53 * i % 900));
  return ids;
}

TEST_F(Llada2, GenerationEqualsTheLoopInDoubleArithmetic) {
  const auto model = load_model(path("block8.gguf"));
  EXPECT_EQ(model->special_ids().attention_block, 8);
  const auto session = open_session(model);
  // Prompts that fill their blocks, and that share one with the answer; answers that end inside a block.
  for (const auto& [prompt, gen] : {std::pair{8, 8}, {13, 6}}) {
    decode::DecodeOptions o = published(8, gen);
    const auto expected = reference_llada2(*small_, prompt_of(prompt), gen, 1, o.threshold, -1);
    for (const KvChoice kv : {KvChoice::none, KvChoice::block}) {
      o.kv = kv;
      EXPECT_EQ(generate(*session, prompt_of(prompt), o).tokens, expected) << prompt;
    }
    decode::DecodeOptions edits = published(8, gen);
    edits.acceptance = Acceptance::threshold;
    edits.revision = Revision::edit;
    edits.edit_threshold = 0.015;
    const Generation g = generate(*session, prompt_of(prompt), edits);
    EXPECT_GT(g.stats.decode.counters.revisions_changed, 0);
    EXPECT_EQ(g.tokens, reference_llada2(*small_, prompt_of(prompt), gen, 1, edits.threshold, 0.015)) << prompt;
    if (quick()) break;
  }
}

TEST_F(Llada2, AFolderAndItsConversionsEqualIt) {
  const auto model = load_model(path("hf"));
  EXPECT_EQ(model->special_ids().attention_block, 32);
  decode::DecodeOptions o = published(32, 30);
  o.steps = 6;
  const auto session = open_session(model);
  const Generation g = generate(*session, prompt_of(21), o);
  // Two blocks of 32 with three steps each: 11, 11 and 10 positions a step. The first has 11 masks.
  EXPECT_EQ(g.stats.decode.committed, 43);
  EXPECT_LE(g.stats.decode.nfe, 4);
  decode::DecodeOptions one = published(32, 11);
  one.steps = 8;
  EXPECT_EQ(generate(*session, prompt_of(21), one).tokens,
            reference_llada2(*whole_, prompt_of(21), 11, 4, one.threshold, -1));

  ASSERT_TRUE(convert_to_gguf(model->file(), nullptr, path("f32.gguf"), {.type = DType::F32, .progress = {}}));
  EXPECT_EQ(generate(*open_session(load_model(path("f32.gguf"))), prompt_of(21), o).tokens, g.tokens);
}

TEST_F(Llada2, BlockKvIsBitForBitFullRecomputationInEveryType) {
  const ModelFile file = std::move(*ModelFile::open(path("block8.gguf")));
  for (const DType type : {DType::Q4_0, DType::Q8_0, DType::Q5_1, DType::F16}) {
    const std::string name = path("typed.gguf");
    ASSERT_TRUE(convert_to_gguf(file, nullptr, name, {.type = type, .progress = {}}));
    for (const auto& [revision, mbsd] : {std::pair(Revision::none, false),
                                         {Revision::dual_path, false},
                                         {Revision::edit, false},
                                         {Revision::none, true},
                                         {Revision::dual_path, true}}) {
      std::vector<std::vector<double>> confidences;
      std::vector<uint64_t> hashes;
      std::vector<int64_t> rows;
      for (const KvChoice kv : {KvChoice::none, KvChoice::block}) {
        decode::DecodeOptions o = published(8, 18);
        o.acceptance = Acceptance::threshold;
        o.kv = kv;
        o.revision = revision;
        o.threshold = 0.012, o.stable_threshold = 0.02, o.edit_threshold = 0.012;
        o.cfg_scale = revision == Revision::none ? 0.5 : 0;
        o.mbsd = mbsd, o.mbsd_trigger = 9, o.mbsd_threshold = 0.011;  // every forward reads the blocks ahead
        const auto session = open_session(load_model(name, kv == KvChoice::none ? 1 : 2));
        confidences.emplace_back();
        const auto g = session->generate(prompt_of(11), o, [&](const decode::StepEvent& event) {
          for (const auto& p : event.predictions) confidences.back().push_back(p.probability);
          return true;
        });
        ASSERT_TRUE(g) << g.error().message;
        hashes.push_back(g->stats.canvas_hash);
        rows.push_back(g->stats.decode.rows);
        EXPECT_EQ(g->stats.decode.counters.drafts_accepted > 0, mbsd);
      }
      EXPECT_EQ(hashes[0], hashes[1]) << traits(type).name << " " << decode::name(revision);
      EXPECT_EQ(confidences[0], confidences[1]) << traits(type).name << " " << decode::name(revision);
      EXPECT_TRUE(rows[1] < rows[0] || (mbsd && rows[1] == rows[0])) << "all blocks may be done at once";
      if (quick()) return;
    }
  }
}

// The model in the two schemas of GGUF and as a folder, with and without block routing.
TEST_F(Llada2, AllDialectsGiveEqualLogits) {
  for (const bool together : {false, true}) {
    ModelConfig config = tiny_llada2(32);
    if (together) config = routing_by_blocks(config, 16);
    const SmallModel m = make_small_model(DType::F32, config);
    write_gguf(m, path("llada2.gguf"));
    write_diffuse_llada2(m, path("diffuse.gguf"));
    write_hf_folder(m, path("dialects"));
    std::vector<std::vector<float>> logits;
    const std::vector<int32_t> tokens = prompt_of(50), rows = {0, 31, 32, 49};
    for (const char* name : {"llada2.gguf", "diffuse.gguf", "dialects"}) {
      const auto model = load_model(path(name));
      EXPECT_EQ(model->config().expert_capacity, config.expert_capacity) << name;
      logits.push_back(open_session(model)->logits(tokens, rows).value());
    }
    EXPECT_EQ(logits[0], logits[1]);
    EXPECT_EQ(logits[0], logits[2]);
    const Rows expected = reference_forward(m, {tokens.begin(), tokens.begin() + 32}, 31);
    for (size_t t = 0; t < expected[0].size(); ++t)
      ASSERT_NEAR(logits[0][expected[0].size() + t], expected[0][t], 5e-4) << together << " " << t;
  }
}

TEST_F(Llada2, BlocksChooseExpertsTogether) {
  const ModelConfig config = routing_by_blocks(tiny_llada2(8), 4);
  const SmallModel m = make_small_model(DType::F32, config);
  write_gguf(m, path("together.gguf"));
  for (const auto& [prompt, gen] : {std::pair{8, 8}, {13, 6}}) {
    decode::DecodeOptions o = published(8, gen);
    const auto expected = reference_llada2(m, prompt_of(prompt), gen, 1, o.threshold, -1);
    for (const KvChoice kv : {KvChoice::none, KvChoice::block}) {
      o.kv = kv;
      const auto session = open_session(load_model(path("together.gguf"), kv == KvChoice::none ? 1 : 2));
      EXPECT_EQ(generate(*session, prompt_of(prompt), o).tokens, expected) << prompt;
    }
    if (quick()) break;
  }
  // Another choice than each row's own would be.
  ModelConfig alone = config;
  alone.expert_capacity = alone.expert_block = 0;
  SmallModel other = make_small_model(DType::F32, alone);
  write_gguf(other, path("alone.gguf"));
  const std::vector<int32_t> rows = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_NE(open_session(load_model(path("together.gguf")))->logits(prompt_of(8), rows).value(),
            open_session(load_model(path("alone.gguf")))->logits(prompt_of(8), rows).value());
  const auto session = open_session(load_model(path("together.gguf")));
  for (const auto set : {+[](decode::DecodeOptions& o) { o.kv = KvChoice::frozen; },
                         +[](decode::DecodeOptions& o) { o.revision = Revision::dual_path; }}) {
    decode::DecodeOptions o = published(8, 8);
    o.acceptance = Acceptance::threshold;
    set(o);
    const auto refused = session->generate(prompt_of(4), o, {});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("no row is computed alone"));
  }
}

// With tokens that the model predicts often as its edits.
TEST_F(Llada2, TextThatMovesIsTheSameWithAndWithoutItsKv) {
  ModelConfig config = routing_by_blocks(tiny_llada2(8), 8);
  std::map<int32_t, int> often;
  write_gguf(make_small_model(DType::F32, config), path("moves.gguf"));
  const auto count = [&](const decode::StepEvent& event) {
    for (const auto& p : event.predictions) ++often[p.token];
    return true;
  };
  ASSERT_TRUE(open_session(load_model(path("moves.gguf")))
                  ->generate(prompt_of(11), editing(Revision::edit, KvChoice::block, 0, 6), count));
  std::vector<std::pair<int, int32_t>> order;
  for (const auto& [token, n] : often) order.emplace_back(-n, token);
  std::ranges::sort(order);
  config.delete_id = order.at(0).second, config.split_id = order.at(1).second;
  const SmallModel m = make_small_model(DType::F32, config);
  write_gguf(m, path("moves.gguf"));
  std::vector<std::vector<int32_t>> answers;
  std::vector<std::vector<double>> confidences;
  for (const KvChoice kv : {KvChoice::none, KvChoice::block}) {
    const auto session = open_session(load_model(path("moves.gguf"), kv == KvChoice::none ? 1 : 2));
    int64_t moved = 0;
    confidences.emplace_back();
    const auto g =
        session->generate(prompt_of(11), editing(Revision::levenshtein, kv, 0, 6), [&](const decode::StepEvent& event) {
          for (const decode::Edit& edit : event.edits) moved += edit.from >= 0;
          for (const auto& p : event.predictions) confidences.back().push_back(p.probability);
          return true;
        });
    ASSERT_TRUE(g) << g.error().message;
    EXPECT_GT(moved, 0);
    for (const int32_t token : g->tokens) EXPECT_TRUE(token != config.delete_id && token != config.split_id);
    answers.push_back(g->tokens);
  }
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_EQ(confidences[0], confidences[1]);
}

TEST_F(Llada2, WhatStandsBehindABlockIsNotSeen) {
  const auto session = open_session(load_model(path("block8.gguf")));
  std::vector<int32_t> tokens = prompt_of(24);
  const std::vector<int32_t> rows = {0, 7, 8, 15};
  const auto before = session->logits(tokens, rows);
  tokens[16] = 5;
  EXPECT_EQ(session->logits(tokens, rows).value(), *before);
  tokens[15] = 5;
  const auto after = session->logits(tokens, rows).value();
  const size_t vocab = 1024;
  EXPECT_TRUE(std::equal(after.begin(), after.begin() + 2 * vocab, before->begin()));
  EXPECT_FALSE(std::equal(after.begin() + 2 * vocab, after.begin() + 3 * vocab, before->begin() + 2 * vocab));
}

TEST_F(Llada2, RequestsThatHaveNoMeaningAreOneLine) {
  const auto session = open_session(load_model(path("block8.gguf")));
  const auto refusal = [&](auto set) {
    decode::DecodeOptions o = published(8, 16);
    set(o);
    const auto g = session->generate(prompt_of(4), o, {});
    EXPECT_FALSE(g);
    return g ? "" : g.error().message;
  };
  EXPECT_THAT(refusal([](auto& o) { o.kv = KvChoice::dual; }), HasSubstr("needed none, block or frozen"));
  EXPECT_THAT(refusal([](auto& o) { o.block_length = 32; }),
              HasSubstr("block_length: found 32 with a block-causal model of blocks of 8; needed 8"));
  // 4 + 87 positions and five of padding are the context's 96; one more would be a block more.
  EXPECT_THAT(refusal([](auto& o) { o.gen_length = 93; }),
              HasSubstr("need 104 positions; the model was trained for 96"));
  const auto infill =
      prepare(*load_model(path("block8.gguf")), {.tokens = prompt_of(12), .gaps = std::vector<int32_t>{3, 4}});
  ASSERT_FALSE(infill);
  EXPECT_THAT(infill.error().message, HasSubstr("infill: a block-causal model"));
}

}  // namespace
}  // namespace llada
