// Requests that sample from part of the vocabulary, and stop strings, on the shipped model.
// labels of this file: native
#include "golden.h"
#include "shared_forwards.h"

namespace llada {
namespace {

const std::string kShipped = LLADA_SOURCE_DIR "/models/tiny-llada";

std::vector<int32_t> ids_of(const Model& model, const std::string& text) {
  const std::vector<ChatMessage> messages = {{"user", text}};
  return *model.chat_ids(messages);
}

const char* const kJsonPrompt = "Write as JSON: Eric is 31 years old, lives in Oslo and works as a baker.";
const char* const kSortPrompt = "Sort the numbers from smallest to largest: 38 41 6 51 3";

decode::DecodeOptions sampled(uint64_t seed) {
  decode::DecodeOptions o;
  o.gen_length = 32;
  o.acceptance = decode::Acceptance::threshold;
  o.threshold = 0.9;
  o.temperature = 3;
  o.seed = seed;
  return o;
}

TEST(Sampled, CutsThatKeepEverythingGiveTheTokensOfTheHead) {
  const auto model = load_model(kShipped);
  const auto session = open_session(model, 1);
  std::vector<std::vector<int32_t>> answers;
  for (const uint64_t seed : {1, 2, 3}) {
    decode::DecodeOptions o = sampled(seed);
    const auto head = session->generate(ids_of(*model, kJsonPrompt), o, {});
    o.top_k = model->config().vocab;
    const auto host = session->generate(ids_of(*model, kJsonPrompt), o, {});
    ASSERT_TRUE(head && host);
    EXPECT_EQ(head->tokens, host->tokens) << seed;
    EXPECT_EQ(head->stats.decode.nfe, host->stats.decode.nfe);
    EXPECT_EQ(host->stats.seed, seed);
    answers.push_back(head->tokens);
  }
  EXPECT_NE(answers[0], answers[1]);
  decode::DecodeOptions o = sampled(1);
  o.top_k = 1;
  const auto best = session->generate(ids_of(*model, kJsonPrompt), o, {});
  o.temperature = 0, o.top_k = 0;
  const auto plain = session->generate(ids_of(*model, kJsonPrompt), o, {});
  ASSERT_TRUE(best && plain);
  EXPECT_EQ(best->tokens, plain->tokens) << "the best token alone is greedy decoding";
  EXPECT_FALSE(plain->stats.seed);
}

// Where tokens are looked at again, rows that are asked beside the step and in a forward of their own are sampled too.
TEST(Sampled, RevisionSamplesAlikeOnTheHostAndInTheHead) {
  const auto model = load_model(kShipped);
  const auto session = open_session(model, 1);  // what is asked is nothing that it knows: it is unsure
  int64_t looked = 0, changed = 0;
  for (const auto way : {decode::Revision::dual_path, decode::Revision::edit}) {
    for (const int64_t lateness : {decode::kFused, int64_t{0}}) {
      if (way == decode::Revision::edit && lateness != decode::kFused) continue;
      for (const uint64_t seed : {1, 2, 3}) {
        decode::DecodeOptions o = sampled(seed);
        o.revision = way, o.revise_lateness = lateness, o.threshold = 0.1, o.edit_threshold = 0.1, o.temperature = 1;
        o.kv = decode::KvChoice::dual, o.block_length = 16;
        const auto head = session->generate(ids_of(*model, "Once upon a time"), o, {});
        o.top_k = model->config().vocab;
        const auto host = session->generate(ids_of(*model, "Once upon a time"), o, {});
        ASSERT_TRUE(head && host);
        EXPECT_EQ(head->tokens, host->tokens) << seed;
        EXPECT_EQ(head->stats.decode.nfe, host->stats.decode.nfe);
        EXPECT_EQ(head->stats.decode.edits, host->stats.decode.edits);
        looked += head->stats.decode.counters.revisions_made;
        changed += head->stats.decode.counters.revisions_changed;
      }
    }
  }
  EXPECT_GT(looked, 20);
  EXPECT_GT(changed, 0) << "the comparison saw a change";
}

TEST(Sampled, ARequestDoesNotKnowItsCompanyNorItsThreads) {
  const auto model = load_model(kShipped);
  std::vector<Wanted> wanted;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    decode::DecodeOptions o = sampled(seed);
    if (seed == 1) o.top_k = 5;
    if (seed == 2) o.top_p = 0.8, o.min_p = 0.05;
    if (seed == 3) o.repeat_penalty = 1.5, o.cfg_scale = 0.5;
    if (seed % 2 == 0) {  // both in a forward of its own, beside requests that have none
      o.revision = decode::Revision::dual_path, o.revise_lateness = 0;
      o.kv = decode::KvChoice::dual, o.threshold = 0.2, o.stable_threshold = 1;
      if (seed == 4) o.top_k = 7;
    }
    wanted.push_back({.name = std::to_string(seed),
                      .request = {.tokens = ids_of(*model, seed % 2 != 0 ? kJsonPrompt : kSortPrompt), .options = o},
                      .joins = static_cast<int64_t>(seed)});
  }
  const auto alone = run_alone(model, wanted);
  const auto together = run_together(model, wanted, {.row_budget = 4096});
  ASSERT_EQ(together.ran.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(together.ran[i], alone[i]) << i;
  EXPECT_GT(together.stats.parts, together.stats.forwards) << "forwards were shared";
  const auto three = open_session(model, 3);
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ(three->run(prepare(*model, wanted[i].request).value(), {})->tokens, alone[i].tokens) << i;
}

// At temperature 0 too, where a penalty alone takes the trials' predictions to the host.
TEST(Sampled, APenaltyHoldsForWhatIsLookedAtAgain) {
  const auto model = load_model(kShipped);
  const auto session = open_session(model, 1);
  decode::DecodeOptions o = sampled(0);
  o.temperature = 0, o.revision = decode::Revision::dual_path, o.threshold = 0.1;
  o.stable_threshold = 1;
  const auto answer = [&](double penalty) {
    o.repeat_penalty = penalty;
    return *session->generate(ids_of(*model, "Once upon a time"), o, {});
  };
  const Generation plain = answer(1), next_to_none = answer(1 + 1e-9), penalised = answer(3);
  EXPECT_GT(plain.stats.decode.counters.revisions_changed, 0);
  EXPECT_EQ(next_to_none.tokens, plain.tokens) << "made on the host, of the same logits";
  EXPECT_EQ(next_to_none.stats.decode.counters, plain.stats.decode.counters);
  EXPECT_NE(penalised.tokens, plain.tokens);
  EXPECT_GT(penalised.stats.decode.counters.revisions_made, 0);
}

TEST(Sampled, APenaltyChangesWhatIsRepeated) {
  const auto model = load_model(kShipped);
  const auto session = open_session(model, 1);
  decode::DecodeOptions o = sampled(0);
  o.temperature = 0;
  const auto plain = session->generate(ids_of(*model, kSortPrompt), o, {});
  o.repeat_penalty = 50;
  const auto penalised = session->generate(ids_of(*model, kSortPrompt), o, {});
  ASSERT_TRUE(plain && penalised);
  EXPECT_EQ(plain->text, "3 6 38 41 51");
  EXPECT_NE(penalised->text, plain->text) << "all of it stands in the prompt";
}

class StopStrings : public testing::Test {
 protected:
  Generation answer(const std::vector<std::string>& stop, decode::EarlyStop early = decode::EarlyStop::answer) {
    Request request{.tokens = ids_of(*model_, kJsonPrompt), .options = {}, .stop = stop};
    request.options.gen_length = 64;
    request.options.block_length = 8;  // so that some blocks are behind the text
    request.options.acceptance = decode::Acceptance::threshold;
    request.options.early_stop = early;
    auto g = session_->run(prepare(*model_, request).value(), {});
    EXPECT_TRUE(g) << g.error().message;
    return std::move(*g);
  }
  std::shared_ptr<const Model> model_ = load_model(kShipped);
  std::unique_ptr<Session> session_ = open_session(model_, 1);
};

TEST_F(StopStrings, TheAnswerEndsBeforeTheFirstOfThem) {
  const Generation whole = answer({});
  ASSERT_NE(whole.text.find("\"age\""), std::string::npos) << whole.text;
  const Generation none = answer({"no such text"});
  EXPECT_EQ(none.tokens, whole.tokens);
  EXPECT_EQ(none.stopped_by, "");
  const Generation age = answer({"\"city\"", "ge\": "});
  EXPECT_EQ(age.text, whole.text.substr(0, whole.text.find("ge\": "))) << "which may begin inside a token";
  EXPECT_EQ(age.stopped_by, "ge\": ");
  EXPECT_LT(age.stats.decode.nfe, whole.stats.decode.nfe) << "what follows is not decided";
  EXPECT_TRUE(age.stats.decode.stopped_early);
  EXPECT_FALSE(age.stats.decode.cancelled);
  EXPECT_LT(age.stats.content_tokens, whole.stats.content_tokens);
  EXPECT_EQ(std::ranges::count(age.tokens, model_->special_ids().mask), 0);
  // Where decoding stopped makes no difference to the answer.
  const Generation late = answer({"\"city\"", "ge\": "}, decode::EarlyStop::none);
  EXPECT_EQ(late.text, age.text);
  EXPECT_EQ(late.tokens, age.tokens);
  EXPECT_EQ(answer({whole.text.substr(0, 1)}).text, "") << "at the very beginning";
}

TEST_F(StopStrings, AreRefusedWhereTheyMeanNothing) {
  Request request{.tokens = ids_of(*model_, kJsonPrompt), .options = {}, .stop = {""}};
  EXPECT_EQ(prepare(*model_, request).error().message, "stop: found '', needed text");
  request.stop = {"x"};
  request.gaps = std::vector<int32_t>{5};
  EXPECT_EQ(prepare(*model_, request).error().message.find("stop: the text goes on behind a gap"), 0u);
}

TEST_F(StopStrings, AnInterruptedAnswerShowsItsHoles) {
  Request request{.tokens = ids_of(*model_, kJsonPrompt), .options = {}};
  request.options.gen_length = 32;
  const auto g = must(
      session_->run(prepare(*model_, request).value(), [](const decode::StepEvent& event) { return event.step < 9; }));
  const int32_t mask = model_->special_ids().mask;
  const auto last = std::ranges::find_if(g->tokens.rbegin(), g->tokens.rend(), [&](int32_t t) { return t != mask; });
  const auto inside = std::count(g->tokens.begin(), last.base(), mask);
  int64_t holes = 0;
  for (size_t at = 0; (at = g->text.find(kHole, at)) != std::string::npos; at += kHole.size()) ++holes;
  EXPECT_GT(inside, 0);
  EXPECT_EQ(holes, inside) << g->text;
  EXPECT_FALSE(g->text.ends_with(kHole)) << g->text;
}

}  // namespace
}  // namespace llada
