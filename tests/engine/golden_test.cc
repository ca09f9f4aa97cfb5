// The float path against a reference implementation on trained weights: logits, top tokens, and whole
// generations.
// labels of this file: golden
#include "golden.h"

namespace llada {
namespace {

// Steps of a run that are compared.
size_t most_steps() { return quick() ? 6 : SIZE_MAX; }

class Golden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = std::string(LLADA_SOURCE_DIR "/models/") + GetParam();
    model_ = load_model(folder);
    items_ = load_golden(folder + "/golden.json");
    if (quick()) items_.erase(items_.begin(), items_.begin() + 3);
    if (GetParam() == std::string_view("tiny-llada-long"))
      most_steps_ = std::min<size_t>(most_steps_, 12);  // of 384, each of 480 rows
  }

  std::shared_ptr<const Model> model_;
  std::vector<GoldenItem> items_;
  size_t most_steps_ = most_steps();
};
INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::Values("tiny-llada", "tiny-llada-moe", "tiny-llada-long"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::erase(name, '-');
                           return name;
                         });

// labels: oracle
TEST_P(Golden, PromptIdsAreThoseOfTheReference) {
  for (const GoldenItem& item : items_) {
    const ChatMessage message{"user", item.prompt};
    const auto ids = must(model_->chat_ids({&message, 1}));
    EXPECT_EQ(*ids, std::vector<int32_t>(item.canvas.begin(), item.canvas.begin() + item.prompt_tokens));
  }
}

// labels: oracle
TEST_P(Golden, FirstForwardLogits) {
  const auto session = open_session(model_);
  float worst = 0;
  for (const GoldenItem& item : items_) {
    std::vector<int32_t> positions;
    for (const auto& [position, row] : item.logits) positions.push_back(position);
    const auto logits = must(session->logits(item.canvas, positions));
    for (size_t i = 0; i < item.logits.size(); ++i)
      for (size_t t = 0; t < item.logits[i].second.size(); ++t)
        worst = std::max(worst, std::fabs((*logits)[i * item.logits[i].second.size() + t] - item.logits[i].second[t]));
  }
  EXPECT_LT(worst, 2e-3f);
  RecordProperty("worst_absolute_error", std::to_string(worst));
}

// labels: oracle
TEST_P(Golden, TopTokensAtEveryMaskedPosition) {
  const auto session = open_session(model_);
  for (const GoldenItem& item : items_) {
    std::vector<int32_t> positions;
    for (const auto& top : item.top20) positions.push_back(top.position);
    const auto logits = must(session->logits(item.canvas, positions));
    const auto vocab = static_cast<size_t>(model_->config().vocab);
    for (size_t i = 0; i < item.top20.size(); ++i) {
      const float* row = logits->data() + i * vocab;
      EXPECT_EQ(std::max_element(row, row + vocab) - row, item.top20[i].ids[0])
          << "position " << item.top20[i].position;
      for (size_t t = 0; t < item.top20[i].ids.size(); ++t)
        EXPECT_NEAR(row[item.top20[i].ids[t]], item.top20[i].logits[t], 2e-3f);
    }
  }
}

// The same edits step by step; of a whole run also equal ids, forwards and text. At most so many steps are compared.
void expect_same_run(Session& session, const GoldenItem& item, const GoldenRun& golden, size_t most_steps) {
  const size_t steps = std::min(most_steps, golden.trace.size());
  std::vector<std::vector<std::pair<int32_t, int32_t>>> trace;
  const auto on_step = [&](const decode::StepEvent& event) {
    auto& step = trace.emplace_back();
    for (const decode::Edit& e : event.edits) step.emplace_back(e.position, e.token);
    return trace.size() < steps || steps == golden.trace.size();
  };
  const auto prompt = std::span(item.canvas).first(static_cast<size_t>(item.prompt_tokens));
  const auto run = must(session.generate(prompt, golden.options, on_step));
  ASSERT_EQ(trace.size(), steps);
  for (size_t s = 0; s < steps; ++s)
    ASSERT_EQ(trace[s], golden.trace[s]) << "step " << s << " of '" << item.prompt << "'";
  if (steps < golden.trace.size()) return;
  EXPECT_EQ(run->tokens, golden.tokens);
  EXPECT_EQ(run->stats.decode.nfe, golden.nfe);
  EXPECT_EQ(run->text, golden.text);
}

// labels: long for tinylladamoe
TEST_P(Golden, OneTokenPerStep) {
  const auto session = open_session(model_);
  for (const GoldenItem& item : items_) expect_same_run(*session, item, item.one_per_step, most_steps_);
}

// labels: oracle
TEST_P(Golden, ThresholdStrictlyAbove) {
  const auto session = open_session(model_);
  for (const GoldenItem& item : items_) expect_same_run(*session, item, item.threshold, most_steps_);
}

// labels: long -threads
TEST(GoldenPeer, FileInAnotherDialectGivesTheSameIds) {
  const auto peer = load_model(LLADA_SOURCE_DIR "/tests/data/peer/tiny-llada-bf16.gguf");
  auto items = load_golden(LLADA_SOURCE_DIR "/models/tiny-llada/golden.json");
  if (quick()) items.erase(items.begin(), items.begin() + 3);
  EXPECT_EQ(peer->config().rope_pairing, RopePairing::adjacent);  // rows of q and k come permuted
  const auto session = open_session(peer);
  for (const GoldenItem& item : items) expect_same_run(*session, item, item.threshold, most_steps());
  expect_same_run(*session, items[0], items[0].one_per_step, most_steps());
}

}  // namespace
}  // namespace llada
