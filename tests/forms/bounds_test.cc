// What is bounded of forms: repeats whose bounds are counted beside the automaton, against automata that have a state
// for each count; and the work of a call, which is counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "agent_tools.h"
#include "forms/form.h"
#include "forms/json_schema.h"
#include "forms/nfa.h"
#include "forms/solve.h"
#include "forms/tool_form.h"
#include "pieces.h"
#include "rows.h"

namespace llada::forms {
namespace {

Expr read(FormKind kind, const std::string& text) {
  Budget budget;
  auto expression = parse_form({kind, text}, budget);
  EXPECT_TRUE(expression) << expression.error().message;
  return *expression;
}

Automaton made(const Expr& expression, int level) {
  auto automaton = compile(expression, level);
  EXPECT_TRUE(automaton) << automaton.error().message;
  return *automaton;
}

std::shared_ptr<const TokenForm> lifted(const Automaton& automaton, const std::vector<std::string>& pieces,
                                        const EndTokens& ends = {{0}, 0}) {
  const Vocabulary vocabulary(std::vector<std::string_view>(pieces.begin(), pieces.end()));
  auto form = TokenForm::create(automaton, vocabulary, ends);
  EXPECT_TRUE(form) << form.error().message;
  return std::make_shared<const TokenForm>(*std::move(form));
}

RowScores random_row(const TokenForm& form, size_t tokens, std::mt19937& random, int liked = -1) {
  std::vector<float> logits(tokens);
  for (float& l : logits) l = static_cast<float>(random() % 1000) / 250;
  if (liked >= 0) logits[static_cast<size_t>(liked)] += 4;
  RowReader reader({&form.classes()}, 0);
  reader.read_all(logits);
  return reader.take();
}

const std::pair<FormKind, const char*> kLoops[] = {
    {FormKind::json_schema, R"({"type": "string", "maxLength": 15})"},
    {FormKind::json_schema, R"({"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 9})"},
    {FormKind::json_schema, R"({"properties": {"a": {"type": "string", "minLength": 2, "maxLength": 14},
      "b": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 80}}})"},
    {FormKind::regex, "([a-c]x?){5,140}"},
    {FormKind::regex, "(a|aa){3,210}"}};

TEST(Counted, FitsWhatStatesForEachCountFit) {
  std::mt19937 random(5);
  for (const auto& [kind, text] : kLoops) {
    const Expr expression = read(kind, text);
    ASSERT_TRUE(has_loops_at(expression, kLastLevel)) << text;
    const Automaton exact = made(expression, 0), loops = made(expression, kLastLevel);
    ASSERT_EQ(exact.counted, nullptr);
    ASSERT_NE(loops.counted, nullptr);
    EXPECT_LT(loops.states(), exact.states());
    int fitting = 0, broken = 0;
    for (int round = 0; round < 150; ++round) {
      // A walk that fits the loops, left where it may end, now and then with a byte that is wrong.
      std::string one;
      int32_t state = loops.start;
      for (size_t wanted = random() % (round % 2 ? 900 : 20); one.size() < 1800;) {
        if (one.size() >= wanted && loops.complete[static_cast<size_t>(state)]) break;
        std::vector<int> bytes;
        for (int b = 0; b < 256; ++b)
          if (loops.step(state, static_cast<uint8_t>(b)) >= 0) bytes.push_back(b);
        if (bytes.empty()) break;
        int byte = random() % 4 && loops.step(state, 'a') >= 0 ? 'a' : bytes[random() % bytes.size()];
        // The quote before the others, which are text of a string.
        for (const char close : {'}', ']', '"'})
          if (one.size() >= wanted && loops.step(state, static_cast<uint8_t>(close)) >= 0) byte = close;
        one += static_cast<char>(byte);
        state = loops.step(state, static_cast<uint8_t>(byte));
      }
      if (round % 7 == 0 && !one.empty()) one[random() % one.size()] = 'a';
      ASSERT_EQ(loops.fits(one), exact.fits(one)) << text << ": " << one;
      fitting += exact.fits(one), broken += !exact.fits(one);
    }
    EXPECT_GT(fitting, 30) << text;
    EXPECT_GT(broken, 10) << text;
  }
}

// Where no bound is reached the loops are the same form: same tokens, same numbers.
TEST(Counted, BoundsThatAreNotReachedChangeNothing) {
  std::mt19937 random(8);
  const std::vector<std::string> pieces = synthetic(3000);
  const Expr expression = read(FormKind::json_schema, R"({"properties": {"a": {"type": "string", "maxLength": 400}}})");
  const auto exact = lifted(made(expression, 0), pieces), loops = lifted(made(expression, 1), pieces);
  ASSERT_NE(loops->counted(), nullptr);
  for (int round = 0; round < 10; ++round) {
    std::vector<std::vector<float>> logits(14, std::vector<float>(pieces.size()));
    std::vector<RowScores> rows[2];
    std::vector<Chosen> paths[2];
    for (auto& row : logits)
      for (float& l : row) l = static_cast<float>(random() >> 8) / 1'500'000;  // all different
    for (const auto& [form, i] : {std::pair(exact, 0), {loops, 1}}) {
      for (const auto& row : logits) {
        RowReader reader({&form->classes()}, 0);
        reader.read_all(row);
        rows[i].push_back(reader.take());
      }
      std::vector<Slot> slots(16);
      for (size_t k = 0; k < rows[i].size(); ++k) slots[k].scores = &rows[i][k];
      Solver solver(form, false);
      Track track;
      paths[i] = solver.solve(slots, track);
    }
    ASSERT_EQ(paths[0].size(), paths[1].size());
    for (size_t k = 0; k < paths[0].size(); ++k) {
      EXPECT_EQ(paths[0][k].token, paths[1][k].token);
      EXPECT_NEAR(paths[0][k].probability, paths[1][k].probability, 1e-6);
    }
  }
}

// Whatever is committed of a joint path, in any order and any number at a time, and whatever is revised: the text keeps
// the bounds in the end, although the model wants to go on for ever.
TEST(Counted, AnswersKeepTheirBounds) {
  std::mt19937 random(3);
  std::vector<std::string> pieces = {""};
  for (const char* piece : {"\"",   "[", "]", "{",          "}",       ":",  ", ", "\", \"", "a", "aa", "ab",
                            "abab", "b", "c", "{\"a\": \"", "\"b\": ", "12", "1",  ",",      " ", "0",  "aabbaabb"})
    pieces.emplace_back(piece);
  int at_bound = 0;
  for (const auto& [kind, text] : kLoops)
    for (const bool closed : {false, true}) {
      const Expr expression = read(kind, text);
      const Automaton exact = made(expression, 0);
      const auto form = lifted(made(expression, kLastLevel), pieces);
      Solver solver(form, closed);
      for (int round = 0; round < 25; ++round) {
        std::vector<Slot> slots(static_cast<size_t>(form->least(form->start())) + random() % 60);
        Track track;
        if (!solver.fits(slots, track)) {
          ASSERT_TRUE(closed) << text;
          continue;
        }
        const int liked = 9 + static_cast<int>(random() % 12);
        std::vector<RowScores> rows(slots.size());
        for (int step = 0; std::ranges::any_of(slots, [](const Slot& s) { return s.token < 0; }); ++step) {
          const size_t seen =
              round % 2 ? slots.size() : std::min<size_t>(slots.size(), 8 + 4 * static_cast<size_t>(step));
          for (size_t i = 0; i < seen; ++i)
            if (slots[i].token < 0)
              rows[i] = random_row(*form, pieces.size(), random, liked), slots[i].scores = &rows[i];
          const auto path = solver.solve(slots, track, {.sampled = round % 3 == 0});
          for (Slot& s : slots) s.scores = nullptr;
          ASSERT_FALSE(path.empty()) << text;
          const size_t sure = random() % path.size();
          for (size_t k = 0; k < path.size(); ++k)
            if (k == sure || random() % 3 == 0) slots[static_cast<size_t>(path[k].slot)].token = path[k].token;
          if (random() % 8 == 0) slots[random() % slots.size()].token = -1;  // revised
          const std::vector<Slot> before = slots;  // another token over a decided one, where it fits
          if (Slot& s = slots[random() % slots.size()]; s.token > 0) s.token = 1 + static_cast<int>(random() % 20);
          if (!solver.fits(slots, track)) slots = before;
          ASSERT_TRUE(solver.fits(slots, track)) << text;
          ASSERT_LT(step, 3000);
        }
        std::string answer;
        for (const Slot& s : slots) answer += pieces[static_cast<size_t>(s.token)];
        EXPECT_TRUE(exact.fits(answer)) << text << ": " << answer;
        at_bound += answer.size() > 60;
      }
    }
  EXPECT_GT(at_bound, 20);
}

// How long a string becomes of a model that likes one letter, by so much more than the string's end and what follows it.
size_t string_of(const char* schema, float liked, size_t block) {
  std::vector<std::string> pieces = {""};
  for (const char* piece : {"\"", "[", "]", "{", "}", "a", "\": \"", "\", \"", "\\", "\xc3", "\xa4"})
    pieces.emplace_back(piece);
  const auto form = lifted(made(read(FormKind::json_schema, schema), 0), pieces);
  std::vector<float> logits(pieces.size());
  logits[6] = liked;
  const RowScores row = read_row(logits, *form);
  Solver solver(form, false);
  std::vector<Slot> slots(400);
  Track track;
  solver.write_fixed(slots, track);
  for (size_t begin = 0; begin < slots.size(); begin += block) {
    const size_t end = std::min(begin + block, slots.size());
    for (size_t i = begin; i < end; ++i)
      if (slots[i].token < 0) slots[i].scores = &row;
    for (const Chosen& c : solver.solve(slots, track)) {
      EXPECT_LE(c.probability, 1);
      slots[static_cast<size_t>(c.slot)] = {c.token, nullptr};
    }
  }
  return static_cast<size_t>(std::ranges::count(slots, 6, &Slot::token));
}

TEST(Strings, OfAModelThatDoesNotKnowHowToGoOnEnd) {
  const char* const kOne = R"({"properties": {"a": {"type": "string"}}, "required": ["a"]})";
  for (const size_t block : {16, 32, 400}) {
    const auto length = string_of(kOne, 2, block);
    EXPECT_GT(length, 64u) << block;
    EXPECT_LT(length, 140u) << block;
    EXPECT_GT(string_of(kOne, 6, block), 380u) << "it is sure";
  }
  EXPECT_LT(string_of(R"({"type": "string"})", 2, 32), 140u);
  EXPECT_GT(string_of(R"({"type": "string", "maxLength": 300})", 2, 32), 280u) << "a bound of its own";
  // Each string of a list for itself: a token that ends one and begins the next begins to count anew.
  EXPECT_GT(string_of(R"({"type": "array", "items": {"type": "string"}, "minItems": 8, "maxItems": 8})", 2, 32), 300u);
}

const char* const kHostile[] = {"[ -~]*a[ -~]{9}",
                                "[ -~]*a[ -~]{11}",
                                "(a|b)*a(a|b){10}",
                                "([ -~]{0,90}x){3}",
                                "([a-z]{1,7} ){0,60}",
                                ".{0,2000}",
                                "([ -~]{3}|[ -~]{5}|[ -~]{7}|[ -~]{11}|[ -~]{13})*",
                                "(([a-m]{1,9}|[h-z]{2,8})[0-9 ]{0,4}){0,30}"};

// Of every form that is taken each call is bounded, however many positions are predicted, decided or open.
TEST(Work, OfACallIsBounded) {
  const std::vector<std::string> pieces = synthetic(20'000);
  const Vocabulary vocabulary(std::vector<std::string_view>(pieces.begin(), pieces.end()));
  std::mt19937 random(4);
  int windows = 0;
  for (const char* regex : kHostile) {
    auto form = token_form_of({FormKind::regex, regex}, vocabulary, {{0}, 0});
    if (!form) {
      EXPECT_NE(form.error().message.find("regex: "), std::string::npos);
      continue;
    }
    const auto shared = std::make_shared<const TokenForm>(*std::move(form));
    // What one position may cost beside the window: all states and sets.
    int64_t position = shared->edges_of_all();
    for (int32_t set = 0; set < shared->sets(); ++set) position += std::ssize(shared->classes_of(set));
    EXPECT_LE(position, 2 * kMostEdges) << regex;
    const RowScores row = random_row(*shared, pieces.size(), random);
    Solver solver(shared, false);
    Track track;
    std::vector<Slot> slots(400);
    size_t decided = 0;
    for (int step = 0; step < 12; ++step) {
      for (size_t i = decided; i < slots.size(); ++i) slots[i].scores = &row;
      const int64_t before = solver.work();
      const auto path = solver.solve(slots, track);
      EXPECT_LE(solver.work() - before, Solver::kStepWork + 2 * position) << regex;
      ASSERT_FALSE(path.empty()) << regex;
      EXPECT_EQ(path.front().slot, static_cast<int32_t>(decided));
      windows += path.size() + decided < slots.size();
      // All of the window but every third.
      std::vector<Slot> kept = slots;
      for (size_t k = 0; k < path.size(); ++k)
        if (k % 3 != 1) slots[static_cast<size_t>(path[k].slot)].token = path[k].token;
      for (Slot& s : slots) s.scores = nullptr;
      EXPECT_TRUE(solver.fits(slots, track)) << regex;
      while (decided < slots.size() && slots[decided].token >= 0) ++decided;
      if (decided == slots.size()) break;
    }
  }
  EXPECT_GT(windows, 3) << "no form of these is heavy";
}

// The calls of a forward together, over a whole answer of which each forward decides one token: no more than the window
// for each of them, and the two positions that are looked at in any case.
TEST(Work, OfAnAnswerIsBounded) {
  const std::vector<std::string> pieces = synthetic(20'000);
  const Vocabulary vocabulary(std::vector<std::string_view>(pieces.begin(), pieces.end()));
  std::mt19937 random(6);
  for (const char* regex : {kHostile[0], kHostile[2], kHostile[7]}) {
    auto form = token_form_of({FormKind::regex, regex}, vocabulary, {{0}, 0});
    ASSERT_TRUE(form) << form.error().message;
    const auto shared = std::make_shared<const TokenForm>(*std::move(form));
    int64_t position = shared->edges_of_all();
    for (int32_t set = 0; set < shared->sets(); ++set) position += std::ssize(shared->classes_of(set));
    const RowScores row = random_row(*shared, pieces.size(), random);
    Solver solver(shared, false);
    Track track;
    std::vector<Slot> slots(300);
    int64_t forwards = 0;
    for (size_t begin = 0; begin < 64; ++begin) {
      if (slots[begin].token >= 0) continue;
      const std::vector<int32_t> only = solver.fixed(slots, begin + 32, track);
      for (size_t i = 0; i < only.size(); ++i)
        if (only[i] >= 0) slots[i].token = only[i];
      if (slots[begin].token >= 0) continue;
      for (size_t i = begin; i < begin + 32; ++i)
        if (slots[i].token < 0) slots[i].scores = &row;
      const auto path = solver.solve(slots, track);
      ASSERT_FALSE(path.empty()) << regex;
      for (Slot& s : slots) s.scores = nullptr;
      slots[static_cast<size_t>(path[0].slot)].token = path[0].token;
      EXPECT_TRUE(solver.fits(slots, track)) << regex;
      ++forwards;
    }
    EXPECT_LE(solver.work(), (forwards + 1) * (3 * Solver::kStepWork + 2 * position)) << regex;
    RecordProperty("ways_a_forward", std::to_string(solver.work() / std::max<int64_t>(forwards, 1)));
  }
}

// A forward costs by what is undecided of its block, not by what stands before it.
TEST(Work, DoesNotGrowWithWhatIsDecided) {
  const std::vector<std::string> pieces = synthetic(20'000);
  const Vocabulary vocabulary(std::vector<std::string_view>(pieces.begin(), pieces.end()));
  auto form =
      token_form_of({FormKind::json_schema, R"({"type": "array", "items": {"type": "string"}})"}, vocabulary, {{0}, 0});
  ASSERT_TRUE(form);
  const auto shared = std::make_shared<const TokenForm>(*std::move(form));
  std::mt19937 random(4);
  Solver solver(shared, false);
  Track track;
  std::vector<Slot> slots(600);
  const RowScores row = random_row(*shared, pieces.size(), random);
  std::vector<int64_t> work;
  for (size_t begin = 0; begin + 32 <= 544; begin += 32) {
    for (size_t i = begin; i < begin + 32; ++i) slots[i].scores = &row;
    const int64_t before = solver.work();
    const auto path = solver.solve(slots, track);
    work.push_back(solver.work() - before);
    ASSERT_EQ(path.size(), 32u);
    for (const Chosen& c : path) slots[static_cast<size_t>(c.slot)] = {c.token, nullptr};
  }
  const auto later = std::span(work).subspan(2);
  EXPECT_LT(*std::ranges::max_element(later), work[1] * 3 / 2) << work.back();
}

TEST(Work, AgentsToolsAreTaken) {
  const std::vector<std::string> pieces = synthetic(50'000);
  const Vocabulary vocabulary(std::vector<std::string_view>(pieces.begin(), pieces.end()));
  for (unsigned seed = 1; seed <= 5; seed += 2) {
    AgentTools agent(seed);
    const int tools = 20 + 10 * static_cast<int>(seed - 1);  // up to 60
    const std::string list = agent.list(tools);
    for (const CallForm spelling : {CallForm::json, CallForm::gemma}) {
      const Form form{FormKind::tools, tools_text(list, {}, true, 0, spelling)};
      const auto made = token_form_of(form, vocabulary, {{0}, 0});
      ASSERT_TRUE(made) << tools << " tools of " << list.size() << " bytes: " << made.error().message;
      EXPECT_LT(made->bytes(), 8 << 20);
      EXPECT_LT(made->edges_of_all(), 100'000);
    }
  }
}

}  // namespace
}  // namespace llada::forms
