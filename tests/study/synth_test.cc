// Synthesised models: they open like published ones, the file and the memory form are the same model, and a
// failed write leaves nothing.
#include "study/synth.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>

#include "base/file.h"
#include "engine/inspect.h"
#include "engine/session.h"
#include "formats/temp_folder.h"
#include "must.h"
#include "study/synth_vocabulary.h"

namespace llada {
namespace {

namespace fs = std::filesystem;

class Synth : public testing::Test {
 protected:
  std::string path(std::string_view name = "model.gguf") const { return folder_ / name; }
  size_t files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

SynthRequest request(std::string_view preset, std::string_view type) { return synth_request(preset, type, 0).value(); }

// The same architecture with every size cut down; control tokens move to the end of the vocabulary.
SynthRequest shrunken(std::string_view preset, DType type) {
  SynthRequest r{find_preset(preset).value(), type};
  ModelConfig& c = r.preset.config;
  c.layers = 2;
  c.width = 256;
  c.heads = 8;
  c.kv_heads = c.kv_heads == 4 ? 2 : 8;
  if (c.ffn_width > 0) c.ffn_width = 512;
  if (c.experts > 0) c.experts = 8, c.experts_used = 2, c.expert_ffn_width = 256;
  if (c.shared_expert_ffn_width > 0) c.shared_expert_ffn_width = 256;
  if (c.expert_groups > 0) c.expert_groups = 4, c.expert_groups_used = 2;
  c.vocab = 512;
  int32_t next = 480;
  for (PresetToken& token : r.preset.control_tokens) {
    for (int32_t* id : {&c.mask_id, &c.bos_id, &c.eos_id, &c.pad_id, &c.eot_id})
      if (*id == token.id) *id = next;
    token.id = next++;
  }
  return r;
}

decode::DecodeOptions short_run() {
  decode::DecodeOptions options;
  options.gen_length = 16;
  options.steps = 4;
  options.early_stop = decode::EarlyStop::none;
  options.block_length = 8;
  return options;
}

TEST_F(Synth, TheFileRunsAndItsTextIsTokenized) {
  const auto report = must(synthesize_file(path(), request("tiny", "q4_0"), {.threads = 2}));
  EXPECT_EQ(report->bytes, fs::file_size(path()));
  EXPECT_EQ(report->no_run, "");
  const auto model = must(Model::load(path(), {.threads = 2}));
  EXPECT_EQ((*model)->chat_style(), ChatStyle::llada);
  EXPECT_EQ((*model)->special_ids().mask, 1006);
  const std::string text = "the quick brown Fox\n\xc3\xa9";
  EXPECT_EQ((*model)->tokenizer().decode((*model)->tokenizer().encode(text)), text);
  EXPECT_LT((*model)->tokenizer().encode("the quick brown fox").size(), 16u);  // merges are used
  const ChatMessage message{"user", "hello"};
  const auto prompt = must((*model)->chat_ids(std::span(&message, 1)));
  const auto session = Session::create(*model, {}).value();
  const auto result = must(session->generate(*prompt, short_run(), {}));
  EXPECT_EQ(result->stats.decode.committed, 16);
}

TEST_F(Synth, FileAndMemoryAreTheSameModel) {
  for (const auto& [preset, type] : {std::pair{"tiny", "q4_0"}, std::pair{"tiny", "q6_k"}, std::pair{"tiny", "f16"}}) {
    const auto r = request(preset, type);
    ASSERT_TRUE(synthesize_file(path(), r, {.seed = 5, .threads = 2}));
    const auto file = Model::load(path(), {.threads = 2});
    const auto memory = synthesize_model(r, {.seed = 5}, {.threads = 1});
    const auto other = synthesize_model(r, {.seed = 6}, {.threads = 2});
    ASSERT_TRUE(file && memory && other);
    const std::vector<int32_t> tokens = {1, 2, 3, 1006}, wanted = {0, 3};
    const auto logits = [&](const std::shared_ptr<const Model>& model) {
      return Session::create(model, {}).value()->logits(tokens, wanted).value();
    };
    EXPECT_EQ(logits(*file), logits(*memory)) << type;
    EXPECT_NE(logits(*file), logits(*other)) << type;
  }
}

TEST_F(Synth, ThreadsDoNotChangeTheFile) {
  ASSERT_TRUE(synthesize_file(path("one"), request("tiny", "q4_k"), {.threads = 1}));
  ASSERT_TRUE(synthesize_file(path("two"), request("tiny", "q4_k"), {.threads = 3}));
  EXPECT_EQ(*read_file(path("one")), *read_file(path("two")));
}

TEST_F(Synth, EveryArchitectureOpens) {
  for (const char* preset : {"llada-8b", "llada-1.5", "dream-7b", "llada-moe-7b", "llada2-mini"}) {
    const SynthRequest r = shrunken(preset, DType::Q4_K);
    const auto report = synthesize_file(path(), r, {});
    ASSERT_TRUE(report) << preset << ": " << report.error().message;
    const auto summary = must(inspect_model(path()));
    const ModelConfig &found = summary->config, &wanted = r.preset.config;
    EXPECT_EQ(summary->parameters, parameters_of(r.preset)) << preset;
    EXPECT_EQ(found.name, wanted.name);
    EXPECT_EQ(found.family, wanted.family);
    EXPECT_EQ(found.rope_pairing, wanted.rope_pairing) << preset;
    EXPECT_EQ(found.rope_theta, wanted.rope_theta);
    EXPECT_EQ(found.rms_eps, wanted.rms_eps);
    EXPECT_EQ(found.rotary_dims, wanted.rotary_dims);
    EXPECT_EQ(found.shift_logits, wanted.shift_logits) << preset;
    EXPECT_EQ(found.qkv_bias, wanted.qkv_bias) << preset;
    EXPECT_EQ(found.qk_norm, wanted.qk_norm) << preset;
    EXPECT_EQ(found.experts, wanted.experts);
    EXPECT_EQ(found.norm_topk, wanted.norm_topk) << preset;
    EXPECT_EQ(found.sigmoid_router, wanted.sigmoid_router) << preset;
    EXPECT_EQ(found.expert_scale, wanted.expert_scale) << preset;
    EXPECT_EQ(found.dense_layers, wanted.dense_layers);
    EXPECT_EQ(found.attention_block, wanted.attention_block);
    EXPECT_EQ(found.mask_id, wanted.mask_id) << preset;
    EXPECT_EQ(found.eos_id, wanted.eos_id);
    // A model that cannot run says why; one that says nothing runs, from the file and from memory alike.
    const auto model = Model::load(path(), {.threads = 2});
    const auto memory = synthesize_model(r, {}, {.threads = 2});
    EXPECT_EQ(report->no_run, model ? "" : model.error().message) << preset;
    ASSERT_EQ(model.has_value(), memory.has_value()) << preset;
    if (!model || wanted.shift_logits) continue;
    const auto logits = [](const std::shared_ptr<const Model>& m) {
      const std::vector<int32_t> tokens = {1, 2, 3, 4}, all = {0, 1, 2, 3};
      return Session::create(m, {}).value()->logits(tokens, all).value();
    };
    const auto values = logits(*model);
    EXPECT_EQ(values, logits(*memory)) << preset;
    EXPECT_TRUE(std::ranges::all_of(values, [](float v) { return std::isfinite(v); })) << preset;
  }
}

// The routers' biases have the spread that was asked for; nothing else changes. Two layers, the first of them dense, so
// there are eight values: too few to measure a deviation, so that ten times the spread is compared value by value.
TEST_F(Synth, RouterBiasesHaveTheSpreadAskedFor) {
  SynthRequest r = shrunken("llada2-mini", DType::Q8_0);
  const auto biases = [&](const std::string& name) {
    EXPECT_TRUE(synthesize_file(path(name), r, {}));
    const auto file = ModelFile::open(path(name));
    EXPECT_TRUE(file);
    const TensorView* view = file->find("blk.1.exp_probs_b.bias");
    EXPECT_NE(view, nullptr);
    const auto* values = reinterpret_cast<const float*>(view->data);
    return std::vector<float>(values, values + view->shape.elements());
  };
  const std::vector<float> usual = biases("usual");
  ASSERT_EQ(usual.size(), 8u);
  r.router_bias = 0.5;
  const std::vector<float> wide = biases("wide");
  for (size_t i = 0; i < usual.size(); ++i) EXPECT_NEAR(wide[i], 10 * usual[i], 1e-4) << i;
  EXPECT_GT(std::ranges::max(usual), 0.01f);
  const auto files = std::array{*read_file(path("usual")), *read_file(path("wide"))};
  ASSERT_EQ(files[0].size(), files[1].size());
  size_t different = 0;
  for (size_t i = 0; i < files[0].size(); ++i) different += files[0][i] != files[1][i];
  EXPECT_GT(different, 0u);
  EXPECT_LE(different, 8 * sizeof(float));
}

// A limit on file sizes stands for a disk that fills up in the middle.
TEST_F(Synth, AFailedWriteLeavesNothing) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto report = synthesize_file(path(), request("tiny", "q4_0"), {});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::failed);
  EXPECT_NE(report.error().message.find("write failed"), std::string::npos) << report.error().message;
  EXPECT_EQ(files(), 0u);
}

TEST_F(Synth, RoomIsCheckedBeforeTheFirstByte) {
  const auto status = check_free_space(path(), uint64_t{1} << 62);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::failed);
  EXPECT_NE(status.error().message.find("model.gguf: 4611686018427387904 bytes needed, "), std::string::npos)
      << status.error().message;
  EXPECT_TRUE(check_free_space(path(), 1));
}

TEST_F(Synth, WrongRequestsNameWhatIsWrong) {
  EXPECT_NE(synth_request("llada-80b", "q4_0", 0).error().message.find("'llada-80b'"), std::string::npos);
  EXPECT_NE(synth_request("tiny", "q7", 0).error().message.find("'q7'"), std::string::npos);
  EXPECT_NE(synth_request("tiny", "q4_0", -1).error().message.find("-1"), std::string::npos);
  EXPECT_FALSE(synthesize_file(path("none/model.gguf"), request("tiny", "q4_0"), {}));
  EXPECT_EQ(files(), 0u);
}

// Full-size vocabularies: as many tokens as the table has rows, none twice, every merge of known tokens.
TEST(SynthVocabulary, BuildsATokenizerOfThePublishedSize) {
  for (const char* name : {"llada-8b", "dream-7b"}) {
    const Preset preset = find_preset(name).value();
    const TokenizerSpec spec = synthesize_vocabulary(preset);
    EXPECT_EQ(static_cast<int64_t>(spec.tokens.size()), preset.config.vocab);
    EXPECT_GT(spec.merges.size(), 100'000u);
    const auto tokenizer = must(Tokenizer::create(spec, name));
    for (const PresetToken& token : preset.control_tokens) EXPECT_EQ(tokenizer->find_control(token.text), token.id);
  }
}

}  // namespace
}  // namespace llada
