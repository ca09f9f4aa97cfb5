// Other shapes through the engine: tied heads, heads of 64 and 128, grouped K/V, prompts of more than a
// thousand tokens, a vocabulary of 100,000 (geometry/peaked_model.h). Logits against a forward in double
// arithmetic, answers against what is built into the models. Here with one instruction set, the
// environment's; each stage of the tests brings its own.
// labels of this file: golden
#include "geometry/peaked_engine.h"
#include "golden.h"

namespace llada {
namespace {

using decode::KvChoice;
using decode::Revision;

// Logits have a deviation of 2.5 and the best a margin of 11. Float weights: rounding only. Quantized ones:
// activations are rounded too, and in a mixture that can turn a router's choice.
struct Bound {
  double worst, root_mean_square;
};
constexpr Bound kFloat = {5e-4, 1e-4}, kQuantized = {1.2, 0.15};

class GeometryGolden : public testing::TestWithParam<const char*> {
 protected:
  static PeakedEngine open(DType type, bool exact = false) {
    return {GetParam(), type, {.isa = isa_from_environment(), .threads = 2, .exact_attention = exact}};
  }
  static bool block_causal() { return peaked_spec(GetParam()).config.attention_block > 0; }
  static decode::DecodeOptions published(int64_t length = 48) {
    decode::DecodeOptions o;
    o.gen_length = length;
    o.acceptance = decode::Acceptance::threshold;
    o.early_stop = decode::EarlyStop::none;
    return o;
  }
};
// labels: long for dream llada_moe far, native for large, -threads for llada2 large
INSTANTIATE_TEST_SUITE_P(Models, GeometryGolden,
                         testing::Values("llada", "dream", "llada_moe", "llada2", "far", "large"),
                         [](const auto& model) { return std::string(model.param); });

// labels: oracle native -threads
TEST_P(GeometryGolden, FirstForwardLogits) {
  const PeakedGolden golden = load_peaked_golden(GetParam());
  const auto check = [&](DType type, bool exact, Bound bound) {
    const PeakedEngine engine = open(type, exact);
    if (type == DType::F32) {
      EXPECT_EQ(fmt::format("{:016x}", checksum(*engine.weights)), golden.checksum) << "another model was recorded";
    }
    const LogitError error = logit_error(engine, golden);
    EXPECT_LT(error.worst, bound.worst) << traits(type).name;
    EXPECT_LT(error.root_mean_square, bound.root_mean_square) << traits(type).name;
    EXPECT_EQ(error.other_best, 0) << traits(type).name;
  };
  check(DType::Q4_0, false, kQuantized);
  if (quick() || std::string_view(isa_from_environment()) == "scalar")
    return;  // the oracle takes seconds for a forward
  check(DType::F32, false, kFloat);
  check(DType::Q8_0, false, kQuantized);
  check(DType::Q8_0, true, kQuantized);
}

// labels: long
TEST_P(GeometryGolden, RecordedAnswersUnderAThreshold) {
  const PeakedGolden golden = load_peaked_golden(GetParam());
  for (const DType type : {DType::F32, DType::Q4_0}) {
    if (quick() && type == DType::F32) continue;
    const PeakedEngine engine = open(type);
    decode::DecodeOptions o = published(golden.answer);
    o.threshold = golden.threshold;
    o.block_length = golden.block;
    const Generation g = engine.generate(random_prompt(engine.spec, golden.prompt), o);
    EXPECT_EQ(g.tokens, golden.tokens) << traits(type).name;
    EXPECT_EQ(g.stats.decode.nfe, golden.forwards) << traits(type).name;
  }
}

// Another prompt, a last block that is shorter, and K/V that is not computed again.
// labels: long
TEST_P(GeometryGolden, CachedPolicies) {
  const PeakedEngine engine = open(DType::Q8_0);
  const auto prompt = random_prompt(engine.spec, 1201, 2);
  const auto expected = answer_to(engine.spec, prompt, 41);
  for (const KvChoice kv : decode::all_values<decode::KvChoice>()) {
    if (kv == KvChoice::none || (block_causal() && kv != KvChoice::block) || (quick() && kv != KvChoice::dual))
      continue;
    decode::DecodeOptions o = published(41);
    o.kv = kv;
    EXPECT_EQ(engine.generate(prompt, o).tokens, expected) << decode::name(kv);
  }
}

// One token per forward, of the whole answer and not of a block; noise that is small beside the margin.
// labels: -threads
TEST_P(GeometryGolden, OneTokenPerStepAndSampled) {
  const PeakedEngine engine = open(DType::Q4_0);
  const auto prompt = random_prompt(engine.spec, quick() ? engine.spec.offset + 5 : 1300, 3);
  decode::DecodeOptions o = published(quick() ? 3 : 20);
  o.acceptance = decode::Acceptance::schedule;
  o.kv = block_causal() ? KvChoice::block : KvChoice::dual;
  o.temperature = 0.3;
  o.seed = 5;
  const Generation g = engine.generate(prompt, o);
  EXPECT_EQ(g.tokens, answer_to(engine.spec, prompt, o.gen_length));
  if (!block_causal()) {
    EXPECT_EQ(g.stats.decode.nfe, o.gen_length);
  }
}

// Rows that ask again what was decided: extra rows of a forward, trials of their own.
// labels: native
TEST_P(GeometryGolden, RevisionDraftsAndGuidance) {
  const PeakedEngine engine = open(DType::Q4_0);
  const auto prompt = random_prompt(engine.spec, 1150, 4);
  const auto expected = answer_to(engine.spec, prompt, 40);
  const auto check = [&](const char* what, auto set) {
    decode::DecodeOptions o = published(40);
    o.kv = block_causal() ? KvChoice::block : KvChoice::dual;
    set(o);
    const Generation g = engine.generate(prompt, o);
    EXPECT_EQ(g.tokens, expected) << what;
    return g.stats.decode;
  };
  const auto dual = check("dual path", [](auto& o) {
    o.revision = Revision::dual_path;
    o.stable_threshold = 1;
  });
  EXPECT_GT(dual.counters.revisions_made, 0);
  if (quick()) return;
  check("guidance", [](auto& o) { o.cfg_scale = 0.5; });
  check("edit", [](auto& o) { o.revision = Revision::edit; });
  if (block_causal()) return;
  check("drafts, checks beside", [](auto& o) {
    o.mbsd = true;
    o.revision = Revision::dual_path, o.revise_lateness = 0;
    o.stable_threshold = 1;
  });
}

// labels: long
TEST_P(GeometryGolden, Infilling) {
  const PeakedEngine engine = open(DType::Q4_0);
  std::vector<int32_t> text = random_prompt(engine.spec, 1250, 6), gaps;
  for (int32_t p = 1120; p < 1240; p += p % 3 == 0 ? 1 : 4) gaps.push_back(p);
  std::vector<int32_t> masked = text;
  for (const int32_t p : gaps) masked[static_cast<size_t>(p)] = engine.spec.config.mask_id;
  decode::DecodeOptions o = published();
  const auto ready = prepare(*engine.model, {.tokens = text, .gaps = gaps, .options = o});
  if (block_causal()) {
    ASSERT_FALSE(ready) << "it sees nothing behind a gap";
    EXPECT_THAT(ready.error().message, testing::HasSubstr("infill"));
    return;
  }
  ASSERT_TRUE(ready) << ready.error().message;
  const auto g = must(engine.session->run(*ready, {}));
  EXPECT_EQ(g->tokens, completed(engine.spec, masked));
}

}  // namespace
}  // namespace llada
