// Large vocabularies: what is shared between the states of a form, and how long it takes to make one.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "forms/form.h"
#include "forms/regions.h"
#include "forms/solve.h"
#include "pieces.h"
#include "text/byte_alphabet.h"
#include "text/call_syntax.h"
#include "text/tokenizer.h"

namespace llada::forms {
namespace {

// 40 fields of the types that schemas have.
std::string forty_fields() {
  std::string text = R"({"type": "object", "properties": {)", required;
  static const char* kTypes[] = {R"({"type": "string"})",
                                 R"({"type": "integer"})",
                                 R"({"enum": ["low", "middle", "high"]})",
                                 R"({"type": "array", "items": {"type": "string"}})",
                                 R"({"type": ["number", "null"]})",
                                 R"({"type": "boolean"})",
                                 R"({"type": "string", "format": "date"})",
                                 R"({"type": "string", "maxLength": 8})"};
  for (int i = 0; i < 40; ++i) {
    text += fmt::format(R"({}"field_{}": {})", i ? ", " : "", i, kTypes[i % 8]);
    if (i % 3) required += fmt::format(R"({}"field_{}")", required.empty() ? "" : ", ", i);
  }
  return text + R"(}, "required": [)" + required + "]}";
}

TEST(Lift, StringsOfASchemaShareTheirTokens) {
  const std::vector<std::string> pieces = synthetic(20'000);
  const Vocabulary vocabulary(std::vector<std::string_view>(pieces.begin(), pieces.end()));
  const auto sets = [&](int fields) {
    std::string text;
    for (int i = 0; i < fields; ++i) text += fmt::format(R"({}"f{}": {{"type": "string"}})", i ? ", " : "", i);
    const auto automaton = automaton_of({FormKind::json_schema, "{\"properties\": {" + text + "}}"});
    const auto form = TokenForm::create(*automaton, vocabulary, {});
    EXPECT_TRUE(form.has_value());
    return form->sets();
  };
  // Nearly all that a field adds is what crosses its own name.
  const int32_t few = sets(2), more = sets(4), many = sets(8);
  EXPECT_LT(many - more, 3 * (more - few));
}

// Where a text that the form fixes ends, the tokenizer may join it with what follows, over more than its last token.
TEST(Lift, TokensThatGoBeyondWhatIsFixedFit) {
  const std::vector<std::string> pieces = {"}", ",", " ", "{", "\"", " {\"", "a", "},", "[", "]"};
  const auto encode = [&](std::string_view text) {  // the longest token first
    std::vector<int32_t> ids;
    while (!text.empty()) {
      size_t best = 0;
      for (size_t t = 1; t < pieces.size(); ++t)
        if (text.starts_with(pieces[t]) && (!text.starts_with(pieces[best]) || pieces[t].size() > pieces[best].size()))
          best = t;
      ids.push_back(static_cast<int32_t>(best));
      text.remove_prefix(pieces[best].size());
    }
    return ids;
  };
  const Vocabulary vocabulary(std::vector<std::string_view>(pieces.begin(), pieces.end()), encode);
  const auto automaton = automaton_of({FormKind::regex, R"(\[\{[a"]+\}, \{[a"]+\}\])"});
  const auto form = TokenForm::create(*automaton, vocabulary, {});
  ASSERT_TRUE(form.has_value());
  int32_t state = form->start();
  for (const int32_t token : {8, 3, 6, 7, 5, 6, 0, 9}) {  // [ { a }, {" a } ]
    state = form->step(state, token);
    ASSERT_GE(state, 0) << pieces[static_cast<size_t>(token)];
  }
  EXPECT_TRUE(form->complete(state));
}

// What regions share is what every state has by itself; a token that is too long for them alone does not fit.
TEST(Lift, SharedTokensLeadWhereTheirBytesDo) {
  const std::vector<std::string> pieces = synthetic(30'000);
  const Vocabulary vocabulary(std::vector<std::string_view>(pieces.begin(), pieces.end()));
  std::mt19937 random(9);
  for (const Form& form :
       {Form{FormKind::json_schema, forty_fields()}, Form{FormKind::json_object, "2"},
        Form{FormKind::form_template, "{\"a\": <string 3..60>, \"b\": <string 0..60>} <word> <text>"},
        Form{FormKind::regex, "([^x]{2,9}|[a-m ]*){3}"}}) {
    const auto automaton = automaton_of(form);
    const auto lifted = TokenForm::create(*automaton, vocabulary, {});
    ASSERT_TRUE(lifted.has_value());
    int fitting = 0;
    for (int32_t state = 0; state < automaton->states(); ++state) {
      if (lifted->edges(state).empty()) continue;
      for (int k = 0; k < 300; ++k) {
        const auto token = static_cast<int32_t>(random() % pieces.size());
        if (pieces[static_cast<size_t>(token)].size() > kReach) continue;
        int32_t to = state;
        for (const char c : pieces[static_cast<size_t>(token)])
          if (to >= 0) to = automaton->step(to, static_cast<uint8_t>(c));
        ASSERT_EQ(lifted->step(state, token), to) << form.text << ": " << pieces[static_cast<size_t>(token)];
        fitting += to >= 0;
      }
    }
    EXPECT_GT(fitting, 300) << form.text;
  }
}

// Time and memory, printed: test_forms --gtest_also_run_disabled_tests --gtest_filter='*Measure*'. LLADA_VOCABULARY
// names a file of a real vocabulary's pieces, a line of hexadecimal digits each.
TEST(Lift, DISABLED_Measure) {
  // Of the processor, which a busy machine does not stretch.
  const auto ms = [](std::clock_t since) { return 1e3 * static_cast<double>(std::clock() - since) / CLOCKS_PER_SEC; };
  const auto megabytes = [](bool reset) {  // the most that the process has had
    if (reset) {
      malloc_trim(0);
      std::ofstream("/proc/self/clear_refs") << "5";
    }
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
    return 0.0;
  };
  const auto measure = [&](const std::vector<std::string>& pieces) {
    const auto start = std::clock();
    const Vocabulary vocabulary(std::vector<std::string_view>(pieces.begin(), pieces.end()));
    const double tree = ms(start);
    for (const auto& [name, form] : {std::pair("40 fields", Form{FormKind::json_schema, forty_fields()}),
                                     {"object of 3 levels", Form{FormKind::json_object, "3"}},
                                     {"regex", Form{FormKind::regex, "([A-Z][a-z]+ ){1,4}\\d{2,4}"}},
                                     {"string of 100", Form{FormKind::form_template, "{\"a\": <string 0..100>}"}}}) {
      const double before = megabytes(true);
      const auto begin = std::clock();
      const auto automaton = automaton_of(form);
      ASSERT_TRUE(automaton.has_value());
      const double bytes = ms(begin);
      auto lifted = TokenForm::create(*automaton, vocabulary, {{0}, 0});
      ASSERT_TRUE(lifted.has_value()) << lifted.error().message;
      const double all = ms(begin);
      const double most = megabytes(false) - before;
      const auto shared = std::make_shared<const TokenForm>(*std::move(lifted));
      std::vector<float> logits(pieces.size());
      std::mt19937 random(2);
      for (float& l : logits) l = static_cast<float>(random() % 10000) / 1000;
      const auto reading = std::clock();
      std::vector<RowScores> rows(32);
      for (RowScores& row : rows) {
        RowReader reader({&shared->classes()}, 0);
        reader.read_all(logits);
        row = reader.take();
      }
      const double read = ms(reading);
      std::vector<Slot> slots(128);
      for (size_t i = 0; i < 32; ++i) slots[i].scores = &rows[i];
      Solver solver(shared, false);
      Track track;
      if (slots.size() < static_cast<size_t>(shared->least(shared->start()))) slots.resize(400);
      const auto solving = std::clock();
      const auto path = solver.solve(slots, track);
      std::printf(
          "%zu tokens, %s: tree %.0f ms, bytes %.0f ms, tokens %.0f ms, %.1f MB meanwhile; %d states, %d sets, "
          "%d classes, %.1f MB; "
          "32 rows read %.1f ms, solved %.1f ms (%zu)\n",
          pieces.size(), name, tree, bytes, all - bytes, most, shared->states(), shared->sets(),
          shared->classes().count(), static_cast<double>(shared->bytes() + vocabulary.bytes()) / 1e6, read, ms(solving),
          path.size());
    }
  };
  measure(synthetic(150'000));
  measure(synthetic(262'144));
  if (const char* path = std::getenv("LLADA_VOCABULARY")) {
    std::vector<std::string> pieces;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      std::string piece;
      for (size_t i = 0; i + 1 < line.size(); i += 2)
        piece += static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16));
      pieces.push_back(piece);
    }
    measure(pieces);
  }
}

// A form that took a token which decoding drops would have bytes that the answer's text lacks.
TEST(Vocabulary, HasTheTextsThatDecodingGives) {
  TokenizerSpec spec;
  spec.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.push_back(to_byte_alphabet(std::string(1, static_cast<char>(byte))));
    spec.kinds.push_back(TokenKind::normal);
  }
  for (const TokenKind kind : {TokenKind::unknown, TokenKind::control, TokenKind::unused, TokenKind::user_defined}) {
    spec.tokens.push_back(std::string(spec.tokens.size() - 250, 'a'));
    spec.kinds.push_back(kind);
  }
  const auto tokenizer = Tokenizer::create(spec, "test");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto vocabulary = Vocabulary::of(*tokenizer);
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    const std::string text = tokenizer->decode({&id, 1});
    EXPECT_EQ(text.empty(), id >= 256 && id < 259) << id;
    EXPECT_EQ(vocabulary->length_in(text.empty() ? std::string(100, 'a') : text, id), text.size()) << id;
  }
}

// Gemma's vocabulary has a token for each byte, also for those that stand for marks in a form.
TEST(Vocabulary, NothingElsePassesForAMarkOfCalls) {
  TokenizerSpec spec;
  spec.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte)
    spec.tokens.push_back(to_byte_alphabet(std::string(1, static_cast<char>(byte))));
  spec.tokens.push_back(to_byte_alphabet("a\xFA"));
  spec.kinds.assign(spec.tokens.size(), TokenKind::normal);
  const auto plain = Tokenizer::create(spec, "test");
  ASSERT_TRUE(plain);
  EXPECT_EQ(Vocabulary::of(*plain)->length_in("\xF8", 0xF8), 1u) << "a vocabulary without marks has all bytes";
  for (const auto& [byte, name] : kGemmaMarks) {
    spec.tokens.emplace_back(name);
    spec.kinds.push_back(TokenKind::control);
  }
  const auto tokenizer = Tokenizer::create(spec, "test");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto vocabulary = Vocabulary::of(*tokenizer);
  for (const auto& [byte, name] : kGemmaMarks) {
    const std::string mark(1, byte);
    for (int32_t id = 0; id < tokenizer->vocab_size(); ++id)
      EXPECT_EQ(vocabulary->length_in(mark, id), tokenizer->find_control(name) == id ? 1u : 0u) << name << id;
  }
  EXPECT_EQ(vocabulary->length_in("a\xFA", 256), 0u);
  EXPECT_EQ(vocabulary->length_in("\xF7", 0xF7), 1u);
}

}  // namespace
}  // namespace llada::forms
