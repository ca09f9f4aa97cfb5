// Requests with a form on the shipped model: every preset's answer fits, alone and in company, and what needs no
// forward takes none.
#include <gtest/gtest.h>

#include "engine/decode_choice.h"
#include "engine/engine.h"
#include "engine/form_store.h"
#include "engine/infill_text.h"
#include "engine/session.h"
#include "forms/form.h"
#include "golden.h"

namespace llada {
namespace {

const std::shared_ptr<const Model>& tiny() {
  static const auto kModel = load_model(LLADA_SOURCE_DIR "/models/tiny-llada", 1);
  return kModel;
}

decode::DecodeOptions options_with(std::vector<std::pair<const char*, std::string>> given) {
  DecodeChoice choice;
  choice.use_defaults();
  for (const auto& [key, text] : given) {
    if (key == std::string_view("preset")) {
      choice.give_preset(text);
    } else {
      choice.give(*decode::setting(key, text));
    }
  }
  const Status status = choice.resolve(0);
  EXPECT_TRUE(status) << status.error().message;
  return choice.options;
}

std::vector<int32_t> prompt(const char* text) {
  const ChatMessage message{"user", text};
  return *tiny()->chat_ids({&message, 1});
}

constexpr const char* kSchema =
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer",
  "minimum": 0, "maximum": 150}, "job": {"enum": ["baker", "pilot", null]}}, "required": ["name", "age", "job"]})";

TEST(FormRun, AnswersOfEveryPresetFit) {
  const auto session = *Session::create(tiny(), {.threads = 0});
  const auto automaton = *forms::automaton_of({forms::FormKind::json_schema, kSchema});
  const auto tokens = prompt("Write JSON: Eric is 31 years old and works as a baker.");
  for (const char* preset : {"exact", "balanced", "fast", "llada2", "llada2.1"}) {
    const bool heated = preset == std::string_view("fast") || preset == std::string_view("balanced");
    const auto options = options_with({{"preset", preset},
                                       {"json_schema", kSchema},
                                       {"gen_length", "40"},
                                       {"temperature", heated ? "1" : "0"},
                                       {"seed", "5"}});
    const auto answer = session->run(prepare(*tiny(), {.tokens = tokens, .options = options}).value(), {});
    ASSERT_TRUE(answer) << preset << ": " << answer.error().message;
    EXPECT_TRUE(automaton.fits(answer->text)) << preset << " " << answer->text;
    EXPECT_EQ(finish_reason(*answer), "stop");
    if (!heated) continue;
    const auto engine = *Engine::create(tiny(), {.threads = 1, .row_budget = 4096});
    const auto one = engine->submit(prepare(*tiny(), {.tokens = tokens, .options = options}).value());
    const auto other = engine->submit(
        prepare(*tiny(), {.tokens = prompt("2 + 3 ="), .options = options_with({{"choice", "yes|no"}})}).value());
    EXPECT_EQ(one->wait()->tokens, answer->tokens) << preset;
    const std::string text = other->wait()->text;
    EXPECT_TRUE(text == "yes" || text == "no") << text;
  }
}

// The store keeps some forms; a request keeps its own, and nobody makes it again.
TEST(FormRun, ARequestCarriesItsForm) {
  const auto options = options_with({{"choice", "up|down"}});
  EXPECT_FALSE(tiny()->has_form(options));
  const Ready ready = prepare(*tiny(), {.tokens = prompt("Where to?"), .options = options}).value();
  EXPECT_TRUE(tiny()->has_form(options));
  EXPECT_EQ(prepare(*tiny(), ready->request).value()->form, ready->form);
  const auto engine = *Engine::create(tiny(), {.threads = 1});
  const auto session = *Session::create(tiny(), {.threads = 0});
  for (const std::string& text : {engine->submit(ready)->wait()->text, session->run(ready, {})->text})
    EXPECT_TRUE(text == "up" || text == "down") << text;
  const auto refused =
      prepare(*tiny(), {.tokens = prompt("?"), .options = options_with({{"regex", "a{9}"}, {"gen_length", "2"}})});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().about, Refusal::About::form);
  EXPECT_TRUE(refused.error().message.starts_with("gen_length: ")) << refused.error().message;
}

// Answers to one request share it, and have seeds of their own.
TEST(FormRun, AnswersToOneRequestDifferInTheirSeed) {
  const auto asked = [](uint64_t seed) {
    return Request{
        .tokens = prompt("Once"),
        .options = options_with({{"temperature", "1"}, {"gen_length", "24"}, {"seed", std::to_string(seed)}})};
  };
  const auto engine = *Engine::create(tiny(), {.threads = 1});
  const Ready ready = prepare(*tiny(), asked(7)).value();
  for (uint64_t nth = 0; nth < 3; ++nth)
    EXPECT_EQ(engine->submit(ready, {.run = {.nth = nth}})->wait()->tokens,
              engine->submit(prepare(*tiny(), asked(7 + nth)).value())->wait()->tokens);
}

TEST(FormRun, WhatTheFormSaysCostsNothing) {
  const auto session = *Session::create(tiny(), {.threads = 0});
  const auto fixed = must(session->run(
      prepare(*tiny(), {.tokens = prompt("Say it."), .options = options_with({{"choice", "exactly this"}})}).value(),
      {}));
  EXPECT_EQ(fixed->text, "exactly this");
  EXPECT_EQ(fixed->stats.decode.nfe, 0);
  const auto template_text = R"({"name": "Eric", "age": <int 0..99>, "city": "Oslo"})";
  const auto gap =
      must(session->run(prepare(*tiny(), {.tokens = prompt("Eric is 31."),
                                          .options = options_with({{"template", template_text}, {"gen_length", "40"}})})
                            .value(),
                        {}));
  EXPECT_TRUE(gap->text.starts_with(R"({"name": "Eric", "age": )"));
  EXPECT_TRUE(gap->text.ends_with(R"(, "city": "Oslo"})"));
  EXPECT_LE(gap->stats.decode.nfe, 4);
}

// Of tokens that the form fixed there are none.
TEST(FormRun, ScoresAreThoseOfWhatTheModelChose) {
  const auto session = *Session::create(tiny(), {.threads = 0});
  const auto answer = must(
      session->run(prepare(*tiny(), {.tokens = prompt("Eric is 31."),
                                     .options = options_with({{"template", R"({"name": "Eric", "age": <int 10..99>})"},
                                                              {"gen_length", "40"}}),
                                     .alternatives = 2})
                       .value(),
                   {}));
  ASSERT_EQ(answer->scores.size(), answer->tokens.size());
  EXPECT_EQ(answer->scores[0].token, -1) << "the brace that it begins with";
  int scored = 0;
  for (size_t i = 0; i < answer->tokens.size(); ++i) {
    if (answer->scores[i].token < 0) continue;
    ++scored;
    EXPECT_EQ(answer->scores[i].token, answer->tokens[i]) << i;
    EXPECT_EQ(answer->scores[i].top.size(), 2u) << i;
  }
  EXPECT_GE(scored, 1);
}

// Passes beside the steps that only refresh keys have no rows that are read.
TEST(FormRun, PassesWithoutTrialsReadNothing) {
  const auto session = *Session::create(tiny(), {.threads = 0});
  const auto automaton = *forms::automaton_of({forms::FormKind::json_schema, kSchema});
  decode::DecodeOptions o;
  o.gen_length = 48, o.block_length = 16, o.json_schema = kSchema;
  o.acceptance = decode::Acceptance::threshold, o.threshold = 0.6;
  o.kv = decode::KvChoice::dual;
  o.revision = decode::Revision::dual_path, o.revise_lateness = 0;
  const auto answer =
      must(session->run(prepare(*tiny(), {.tokens = prompt("Eric is 31 years old."), .options = o}).value(), {}));
  EXPECT_TRUE(automaton.fits(answer->text)) << answer->text;
  EXPECT_GT(answer->stats.decode.sparse_forwards, 0);
}

// Tokens that mean something to the decoder, of files whose tokenizer says that they are text.
TEST(FormRun, NoFormHasTheDecodersOwnTokens) {
  const Tokenizer& tokenizer = tiny()->tokenizer();
  decode::SpecialIds ids = tiny()->special_ids();
  const auto a = tokenizer.encode("a"), b = tokenizer.encode("b"), c = tokenizer.encode("c");
  ASSERT_EQ(a.size() * b.size() * c.size(), 1u);
  ids.mask = a[0], ids.delete_id = b[0], ids.split_id = c[0];
  FormStore store;
  const auto form = must(store.get({forms::FormKind::regex, ".*"}, tokenizer, ids));
  const auto classes = (*form)->classes().class_of();
  for (const int32_t id : {ids.mask, ids.delete_id, ids.split_id}) EXPECT_EQ(classes[static_cast<size_t>(id)], -1);
  EXPECT_GE(classes[static_cast<size_t>(tokenizer.encode("d")[0])], 0);
}

TEST(FormRun, EveryLengthFromTheShortestOn) {
  const auto session = *Session::create(tiny(), {.threads = 0});
  const auto automaton = *forms::automaton_of({forms::FormKind::json_schema, kSchema});
  const auto tokens = prompt("x");
  const auto too_short =
      prepare(*tiny(), {.tokens = tokens, .options = options_with({{"json_schema", kSchema}, {"gen_length", "3"}})});
  ASSERT_FALSE(too_short);
  const std::string expected = "gen_length: found 3, needed ";
  ASSERT_TRUE(too_short.error().message.starts_with(expected)) << too_short.error().message;
  const int64_t least = std::stoll(too_short.error().message.substr(expected.size()));
  for (int64_t length = least - 1; length < least + 12; ++length) {
    const auto ready = prepare(*tiny(), {.tokens = tokens,
                                         .options = options_with({{"json_schema", kSchema},
                                                                  {"gen_length", std::to_string(length)},
                                                                  {"temperature", length % 2 ? "0" : "1"},
                                                                  {"seed", "3"}})});
    ASSERT_EQ(ready.has_value(), length >= least) << length;
    if (ready) {
      const auto answer = session->run(*ready, {});
      EXPECT_TRUE(automaton.fits(answer->text)) << answer->text;
    }
  }
}

TEST(FormRun, GapsFitByThemselves) {
  const auto session = *Session::create(tiny(), {.threads = 0});
  DecodeChoice choice(true);
  choice.use_defaults();
  choice.give(*decode::setting("regex", "[0-9]+|[a-c]+"));
  ASSERT_TRUE(choice.resolve(0));
  const std::vector<int32_t> text = tiny()->tokenizer().encode("1 + 1 = __ and 5 - 3 = __.");
  const std::vector<int32_t> gaps = {6, 7, 8, 12};
  const auto answer =
      must(session->run(prepare(*tiny(), {.tokens = text, .gaps = gaps, .options = choice.options}).value(), {}));
  const auto automaton = *forms::automaton_of({forms::FormKind::regex, "[0-9]+|[a-c]+"});
  const auto piece = [&](size_t from, size_t count) {
    return tiny()->tokenizer().decode(std::span(answer->tokens).subspan(from, count));
  };
  EXPECT_TRUE(automaton.fits(piece(6, 3))) << piece(6, 3);
  EXPECT_TRUE(automaton.fits(piece(12, 1))) << piece(12, 1);
}

}  // namespace
}  // namespace llada
