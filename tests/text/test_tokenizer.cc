// Exact ids, round trips of any bytes, control tokens that users cannot forge.
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <thread>

#include "base/pretokenizer_regexes.h"
#include "text/support.h"
#include "text/tokenizer.h"
#include "text/tokenizer_files.h"

namespace llada {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using text_test::byte_spec;
using text_test::fixture;

constexpr const char* kFixtures[] = {"gpt2", "llama", "qwen2", "bailing", "sequence", "overlaps", "gemma"};

std::string create_error(TokenizerSpec spec) {
  const auto tokenizer = Tokenizer::create(std::move(spec), "model.gguf");
  if (tokenizer) return "created";
  EXPECT_EQ(tokenizer.error().kind, ErrorKind::invalid_input);
  EXPECT_EQ(tokenizer.error().message.find('\n'), std::string::npos);
  return tokenizer.error().message;
}

// The expected ids were made by the library that the tokenizers are published for
// (tools/make_tokenizer_fixtures.py).
TEST(Tokenizer, IdsEqualThePublishedLibrarys) {
  for (const char* name : kFixtures) {
    const Tokenizer tokenizer = fixture(name);
    const auto items = text_test::read_json(text_test::fixture_path(std::string(name) + ".expected.json"));
    ASSERT_EQ(items.size(), 300u);
    for (const auto& item : items) {
      const auto text = item["text"].get<std::string>();
      const auto ids = tokenizer.encode(text);
      ASSERT_EQ(ids, item["ids"].get<std::vector<int32_t>>()) << name << ": " << item["text"].dump(-1, ' ', true);
      if (tokenizer.spec().nfc || text.contains("\u2581")) continue;
      ASSERT_EQ(tokenizer.decode(ids), text);
    }
  }
}

// What GGUF names is what the published tokenizer.json files spell out (tools/make_pre_tokenizer_fixtures.py).
TEST(Tokenizer, EveryNamedPreTokenizerEqualsThePublishedLibrarys) {
  const auto expected = text_test::read_json(text_test::fixture_path("pre_tokenizers.expected.json"));
  TokenizerSpec spec = fixture("gpt2").spec();
  spec.regexes.clear();
  std::map<std::string, Tokenizer> named;
  for (const PreTokenizerRules& row : pre_tokenizers()) {
    if (row.flags.characters) continue;  // whose vocabularies are of another kind
    spec.pre = row.written_name();
    named.emplace(spec.pre, *Tokenizer::create(spec, "named"));
  }
  std::set<std::string> compared;
  for (const auto& item : expected["texts"]) {
    for (const auto& [names, ids] :
         item["ids"].get<std::vector<std::pair<std::vector<std::string>, std::vector<int>>>>()) {
      for (const std::string& name : names) {
        EXPECT_EQ(named.at(name).encode(item["text"].get<std::string>()), ids) << name << ": " << item["text"];
        compared.insert(name);
      }
    }
  }
  for (const auto& [name, tokenizer] : named) {  // of rows that cut alike the first is compared
    const auto* first = find_pre_tokenizer(
        std::vector<std::string>(find_pre_tokenizer(name)->regexes.begin(), find_pre_tokenizer(name)->regexes.end()));
    EXPECT_TRUE(compared.contains(std::string(first->written_name()))) << name;
  }
}

// Real vocabularies lack tokens of bytes that no text had: they are left out, and their neighbours merge.
TEST(Tokenizer, BytesWithoutATokenAreLeftOutAsThePublishedLibraryDoes) {
  const auto expected = text_test::read_json(text_test::fixture_path("pre_tokenizers.expected.json"));
  TokenizerSpec spec = fixture("gpt2").spec();
  spec.regexes.clear();
  spec.pre = "smollm";
  const Tokenizer whole = *Tokenizer::create(spec, "whole");
  for (const int byte : expected["missing_bytes"]) {
    const auto ids = whole.encode(std::string(1, static_cast<char>(byte)));
    spec.kinds[static_cast<size_t>(ids.at(0))] = TokenKind::unused;
  }
  const Tokenizer tokenizer = *Tokenizer::create(spec, "holes");
  for (const auto& item : expected["without_them"])
    EXPECT_EQ(tokenizer.encode(item["text"].get<std::string>()), item["ids"].get<std::vector<int32_t>>()) << item;
  EXPECT_EQ(tokenizer.encode("a\xff\x7f"
                             "b"),
            tokenizer.encode("ab"));
  spec.kinds[static_cast<size_t>(whole.encode("~").at(0))] = TokenKind::unused;
  EXPECT_THAT(create_error(spec), HasSubstr("no normal token for byte 0x7E"));
}

TEST(Tokenizer, WholeControlTokensEqualThePublishedLibrarys) {
  const auto items = text_test::read_json(text_test::fixture_path("whole.expected.json"));
  ASSERT_EQ(items.size(), 280u);
  int controls = 0;
  for (const auto& item : items) {
    const Tokenizer tokenizer = fixture(item["tokenizer"]);
    const auto ids = tokenizer.encode(item["text"].get<std::string>(), ControlText::token);
    ASSERT_EQ(ids, item["ids"].get<std::vector<int32_t>>()) << item.dump(-1, ' ', true);
    for (const int32_t id : ids) controls += tokenizer.is_control(id);
  }
  EXPECT_GT(controls, 100);
}

// Gemma 4's kind, of which the published library's ids are compared above.
TEST(Tokenizer, CharactersFallBackToBytes) {
  const Tokenizer tokenizer = fixture("gemma");
  const auto pieces = [&](std::string_view text) {
    std::string joined;
    for (const int32_t id : tokenizer.encode(text)) joined += tokenizer.spec().tokens[id] + "|";
    return joined;
  };
  EXPECT_EQ(pieces("\U000323af"), "<0xF0>|<0xB2>|<0x8E>|<0xAF>|");
  EXPECT_EQ(pieces("\xff\xe4\xbd"), "<0xFF>|<0xE4>|<0xBD>|");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a \u2581b")), "a  b");
  EXPECT_EQ(pieces("\n\n"), "\n\n|");
  std::string marker = pieces("<turn|>");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("<turn|>")), "<turn|>") << marker;
  for (const int32_t id : tokenizer.encode("<turn|><0x41>")) EXPECT_FALSE(tokenizer.is_control(id));
  // A run of line ends that is a token skips the merges.
  TokenizerSpec spec = tokenizer.spec();
  std::erase(spec.merges, "\n \n");
  EXPECT_EQ(Tokenizer::create(spec, "")->encode("\n\n"), tokenizer.encode("\n\n"));
  std::ranges::replace(spec.tokens, "<0x7F>", "<0x7f>");
  EXPECT_THAT(create_error(spec), HasSubstr("no byte token <0x7F>, needed one for each of the 256 bytes"));
}

TEST(Tokenizer, AnyBytesComeBack) {
  std::mt19937 random(11);
  for (const std::string name : {"gpt2", "llama", "bailing", "sequence", "qwen2", "gemma"}) {
    TokenizerSpec spec = fixture(name).spec();
    spec.nfc = false;  // normalisation is meant to change bytes
    const Tokenizer tokenizer = *Tokenizer::create(spec, name);
    for (int byte = 0; byte < 256; ++byte) {
      const std::string text(1, static_cast<char>(byte));
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
    for (int i = 0; i < 1500; ++i) {
      const std::string text =
          i % 2 == 0 ? text_test::random_bytes(random, random() % 60) : text_test::random_text(random, 25, 15);
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text), /*show_special=*/true), text) << name;
    }
  }
  EXPECT_TRUE(fixture("gpt2").encode("").empty());
}

// The rule for invalid UTF-8: one token per invalid byte, and the valid text around it as if it stood alone.
TEST(Tokenizer, InvalidBytesStandAlone) {
  const Tokenizer tokenizer = fixture("llama");
  std::vector<int32_t> expected = tokenizer.encode("don't stop");
  const auto ff = tokenizer.encode("\xFF");
  ASSERT_EQ(ff.size(), 1u);
  expected.push_back(ff[0]);
  const auto after = tokenizer.encode(" the end");
  expected.insert(expected.end(), after.begin(), after.end());
  EXPECT_EQ(tokenizer.encode("don't stop\xFF the end"), expected);
}

TEST(Tokenizer, NormalisesWhenTheFileSaysSo) {
  const Tokenizer tokenizer = fixture("qwen2");
  EXPECT_EQ(tokenizer.encode("cafe\u0301"), tokenizer.encode("caf\u00e9"));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("e\u0301\xCC")), "\u00e9\xCC");
}

TEST(Tokenizer, ControlTokensInUserTextStayText) {
  for (const Tokenizer& tokenizer : {text_test::tiny_llada(), fixture("llama"), fixture("bailing"), fixture("qwen2")}) {
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      if (!tokenizer.is_control(id)) continue;
      const std::string name(tokenizer.piece(id));
      ASSERT_EQ(tokenizer.find_control(name), id);
      for (const std::string& text :
           {name, " " + name, "a" + name + name + "\n", name.substr(1), name.substr(0, name.size() - 1)}) {
        const auto ids = tokenizer.encode(text);
        for (const int32_t got : ids) ASSERT_FALSE(tokenizer.is_control(got)) << text;
        ASSERT_EQ(tokenizer.decode(ids), text);
        ASSERT_GT(ids.size(), 1u);
      }
    }
  }
  EXPECT_TRUE(text_test::tiny_llada().find_control("<|mdm_mask|>"));
  EXPECT_FALSE(text_test::tiny_llada().find_control("the"));
}

TEST(Tokenizer, UserDefinedTokensMatchLeftmostLongest) {
  TokenizerSpec spec = byte_spec({"a b"}, {});
  for (const char* text : {"<tool", "<tool_call>", "ol_x", "b<"}) {
    spec.tokens.emplace_back(text);
    spec.kinds.push_back(TokenKind::user_defined);
  }
  const Tokenizer tokenizer = *Tokenizer::create(spec, "test");  // ids 257 <tool, 258 <tool_call>, 259 ol_x, 260 b<
  EXPECT_THAT(tokenizer.encode("<tool_call>"), ElementsAre(258));
  EXPECT_THAT(tokenizer.encode("<tool_x"), ElementsAre(257, '_', 'x'));  // leftmost wins over ol_x
  EXPECT_THAT(tokenizer.encode("ab<tool"), ElementsAre('a', 260, 't', 'o', 'o', 'l'));
  EXPECT_THAT(tokenizer.encode("\xE2<tool\xFF"), ElementsAre(0xE2, 257, 0xFF));
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{258, 257}), "<tool_call><tool");
}

TEST(Tokenizer, SomeUserDefinedTokensMatchInWhatTheOthersLeft) {
  TokenizerSpec spec = byte_spec({}, {"<|im_end|>"});  // 256
  for (const char* text : {"ab", "bc", "end", "|>"}) {
    spec.tokens.emplace_back(text);
    spec.kinds.push_back(TokenKind::user_defined);
  }
  EXPECT_THAT(Tokenizer::create(spec, "test")->encode("abc"), ElementsAre(257, 'c'));
  spec.matched_last = {257, 260};
  const Tokenizer tokenizer = *Tokenizer::create(spec, "test");
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre('a', 258));
  EXPECT_THAT(tokenizer.encode("abcab"), ElementsAre('a', 258, 257));
  EXPECT_THAT(tokenizer.encode("end<|end"), ElementsAre(259, '<', '|', 259));
  // Inside a control token's text nothing of the same round is found, and what comes later is.
  EXPECT_THAT(tokenizer.encode("<|im_end|>"), ElementsAre('<', '|', 'i', 'm', '_', 'e', 'n', 'd', 260));
}

TEST(Tokenizer, IgnoreMergesTakesWholePreTokens) {
  TokenizerSpec spec = byte_spec({"a b", "b c"});
  spec.tokens.emplace_back("abc");  // no merge makes it
  spec.kinds.push_back(TokenKind::normal);
  EXPECT_THAT(Tokenizer::create(spec, "test")->encode("abc"), ElementsAre(256, 'c'));
  spec.ignore_merges = true;
  EXPECT_THAT(Tokenizer::create(spec, "test")->encode("abc"), ElementsAre(258));
  spec.ignore_merges = false;
  spec.pre = "llama-bpe";  // GGUF has no key for it: the family implies it
  EXPECT_THAT(Tokenizer::create(spec, "test")->encode("abc abcd"), ElementsAre(258, ' ', 256, 'c', 'd'));
}

TEST(Tokenizer, DecodeDropsWhatIsNotText) {
  TokenizerSpec spec = byte_spec({"a b"}, {"<|end|>"});
  spec.tokens.emplace_back("[PAD258]");
  spec.kinds.push_back(TokenKind::unused);
  spec.tokens.emplace_back("<0x0A>");
  spec.kinds.push_back(TokenKind::byte);
  const Tokenizer tokenizer = *Tokenizer::create(spec, "test");
  const std::vector<int32_t> ids = {256, 257, 258, 259, -1, 260, INT32_MAX, INT32_MIN, 'c'};
  EXPECT_EQ(tokenizer.decode(ids), "ab\nc");
  EXPECT_EQ(tokenizer.decode(ids, true), "ab<|end|>\nc");
  EXPECT_EQ(tokenizer.piece(258), "");
  EXPECT_EQ(tokenizer.piece(-1), "");
  EXPECT_EQ(tokenizer.piece(' '), " ");
  EXPECT_FALSE(tokenizer.is_control(-1));
  EXPECT_FALSE(tokenizer.is_control(260));
}

// The first and the last id, and the one behind: what lies there in memory is a control token's kind.
TEST(Tokenizer, ControlTokensAtTheEndsOfTheVocabulary) {
  TokenizerSpec spec = byte_spec({}, {"<|last|>"});
  spec.tokens.insert(spec.tokens.begin(), "<|first|>");
  spec.kinds.insert(spec.kinds.begin(), TokenKind::control);
  spec.kinds.reserve(spec.kinds.size() + 1);
  spec.kinds.push_back(TokenKind::control);
  spec.kinds.pop_back();
  const Tokenizer tokenizer = *Tokenizer::create(std::move(spec), "test");
  ASSERT_EQ(tokenizer.vocab_size(), 258);
  EXPECT_TRUE(tokenizer.is_control(0));
  EXPECT_FALSE(tokenizer.is_control(1));
  EXPECT_TRUE(tokenizer.is_control(257));
  EXPECT_FALSE(tokenizer.is_control(258));
  EXPECT_EQ(tokenizer.piece(0), "<|first|>");
  EXPECT_EQ(tokenizer.piece(257), "<|last|>");
  EXPECT_EQ(tokenizer.piece(258), "");
  const std::vector<int32_t> ids = {0, 'a' + 1, 257, 258};
  EXPECT_EQ(tokenizer.decode(ids), "a");
  EXPECT_EQ(tokenizer.decode(ids, true), "<|first|>a<|last|>");
}

// A file may call its mask or end token "normal": text must still not be able to produce it.
TEST(Tokenizer, TokensInSpecialRolesBecomeControl) {
  TokenizerSpec spec = byte_spec({"a b"});
  spec.tokens.emplace_back("<mask>");
  spec.kinds.push_back(TokenKind::user_defined);
  spec.mask = 257;
  const Tokenizer tokenizer = *Tokenizer::create(spec, "test");
  EXPECT_TRUE(tokenizer.is_control(257));
  EXPECT_EQ(tokenizer.encode("<mask>").size(), 6u);
  spec.mask = 256;
  EXPECT_THAT(create_error(spec), AllOf(HasSubstr("merge 0"), HasSubstr("\"ab\"")));
  spec.mask = 'a';
  EXPECT_THAT(create_error(spec), HasSubstr("byte 0x61"));
}

TEST(Tokenizer, BadSpecsAreErrorsThatNameTheField) {
  const TokenizerSpec good = byte_spec({"a b", "ab c"}, {"<|end|>"});
  EXPECT_EQ(create_error(good), "created");
  const auto broken = [&](auto change) {
    TokenizerSpec spec = good;
    change(spec);
    return create_error(std::move(spec));
  };
  EXPECT_THAT(broken([](auto& s) { s = {}; }), HasSubstr("no tokens"));
  EXPECT_THAT(broken([](auto& s) { s.kinds.pop_back(); }), HasSubstr("258 token types for 259 tokens"));
  EXPECT_THAT(broken([](auto& s) { s.kinds[3] = static_cast<TokenKind>(7); }), HasSubstr("token 3 has type 7"));
  EXPECT_THAT(broken([](auto& s) { s.eos = 259; }), AllOf(HasSubstr("eos"), HasSubstr("259")));
  EXPECT_THAT(broken([](auto& s) { s.mask = -2; }), AllOf(HasSubstr("mask"), HasSubstr("-2")));
  EXPECT_THAT(broken([](auto& s) { s.pre = "nonsense"; }), AllOf(HasSubstr("nonsense"), HasSubstr("qwen2")));
  EXPECT_THAT(broken([](auto& s) { s.regexes = {"("}; }), HasSubstr("does not compile"));
  EXPECT_THAT(broken([](auto& s) { s.tokens[1] = s.tokens[0]; }), HasSubstr("tokens 0 and 1"));
  EXPECT_THAT(broken([](auto& s) { s.kinds['x'] = TokenKind::unused; }),
              AllOf(HasSubstr("byte 0x78"), HasSubstr("model.gguf")));
  EXPECT_THAT(broken([](auto& s) { s.merges.push_back("a"); }), HasSubstr("merge 2"));
  EXPECT_THAT(broken([](auto& s) { s.merges.push_back("a  b"); }), HasSubstr("merge 2"));
  EXPECT_THAT(broken([](auto& s) { s.merges.push_back(" a"); }), HasSubstr("merge 2"));
  EXPECT_THAT(broken([](auto& s) { s.merges.push_back("a q"); }), AllOf(HasSubstr("merge 2"), HasSubstr("\"aq\"")));
  EXPECT_THAT(broken([](auto& s) { s.merges.push_back("qq\n a"); }), HasSubstr("merge 2"));
  EXPECT_THAT(broken([](auto& s) { s.merges.push_back("a b"); }), AllOf(HasSubstr("merge 2"), HasSubstr("twice")));
}

// labels: threads
TEST(Tokenizer, ManyThreadsGetTheSameIds) {
  const Tokenizer tokenizer = fixture("llama");
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> expected;
  std::mt19937 random(17);
  for (int i = 0; i < 200; ++i) {
    texts.push_back(text_test::random_text(random, 40, 3));
    expected.push_back(tokenizer.encode(texts.back()));
  }
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < texts.size(); ++i) {
        const size_t at = (i + static_cast<size_t>(t) * 50) % texts.size();
        const auto ids = tokenizer.encode(texts[at]);
        wrong[t] += ids != expected[at] || tokenizer.decode(ids) != texts[at];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

}  // namespace
}  // namespace llada
