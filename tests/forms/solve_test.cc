// Forms over tokens and their dynamic programs: against walking bytes, against enumeration, and properties of canvases
// that are filled in any order.
#include "forms/solve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/random.h"
#include "forms/form.h"
#include "rows.h"

namespace llada::forms {
namespace {

constexpr int32_t kEnd = 0, kFill = 1;

struct Toy {
  std::vector<std::string> texts;
  std::shared_ptr<const TokenForm> form;
  Automaton automaton;

  Toy(FormKind kind, const std::string& text, std::vector<std::string> pieces,
      EndTokens ends = {{kEnd, kFill}, kFill}) {
    texts = {"", ""};
    texts.insert(texts.end(), pieces.begin(), pieces.end());
    auto made = automaton_of({kind, text});
    EXPECT_TRUE(made.has_value());
    automaton = *made;
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    auto lifted = TokenForm::create(automaton, Vocabulary(views), ends);
    EXPECT_TRUE(lifted.has_value()) << (lifted ? "" : lifted.error().message);
    form = std::make_shared<const TokenForm>(*std::move(lifted));
  }

  // Whether these tokens are a text that fits, with end tokens behind it where it is shorter.
  bool fits(const std::vector<int32_t>& tokens) const {
    std::string text;
    size_t i = 0;
    for (; i < tokens.size() && tokens[i] > kFill; ++i) text += texts[static_cast<size_t>(tokens[i])];
    if (!automaton.fits(text)) return false;
    if (i == tokens.size()) return true;
    for (size_t k = i + 1; k < tokens.size(); ++k)
      if (tokens[k] != kFill) return false;
    const int32_t state = walk(tokens, i);
    bool goes_on = false;
    for (const auto& edge : form->edges(state)) goes_on |= edge.to != form->end();
    return tokens[i] == kFill || goes_on;
  }
  int32_t walk(const std::vector<int32_t>& tokens, size_t count) const {
    int32_t state = form->start();
    for (size_t i = 0; i < count && state >= 0; ++i) state = form->step(state, tokens[i]);
    return state;
  }
};

std::vector<std::string> bytes_and(std::vector<std::string> more, const std::string& letters) {
  for (const char c : letters) more.emplace_back(1, c);
  return more;
}

TEST(TokenForm, EveryStepIsThatOfTheBytes) {
  for (const auto& [kind, text] : {std::pair(FormKind::regex, "(ab|b)*c?|a{3}"),
                                   {FormKind::json_schema, R"({"properties":
        {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "integer"}}})"},
                                   {FormKind::json_object, "2"},
                                   {FormKind::regex, "é*"}}) {
    const Toy toy(kind, text,
                  bytes_and({"ab", "abc", "\": \"", "\", \"b\"", "a\"", "a\", \"b\": \"a", "\xc3", "\xa9\xc3", "{\"",
                             "}\"", "\\\"", "12", "a", ""},
                            "abc{}[]\": ,12\\\xa9nultrefs"));
    std::vector<int32_t> open = {toy.form->start()};
    std::vector<char> seen(static_cast<size_t>(toy.form->states()));
    size_t steps = 0;
    for (size_t i = 0; i < open.size(); ++i)
      for (int32_t t = 2; t < std::ssize(toy.texts); ++t) {
        int32_t state = open[i];
        for (const char c : toy.texts[static_cast<size_t>(t)])
          state = state < 0 ? -1 : toy.automaton.step(state, static_cast<uint8_t>(c));
        if (toy.texts[static_cast<size_t>(t)].empty()) state = -1;
        ASSERT_EQ(toy.form->step(open[i], t), state) << text << ": " << toy.texts[static_cast<size_t>(t)];
        if (state < 0) continue;
        ++steps;
        if (!std::exchange(seen[static_cast<size_t>(state)], 1)) open.push_back(state);
      }
    EXPECT_GT(steps, 3u);
  }
}

RowScores random_row(const Toy& toy, std::mt19937& random, std::vector<double>& probabilities, double temperature = 0,
                     uint64_t key = 0) {
  std::vector<float> logits(toy.texts.size());
  for (float& l : logits) l = static_cast<float>(random() % 1000) / 250 - 2;
  double sum = 0;
  probabilities.clear();
  for (const float l : logits) sum += std::exp(static_cast<double>(l));
  for (const float l : logits) probabilities.push_back(std::exp(static_cast<double>(l)) / sum);
  return read_row(logits, *toy.form, temperature, 1, key);
}

template <class Visit>
void each_sequence(const Toy& toy, std::vector<int32_t>& tokens, const std::vector<int32_t>& given, Visit visit) {
  if (tokens.size() == given.size()) {
    if (toy.fits(tokens)) visit(tokens);
    return;
  }
  for (int32_t t = 0; t < std::ssize(toy.texts); ++t) {
    if (given[tokens.size()] >= 0 && given[tokens.size()] != t) continue;
    tokens.push_back(t);
    each_sequence(toy, tokens, given, visit);
    tokens.pop_back();
  }
}

TEST(Solver, IsAsGoodAsEnumeration) {
  std::mt19937 random(11);
  const Toy toys[] = {{FormKind::regex, "(ab|b)*c?|a{3}", {"a", "b", "c", "ab", "bc"}},
                      {FormKind::choice, "ab|abc|cab", {"a", "b", "c", "ab", "bc"}},
                      {FormKind::regex, "a*", {"a", "b", "aa"}}};
  int solved = 0;
  for (const Toy& toy : toys)
    for (int round = 0; round < 60; ++round) {
      const size_t size = 2 + random() % 3;
      std::vector<std::vector<double>> p(size);
      std::vector<RowScores> rows;
      for (size_t i = 0; i < size; ++i) rows.push_back(random_row(toy, random, p[i]));
      std::vector<int32_t> given(size, -1);
      if (round % 2 == 1) given[random() % size] = static_cast<int32_t>(random() % toy.texts.size());
      std::vector<Slot> slots(size);
      for (size_t i = 0; i < size; ++i) slots[i] = {given[i], given[i] < 0 ? &rows[i] : nullptr};

      double best = 0, total = 0;
      std::vector<std::map<int32_t, double>> marginal(size);
      std::vector<int32_t> tokens;
      each_sequence(toy, tokens, given, [&](const std::vector<int32_t>& sequence) {
        double weight = 1;
        for (size_t i = 0; i < size; ++i)
          if (given[i] < 0) weight *= p[i][static_cast<size_t>(sequence[i])];
        best = std::max(best, weight), total += weight;
        for (size_t i = 0; i < size; ++i) marginal[i][sequence[i]] += weight;
      });
      Solver solver(toy.form, false);
      Track track;
      ASSERT_EQ(solver.fits(slots, track), total > 0);
      const std::vector<Chosen> path = solver.solve(slots, track);
      if (total == 0) {
        EXPECT_TRUE(path.empty());
        continue;
      }
      ++solved;
      double weight = 1;
      std::vector<int32_t> whole = given;
      for (const Chosen& c : path) {
        const auto i = static_cast<size_t>(c.slot);
        weight *= p[i][static_cast<size_t>(c.token)];
        whole[i] = c.token;
        EXPECT_NEAR(c.probability, marginal[i][c.token] / total, 1e-9);
        double entropy = 0, first = 0, second = 0;
        for (const auto& [token, share] : marginal[i]) {
          const double q = share / total;
          entropy -= q * std::log(q);
          if (q > first)
            second = std::exchange(first, q);
          else
            second = std::max(second, q);
        }
        EXPECT_NEAR(c.entropy, entropy, 1e-9);
        EXPECT_NEAR(c.margin, first - second, 1e-9);
      }
      EXPECT_TRUE(toy.fits(whole));
      EXPECT_NEAR(weight / best, 1, 1e-9);
      const std::vector<int32_t> fixed = solver.fixed(slots, size, track);
      for (size_t i = 0; i < size; ++i)
        EXPECT_EQ(fixed[i], given[i] >= 0 || marginal[i].size() != 1 ? -1 : marginal[i].begin()->first);
    }
  EXPECT_GT(solved, 60);
}

TEST(Solver, TheLeastTemperatureTakesTheBest) {
  const Toy toy(FormKind::choice, "a|b", {"a", "b"});
  const std::vector<float> logits = {0, 0, 1, 3};
  for (const double heat : {1.0, 1e-308}) {
    const RowScores row = read_row(logits, *toy.form, 1e-308, heat, 5);
    for (const ClassScore& c : row.classes)
      EXPECT_TRUE(c.top < 0 || (std::isfinite(c.heated) && std::isfinite(c.mass)));
    Solver solver(toy.form, true);
    Track track;
    const std::vector<Slot> slots = {{-1, &row}};
    const auto chosen = solver.solve(slots, track, {.sampled = true});
    ASSERT_EQ(chosen.size(), 1U);
    EXPECT_EQ(chosen[0].token, 3);
  }
}

TEST(Solver, SamplesByTheDistribution) {
  const Toy toy(FormKind::regex, "(ab|b)*c?|a{3}", {"a", "b", "c", "ab", "bc"});
  const double temperature = 0.7;
  std::map<std::vector<int32_t>, double> expected, found;
  double total = 0;
  std::vector<std::vector<double>> p(3);
  constexpr int kDraws = 6000;
  for (int i = 0; i < kDraws; ++i) {
    std::mt19937 random(4);  // the same logits, other noise
    std::vector<RowScores> rows;
    for (size_t k = 0; k < 3; ++k)
      rows.push_back(random_row(toy, random, p[k], temperature, random_key(9, static_cast<uint64_t>(i), k)));
    std::vector<Slot> slots;
    for (const RowScores& row : rows) slots.push_back({-1, &row});
    std::vector<int32_t> tokens;
    Track track;
    for (const Chosen& c :
         Solver(toy.form, false)
             .solve(slots, track,
                    {.sampled = true, .seed = 9, .forward = static_cast<uint64_t>(i), .first_position = 0}))
      tokens.push_back(c.token);
    found[tokens] += 1.0 / kDraws;
  }
  std::vector<int32_t> tokens;
  each_sequence(toy, tokens, {-1, -1, -1}, [&](const std::vector<int32_t>& sequence) {
    double weight = 1;
    for (size_t i = 0; i < 3; ++i) weight *= std::pow(p[i][static_cast<size_t>(sequence[i])], 1 / temperature);
    expected[sequence] = weight, total += weight;
  });
  for (const auto& [sequence, share] : found) ASSERT_TRUE(expected.contains(sequence));
  for (const auto& [sequence, weight] : expected) EXPECT_NEAR(found[sequence], weight / total, 0.025);
}

// Whatever is committed of a joint path, in any order and any number at a time, the rest can be completed.
TEST(Solver, AnyOrderOfCommitsCanBeCompleted) {
  std::mt19937 random(21);
  const std::string letters = "{}[]\": ,abx019.-tfnrulseE+\\";
  for (const bool closed : {false, true})
    for (const char* schema :
         {R"({"properties": {"a": {"type": "string", "maxLength": 4}, "b": {"type": "integer"}}, "required": ["a"]})",
          R"({"type": "array", "items": {"type": ["boolean", "null"]}, "minItems": 1, "maxItems": 3})"}) {
      const Toy toy(FormKind::json_schema, schema,
                    bytes_and({"{\"", "\": \"", "true", "false", ", ", "\"}", "ab"}, letters));
      Solver solver(toy.form, closed);
      Track track;
      const int32_t least = toy.form->least(toy.form->start());
      for (int round = 0; round < 30; ++round) {
        std::vector<Slot> slots(static_cast<size_t>(least) + random() % 6);
        if (closed && !solver.fits(slots, track)) continue;
        while (std::ranges::any_of(slots, [](const Slot& s) { return s.token < 0; })) {
          ASSERT_TRUE(solver.fits(slots, track));
          std::vector<double> p;
          std::vector<RowScores> rows(slots.size());
          const size_t seen = 1 + random() % slots.size();  // positions behind are open
          for (size_t i = 0; i < seen; ++i)
            if (slots[i].token < 0) rows[i] = random_row(toy, random, p), slots[i].scores = &rows[i];
          const auto path = solver.solve(slots, track);
          for (Slot& s : slots) s.scores = nullptr;
          for (const Chosen& c : path)
            if (random() % 3 == 0) slots[static_cast<size_t>(c.slot)].token = c.token;
          if (random() % 8 == 0) slots[random() % slots.size()].token = -1;  // revised
        }
        std::vector<int32_t> tokens;
        for (const Slot& s : slots) tokens.push_back(s.token);
        EXPECT_TRUE(toy.fits(tokens));
        EXPECT_TRUE(!closed || tokens.back() > kFill);
      }
    }
}

TEST(TokenForm, CutsFixedTextAsTheTokenizerDoes) {
  // A tokenizer that takes the longest piece.
  const std::vector<std::string_view> pieces = {"",    "",  "{", "\"", "a", "\": ", "{\"a",
                                                "{\"", "1", "}", " ",  ":", "2",    "1}"};
  const auto encode = [&](std::string_view text) {
    std::vector<int32_t> ids;
    while (!text.empty()) {
      size_t best = 0;
      for (size_t i = 2; i < pieces.size(); ++i)
        if (text.starts_with(pieces[i]) && pieces[i].size() > pieces[best].size()) best = i;
      if (best == 0) return std::vector<int32_t>();
      ids.push_back(static_cast<int32_t>(best));
      text.remove_prefix(pieces[best].size());
    }
    return ids;
  };
  const auto automaton = automaton_of({FormKind::form_template, "{\"a\": <choice 1|2>}"});
  ASSERT_TRUE(automaton.has_value());
  auto lifted = TokenForm::create(*automaton, Vocabulary(pieces, encode), {{kEnd, kFill}, kFill});
  ASSERT_TRUE(lifted.has_value());
  EXPECT_EQ(lifted->least(lifted->start()), 3);  // {"a, ": , and 1}
  Solver solver(std::make_shared<const TokenForm>(*std::move(lifted)), false);
  Track track;
  const std::vector<Slot> open(7);
  // The text's last piece is left to the model, since more could be joined to it.
  EXPECT_EQ(solver.fixed(open, 7, track), (std::vector<int32_t>{6, -1, -1, -1, -1, -1, kFill}));
  std::vector<Slot> decided = open;
  decided[1].token = 5, decided[2].token = 8;
  EXPECT_EQ(solver.fixed(decided, 7, track), (std::vector<int32_t>{6, -1, -1, 9, kFill, kFill, kFill}));
}

}  // namespace
}  // namespace llada::forms
