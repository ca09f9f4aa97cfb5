// The published pre-tokenizer expressions, on text that tells them apart.
#include <gmock/gmock.h>

#include <chrono>
#include <set>
#include <sstream>

#include "base/pretokenizer_regexes.h"
#include "text/pre_tokenizer.h"
#include "text/regex_syntax.h"
#include "text/support.h"
#include "text/utf8.h"

namespace llada {
namespace {

using testing::ElementsAre;

std::vector<std::string> split(const std::vector<std::string>& regexes, std::string_view text) {
  const auto pre_tokenizer = PreTokenizer::create(regexes);
  if (!pre_tokenizer) return {pre_tokenizer.error().message};
  PreTokenizer::Scratch scratch(*pre_tokenizer);
  const auto& pieces = pre_tokenizer->split(text, scratch);
  return {pieces.begin(), pieces.end()};
}

std::vector<std::string> named(std::string_view name, std::string_view text) {
  const auto regexes = find_pre_tokenizer(name)->regexes;
  return split({regexes.begin(), regexes.end()}, text);
}

TEST(PreTokenizer, TheFamiliesDifferWhereTheyShould) {
  EXPECT_THAT(named("gpt-2", "I'll DON'T 1234"), ElementsAre("I", "'ll", " DON", "'", "T", " 1234"));
  EXPECT_THAT(named("llama-bpe", "I'LL 1234(x"), ElementsAre("I", "'LL", " ", "123", "4", "(x"));
  EXPECT_THAT(named("qwen2", "I'LL 12\n\n\n x"), ElementsAre("I", "'LL", " ", "1", "2", "\n\n\n", " x"));
  EXPECT_THAT(named("bailingmoe", "I'LL 12\n\n\n x"), ElementsAre("I", "'LL", " ", "1", "2", "\n\n\n", " x"));
  EXPECT_THAT(named("bailingmoe", "a \n\n  b"), ElementsAre("a", " \n\n", " ", " b"));
  EXPECT_THAT(named("default", "a=12345"), ElementsAre("a", "=", "123", "45"));
  EXPECT_THAT(named("tekken", "HelloWorld don't ABCdef 12  a/b//\n\n\u00c9t\u00e9X \u4e2d\u6587 x"),
              ElementsAre("Hello", "World", " don", "'t", " ABCdef", " ", "1", "2", " ", " a", "/b", "//\n\n",
                          "\u00c9t\u00e9", "X", " \u4e2d\u6587", " x"));
}

// One name stands in one row, each row's regexes compile, and what converts to a name means that name's row.
TEST(PreTokenizer, EveryNameHasItsRules) {
  std::set<std::string, std::less<>> names;
  for (const PreTokenizerRules& row : pre_tokenizers()) {
    std::istringstream in{std::string(row.names)};
    for (std::string name; in >> name;) {
      EXPECT_TRUE(names.insert(name).second) << name;
      EXPECT_EQ(find_pre_tokenizer(name), &row) << name;
    }
    const std::vector<std::string> regexes(row.regexes.begin(), row.regexes.end());
    EXPECT_TRUE(PreTokenizer::create(regexes)) << row.names;
    if (!row.flags.characters) {
      EXPECT_EQ(find_pre_tokenizer(regexes)->regexes.data(), row.regexes.data()) << row.names;
    }
  }
  EXPECT_EQ(names.size(), 89u);
  for (const char* unknown : {"tekken\n", "gpt-2 phi-2", " ", "gpt", "2"})
    EXPECT_EQ(find_pre_tokenizer(unknown), nullptr);
  EXPECT_EQ(find_pre_tokenizer("")->names, "default");
}

// \s is Unicode's White_Space, not one engine's idea of it.
TEST(PreTokenizer, WhiteSpaceIsUnicodes) {
  const auto is_space = [](char32_t c) {
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
  };
  const auto positive = PreTokenizer::create(std::vector<std::string>{R"(\s+)"});
  const auto in_class = PreTokenizer::create(std::vector<std::string>{R"([\s]+)"});
  const auto negative = PreTokenizer::create(std::vector<std::string>{R"(\S+)"});
  const auto not_in_class = PreTokenizer::create(std::vector<std::string>{R"([^\S]+)"});
  for (const auto* pre_tokenizer : {&positive, &in_class, &negative, &not_in_class}) {
    ASSERT_TRUE(*pre_tokenizer);
    PreTokenizer::Scratch scratch(**pre_tokenizer);
    for (char32_t c = 0; c < 0x30000; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      std::string text = " x ";
      text.pop_back();
      append_utf8(text, c);  // " x" + c: the cut after x tells what c is
      const size_t pieces = (*pre_tokenizer)->split(text, scratch).size();
      ASSERT_EQ(pieces, is_space(c) ? 3u : 2u) << std::hex << static_cast<uint32_t>(c);
    }
  }
  // What users meet: U+180E, U+200B, U+FEFF and U+001C are not white space; U+0085, U+00A0, U+2003, U+3000
  // are.
  EXPECT_THAT(named("gpt-2", "a\u180E\u200B"), ElementsAre("a", "\u180E\u200B"));
  EXPECT_THAT(named("gpt-2", "a\u0085\u00A0\u2003\u3000"), ElementsAre("a", "\u0085\u00A0\u2003\u3000"));
  EXPECT_THAT(named("gpt-2", " \uFEFF\u001C"), ElementsAre(" \uFEFF\u001C"));
}

TEST(PreTokenizer, LettersAndNumbersOfNewUnicodeVersions) {
  EXPECT_THAT(named("gpt-2", "\U000323AF!\U0001E4F0"), ElementsAre("\U000323AF", "!", "\U0001E4F0"));
  EXPECT_THAT(named("bailingmoe", "\u1c89a\U00011f50\U00011f51"), ElementsAre("\u1c89a", "\U00011f50", "\U00011f51"));
}

TEST(PreTokenizer, CaseFoldingIsUnicodes) {
  EXPECT_THAT(named("qwen2", "x'\u017f\u017f"), ElementsAre("x", "'\u017f", "\u017f"));  // long s folds to s
}

TEST(PreTokenizer, SeveralRegexesSplitFurtherAndGapsStay) {
  EXPECT_THAT(split({"b", "[0-9]"}, "a1b22c"), ElementsAre("a", "1", "b", "2", "2", "c"));
  EXPECT_THAT(split({"b(?=c)"}, "bcb"), ElementsAre("b", "cb"));
  EXPECT_THAT(split({"x", "^y"}, "xy"), ElementsAre(testing::HasSubstr("an anchor")));
  EXPECT_THAT(split({"x", "(?<=x)y"}, "xyxy"), ElementsAre("x", "y", "x", "y"));
}

// An empty match is a cut without a piece, as in the published tokenizers' search.
TEST(PreTokenizer, EmptyMatchesCut) {
  EXPECT_THAT(split({"b*"}, "abbc"), ElementsAre("a", "bb", "c"));
  EXPECT_THAT(split({"(?=\u00e9)"}, "a\u00e9\u00e9"), ElementsAre("a", "\u00e9", "\u00e9"));
}

TEST(RegexSyntax, RefusesWhatMeansSomethingElseInTheOtherDialect) {
  for (const char* regex : {R"(\w+)",   R"(\bx)",   R"(\h)",     R"((?i)x)",     R"((?<n>x))", R"((x)\1)", R"(x{1,2}+)",
                            R"(x{2}?)", R"(x{,2})", R"([a&&b])", R"([a[b]])",    R"([]a])",    R"(^x$)",   R"((*VERB))",
                            R"(\pL)",   R"(\p{)",   R"([\s-a])", R"([a)",        R"(\)",       R"(\xFF)",  R"(\Q.\E)",
                            R"(\K)",    R"(\R)",    R"((?R))",   R"([\P{Han}])", R"(\u12)"}) {
    EXPECT_FALSE(translate_regex(regex)) << regex << " -> " << *translate_regex(regex);
  }
}

TEST(RegexSyntax, MatchesTheSameInBothDialects) {
  EXPECT_THAT(split({R"(\p{Han}+)"}, "x\u4e00\u3001"), ElementsAre("x", "\u4e00", "\u3001"));  // script, not extensions
  EXPECT_THAT(split({R"(\p{^L}+)"}, "a1b"), ElementsAre("a", "1", "b"));
  EXPECT_THAT(split({R"(\P{N}+)"}, "a1b"), ElementsAre("a", "1", "b"));
  EXPECT_THAT(split({R"(\x41|\x{1F600}|\u00e9|\v)"}, "xAx\U0001F600x\u00e9x\x0bx"),
              ElementsAre("x", "A", "x", "\U0001F600", "x", "\u00e9", "x", "\x0b", "x"));
  EXPECT_THAT(split({R"((a|b)\d\.)"}, "xa1.y"), ElementsAre("x", "a1.", "y"));
  EXPECT_THAT(split({"."}, "a\n\rb"), ElementsAre("a", "\n", "\r", "b"));
}

TEST(PreTokenizer, BadRegexesAreErrorsInOneLine) {
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "(";
  for (const std::string& regex :
       {std::string("a)"), std::string("+"), std::string("[z-a]"), std::string(R"(\p{Nonsense})"), deep,
        std::string("((x{60000}){60000}){60000}"), std::string(100000, 'x'), std::string("\xff")}) {
    const auto result = PreTokenizer::create(std::vector{regex});
    ASSERT_FALSE(result) << regex.substr(0, 20);
    EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
    EXPECT_LT(result.error().message.size(), 300u);
  }
  EXPECT_FALSE(PreTokenizer::create(std::vector<std::string>(100, "a")));
}

// labels: native
TEST(PreTokenizer, HostileRegexesEndAndLoseNothing) {
  std::string text;
  for (int i = 0; i < 20; ++i) text.append(10000, 'a').append("\u00e9b\n");
  for (const char* regex : {"(?:a+)+[bc]", "(?:a|aa)+[bc]", "(?:a*)*[bc]", "(?:(?:a?){30}){30}[bc]", "a*+[bc]",
                            "(?:.*.*.*)*c|\n\n", "(?=(?:a+)+[bc])", "a+a+a+a+[bc]", "(?:a(?=a*+[bc])|a(?!a*+b))"}) {
    const auto pre_tokenizer = PreTokenizer::create(std::vector<std::string>{regex});
    ASSERT_TRUE(pre_tokenizer) << regex;
    PreTokenizer::Scratch scratch(*pre_tokenizer);
    const auto start = std::chrono::steady_clock::now();
    std::string joined;
    for (const auto piece : pre_tokenizer->split(text, scratch)) joined += piece;
    EXPECT_EQ(joined, text) << regex;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << regex;
  }
}

// A regex that is not on the list sees windows; what it finds must not depend on where they end.
TEST(PreTokenizer, WindowsDoNotShow) {
  std::mt19937 random(5);
  std::string text;
  while (text.size() < 300000) text += text_test::random_text(random, 50, 0);
  const std::string known(find_pre_tokenizer("bailingmoe")->regexes[0]), unknown = "(?:" + known + ")";
  ASSERT_TRUE(is_linear_regex(known));
  ASSERT_FALSE(is_linear_regex(unknown));
  EXPECT_EQ(split({unknown}, text), split({known}, text));
}

}  // namespace
}  // namespace llada
