// Drafts of states on real models: tokens, order, confidences and recordings are bit for bit those without, alone and
// among other requests; with full attention, experts, and block-causal attention with edits.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "decode/fields.h"
#include "llada2_files.h"
#include "shared_forwards.h"
#include "study/simulate.h"

namespace llada::exact_drafts {
namespace {

using decode::Acceptance;
using decode::DecodeOptions;
using decode::KvChoice;

// A recording without what says where its predictions came from.
std::string without_drafts(const std::string& recording) {
  std::string out;
  for (size_t at = 0; at < recording.size();) {
    const size_t end = recording.find('\n', at);
    auto json = nlohmann::ordered_json::parse(recording.substr(at, end - at));
    if (json.contains("step")) json["step"].erase("drafts"), json["step"].erase("known");
    if (json.contains("end")) json["end"].erase("rows");
    out += json.dump() + "\n";
    at = end + 1;
  }
  return out;
}

// Every request with drafts and without; returns the forwards saved.
int64_t compare(const std::shared_ptr<const Model>& model, std::vector<Wanted> wanted,
                std::span<const int64_t> drafts) {
  int64_t saved = 0;
  const auto plain = run_alone(model, wanted);
  for (const int64_t n : drafts) {
    for (Wanted& w : wanted) {
      w.request.options.draft = n;
      if (n < 0) w.request.options.latency_table = {{64, 1}, {1024, 1.01}, {4096, 8}};
    }
    const auto drafted = run_alone(model, wanted);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const std::string what = fmt::format("{}, {} drafts", wanted[i].name, n);
      EXPECT_EQ(drafted[i].tokens, plain[i].tokens) << what;
      EXPECT_EQ(without_drafts(drafted[i].recording), without_drafts(plain[i].recording)) << what;
      EXPECT_EQ(drafted[i].stats.nfe + drafted[i].stats.saved_forwards, plain[i].stats.nfe) << what;
      EXPECT_EQ(drafted[i].canvas_hash, plain[i].canvas_hash) << what;
      saved += drafted[i].stats.saved_forwards;
      // The recording reads back, and a replay prices the forwards that were made.
      const std::string file = recording_header("m") + drafted[i].recording;
      const auto parsed = parse_recording(file, "memory");
      const auto replay = parse_replay(file, "memory", 0);
      EXPECT_TRUE(parsed && replay) << what;
      if (!parsed || !replay) continue;
      EXPECT_EQ(recording_lines(parsed->runs[0]), drafted[i].recording) << what;
      int64_t rows = 0;
      for (const SimulatedPass& pass : replay->passes) rows += pass.rows;
      EXPECT_EQ(std::ssize(replay->passes), drafted[i].stats.nfe) << what;
      EXPECT_EQ(rows, drafted[i].stats.rows) << what;
    }
    expect_same(wanted, run_together(model, wanted, {.row_budget = 4096}).ran, drafted);
  }
  return saved;
}

std::vector<Wanted> requests(std::span<const int32_t> prompt, std::span<const DecodeOptions> list) {
  std::vector<Wanted> wanted;
  for (const DecodeOptions& o : list)
    wanted.push_back({decode::as_flags(o), {.tokens = {prompt.begin(), prompt.end()}, .options = o}});
  return wanted;
}

// labels: long
TEST(ExactDraftsRun, ChangeNothingOfTinyLlada) {
  const auto model = load_model(LLADA_SOURCE_DIR "/models/tiny-llada");
  const auto items = load_golden(LLADA_SOURCE_DIR "/models/tiny-llada/golden.json");
  std::vector<DecodeOptions> list;
  const DecodeOptions base = {.gen_length = 48, .block_length = 16};
  list.push_back(base);  // one per step
  list.push_back({.gen_length = 48,
                  .block_length = 16,
                  .acceptance = Acceptance::threshold,
                  .threshold = 0.98,
                  .credit = true,
                  .tail = 16});
  for (const KvChoice kv : {KvChoice::dual, KvChoice::prefix, KvChoice::suffix, KvChoice::block}) {
    if (quick() && kv != KvChoice::dual) continue;
    list.push_back({.gen_length = 48,
                    .block_length = 16,
                    .acceptance = Acceptance::factor,
                    .factor = 0.3,
                    .kv = kv,
                    .refresh = kv == KvChoice::block ? 4 : 0});
  }
  list.push_back({.gen_length = 48,
                  .block_length = 16,
                  .acceptance = Acceptance::dream_margin,
                  .cfg_scale = 0.5,
                  .kv = KvChoice::dual});
  list.back().steps = 24;
  list.push_back({.gen_length = 48,
                  .block_length = 16,
                  .acceptance = Acceptance::threshold,
                  .threshold = 0.99,
                  .kv = KvChoice::dual,
                  .mbsd = true,
                  .mbsd_trigger = 8});
  for (size_t i = items.size() - 2; i < items.size(); ++i) {
    const auto prompt = std::span(items[i].canvas).first(static_cast<size_t>(items[i].prompt_tokens));
    EXPECT_GT(compare(model, requests(prompt, list), std::array<int64_t, 2>{1, 4}), 20);
    if (quick()) break;
  }
  const auto prompt = std::span(items[0].canvas).first(static_cast<size_t>(items[0].prompt_tokens));
  EXPECT_GT(compare(model, requests(prompt, std::span(list).first(3)), std::array<int64_t, 1>{-1}), 5);
}

// A block that slides over a cache leaves rows behind that no forward of this place has computed, and a canvas that
// grows adds some: no state may be drafted that reads them. (It once was, and this run ended with an error.)
// labels: native
TEST(ExactDraftsRun, ChangeNothingWhereABlockSlidesOverACacheAndTheLengthFollows) {
  const auto model = load_model(LLADA_SOURCE_DIR "/models/tiny-llada-long");
  const ChatMessage story{"user",
                          "Noah has 12 cards.\nA. He gives 2 cards to each of 2 children.\nB. He wins 3 in a game.\n"
                          "C. He buys 5 bags with 5 cards in each.\nD. He gets 18 from Jack.\n"
                          "How many cards does Noah have in the end?"};
  const auto prompt = model->chat_ids({&story, 1});
  ASSERT_TRUE(prompt) << prompt.error().message;
  std::vector<DecodeOptions> list;
  for (const KvChoice kv : {KvChoice::dual, KvChoice::suffix, KvChoice::block}) {
    list.push_back({.acceptance = Acceptance::threshold, .threshold = 0.95, .kv = kv});
    list.back().auto_length = list.back().slide = true, list.back().gen_length = decode::kAutoLength;
    if (quick()) break;
  }
  list.push_back(list.front());  // as `balanced` once was
  list.back().threshold = 0.97, list.back().entropy_gate = 1, list.back().credit = true;
  list.back().refresh = 2, list.back().tail = 16;
  compare(model, requests(*prompt, list), std::array<int64_t, 1>{2});
}

TEST(ExactDraftsRun, ChangeNothingOfAMixture) {
  const auto model = load_model(LLADA_SOURCE_DIR "/models/tiny-llada-moe");
  const auto items = load_golden(LLADA_SOURCE_DIR "/models/tiny-llada-moe/golden.json");
  const auto prompt = std::span(items.back().canvas).first(static_cast<size_t>(items.back().prompt_tokens));
  const std::array<DecodeOptions, 2> list = {
      DecodeOptions{.gen_length = 32, .block_length = 16, .kv = KvChoice::dual},
      DecodeOptions{.gen_length = 32, .block_length = 16, .acceptance = Acceptance::threshold, .threshold = 0.99}};
  EXPECT_GT(compare(model, requests(prompt, list), std::array<int64_t, 1>{3}), 8);
}

TEST(ExactDraftsRun, ChangeNothingOfABlockCausalModel) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("llada_drafts_{}", ::getpid());
  std::filesystem::create_directories(folder);
  const SmallModel small = make_small_model(DType::F32, tiny_llada2(8));
  write_gguf(small, (folder / "m.gguf").string());
  const auto model = load_model((folder / "m.gguf").string());
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 13; ++i) prompt.push_back(37 + 53 * i % 900);
  std::vector<DecodeOptions> list;
  for (const KvChoice kv : {KvChoice::none, KvChoice::block}) {
    DecodeOptions o = {.gen_length = 24, .block_length = 8, .early_stop = decode::EarlyStop::none, .kv = kv};
    list.push_back(o);
    o.acceptance = Acceptance::threshold, o.threshold = 0.015;
    o.revision = decode::Revision::edit, o.edit_threshold = 0.015;
    list.push_back(o);
    o.revision = decode::Revision::remask, o.remask_below = 0.015;
    list.push_back(o);
  }
  EXPECT_GT(compare(model, requests(prompt, list), std::array<int64_t, 2>{1, 4}), 5);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace llada::exact_drafts
