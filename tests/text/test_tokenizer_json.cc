// tokenizer.json: what is read, and what is refused with one line.
#include <gmock/gmock.h>

#include <cstdlib>

#include "must.h"
#include "text/support.h"
#include "text/tokenizer_files.h"

namespace llada {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using text_test::parse_tokenizer_json;

const json& base() {
  static const json tokenizer = text_test::read_json(text_test::fixture_path("llama.json"));
  return tokenizer;
}

std::string error_of(const json& tokenizer, const std::string& config = "") {
  const auto spec = parse_tokenizer_json(tokenizer.dump(), config, "folder");
  if (!spec) {
    EXPECT_THAT(spec.error().message, AllOf(HasSubstr("folder: tokenizer"), testing::Not(HasSubstr("\n"))));
    return spec.error().message;
  }
  return why_not(Tokenizer::create(*spec, "folder"));
}

template <class Change>
std::string error_after(Change change) {
  json tokenizer = base();
  change(tokenizer);
  return error_of(tokenizer);
}

TEST(TokenizerJson, ReadsTinyLlada) {
  const Tokenizer tokenizer = text_test::tiny_llada();
  const TokenizerSpec& spec = tokenizer.spec();
  EXPECT_EQ(tokenizer.vocab_size(), 1006);
  EXPECT_EQ(spec.merges.size(), 744u);
  EXPECT_EQ(spec.bos, 1000);
  EXPECT_EQ(spec.eos, 1001);
  EXPECT_EQ(spec.pad, 1001);
  EXPECT_EQ(spec.eot, 1004);
  EXPECT_EQ(spec.mask, 1005);
  EXPECT_FALSE(spec.add_bos);
  EXPECT_FALSE(spec.nfc);
  EXPECT_EQ(spec.kinds[1002], TokenKind::control);
  EXPECT_THAT(spec.chat_template, HasSubstr("<|start_header_id|>"));
}

TEST(TokenizerJson, MergesAsStringsOrPairs) {
  json tokenizer = base();
  ASSERT_TRUE(tokenizer["model"]["merges"][0].is_array());
  for (json& merge : tokenizer["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  const auto strings = parse_tokenizer_json(tokenizer.dump(), "", "a"),
             pairs = parse_tokenizer_json(base().dump(), "", "a");
  ASSERT_TRUE(strings && pairs);
  EXPECT_EQ(strings->merges, pairs->merges);
}

TEST(TokenizerJson, HolesAreUnused) {
  json tokenizer = base();
  tokenizer["added_tokens"].push_back({{"id", 1010}, {"content", "<late>"}, {"special", false}});
  const auto spec = must(parse_tokenizer_json(tokenizer.dump(), "", "a"));
  EXPECT_EQ(spec->tokens.size(), 1011u);
  EXPECT_EQ(spec->tokens[1008], "[PAD1008]");
  EXPECT_EQ(spec->kinds[1008], TokenKind::unused);
  EXPECT_EQ(spec->kinds[1010], TokenKind::user_defined);
}

TEST(TokenizerJson, PreTokenizerParts) {
  json tokenizer = base();
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const auto regexes = [&](const json& pre) {
    tokenizer["pre_tokenizer"] = pre;
    const auto spec = parse_tokenizer_json(tokenizer.dump(), "", "a");
    return spec ? spec->regexes : std::vector<std::string>{spec.error().message};
  };
  const auto sequence = [&](const json& part) {
    return json{{"type", "Sequence"}, {"pretokenizers", {part, byte_level}}};
  };
  EXPECT_THAT(regexes(sequence({{"type", "Digits"}, {"individual_digits", true}})), testing::ElementsAre(R"(\p{N})"));
  EXPECT_THAT(regexes(sequence({{"type", "Digits"}})), testing::ElementsAre(R"(\p{N}+)"));
  EXPECT_THAT(regexes({{"type", "ByteLevel"}, {"add_prefix_space", false}}), testing::ElementsAre(HasSubstr("'ll")));
  EXPECT_THAT(regexes(byte_level), testing::ElementsAre(R"([\s\S]+)"));
  const json split = {{"type", "Split"}, {"pattern", {{"String", "a.b"}}}, {"behavior", "Isolated"}, {"invert", false}};
  regexes(sequence(split));
  const Tokenizer dotted = text_test::load_tokenizer(tokenizer.dump());
  EXPECT_NE(dotted.encode("xa.by"), dotted.encode("xa.b"));  // and the pattern is literal:
  EXPECT_EQ(dotted.decode(dotted.encode("axb a.b")), "axb a.b");
}

TEST(TokenizerJson, RefusesByName) {
  EXPECT_EQ(error_of(base()), "");
  EXPECT_THAT(error_after([](json& t) { t["normalizer"] = {{"type", "Lowercase"}}; }),
              AllOf(HasSubstr(": normalizer.type: "), HasSubstr("Lowercase")));
  EXPECT_EQ(
      error_after([](json& t) { t["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}}; }), "");
  EXPECT_THAT(error_after([](json& t) { t["pre_tokenizer"] = nullptr; }), HasSubstr(": pre_tokenizer: is missing"));
  EXPECT_THAT(error_after([](json& t) { t["pre_tokenizer"] = {{"type", "Metaspace"}}; }), HasSubstr("Metaspace"));
  EXPECT_THAT(error_after([](json& t) { t["pre_tokenizer"]["pretokenizers"].erase(1); }), HasSubstr("no ByteLevel"));
  EXPECT_THAT(error_after([](json& t) { t["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; }),
              HasSubstr(": pre_tokenizer.pretokenizers[1].add_prefix_space"));
  EXPECT_THAT(error_after([](json& t) { t["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; }),
              HasSubstr("Removed"));
  EXPECT_THAT(error_after([](json& t) { t["pre_tokenizer"]["pretokenizers"][0]["pattern"] = "x"; }),
              HasSubstr(".pattern"));
  EXPECT_THAT(error_after([](json& t) { t["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = R"(\w)"; }),
              HasSubstr("regex"));
  EXPECT_THAT(error_after([](json& t) {
                std::swap(t["pre_tokenizer"]["pretokenizers"][0], t["pre_tokenizer"]["pretokenizers"][1]);
              }),
              HasSubstr("needed ByteLevel to be the last"));
  EXPECT_THAT(error_after([](json& t) { t["decoder"] = {{"type", "WordPiece"}}; }), HasSubstr(": decoder.type: "));
  EXPECT_THAT(error_after([](json& t) { t.erase("model"); }), HasSubstr(": model: is missing"));
  EXPECT_THAT(error_after([](json& t) { t["model"]["type"] = "Unigram"; }), HasSubstr("Unigram"));
  EXPECT_THAT(error_after([](json& t) { t["model"]["byte_fallback"] = true; }), HasSubstr(".byte_fallback"));
  EXPECT_THAT(error_after([](json& t) { t["model"]["dropout"] = 0.1; }), HasSubstr(".dropout"));
  EXPECT_THAT(error_after([](json& t) { t["model"]["end_of_word_suffix"] = "</w>"; }),
              HasSubstr(".end_of_word_suffix"));
  EXPECT_THAT(error_after([](json& t) { t["model"]["vocab"]["zzz"] = -1; }),
              HasSubstr("model.vocab.\"zzz\": found -1"));
  EXPECT_THAT(error_after([](json& t) { t["model"]["vocab"]["zzz"] = 4000000000u; }), HasSubstr("4000000000"));
  EXPECT_THAT(error_after([](json& t) { t["model"]["vocab"]["zzz"] = 0; }),
              HasSubstr("found 0, needed another one than \"!\" has"));
  EXPECT_THAT(error_after([](json& t) { t["model"]["merges"][7] = 3; }), HasSubstr(".merges[7]"));
  EXPECT_THAT(error_after([](json& t) { t["model"]["merges"][7] = {"a", "zzz"}; }),
              AllOf(HasSubstr("merge 7"), HasSubstr("zzz")));
  EXPECT_THAT(error_after([](json& t) { t["added_tokens"][0]["id"] = 5; }),
              AllOf(HasSubstr(": added_tokens[0].id: "), HasSubstr("the id 5")));
  EXPECT_THAT(error_after([](json& t) { t["added_tokens"][0]["id"] = 10000000; }), HasSubstr(": added_tokens[0].id"));
  EXPECT_THAT(error_after([](json& t) { t["added_tokens"][0].erase("content"); }),
              HasSubstr(": added_tokens[0].content"));
  EXPECT_THAT(
      error_after([](json& t) { t["added_tokens"][0]["special"] = false, t["added_tokens"][0]["lstrip"] = true; }),
      HasSubstr(".lstrip"));
}

TEST(TokenizerJson, ConfigTokens) {
  const auto spec = must(parse_tokenizer_json(
      base().dump(),
      R"({"bos_token": {"content": "<|startoftext|>"}, "eos_token": "<|endoftext|>", "pad_token": null,
      "add_bos_token": true, "chat_template": [{"name": "tool", "template": "x"}, {"name": "default", "template": "y"}]})",
      "a"));
  EXPECT_EQ(spec->tokens[spec->bos], "<|startoftext|>");
  EXPECT_EQ(spec->tokens[spec->eos], "<|endoftext|>");
  EXPECT_EQ(spec->pad, -1);
  EXPECT_EQ(spec->tokens[spec->mask], "<|mdm_mask|>");  // known by its name
  EXPECT_TRUE(spec->add_bos);
  EXPECT_EQ(spec->chat_template, "y");
  EXPECT_THAT(error_of(base(), R"({"eos_token": "</s>"})"), AllOf(HasSubstr(": eos_token: "), HasSubstr("</s>")));
  EXPECT_THAT(error_of(base(), R"({"eos_token": 3})"), HasSubstr(": eos_token: found 3"));
  EXPECT_THAT(error_of(base(), R"({"add_bos_token": "yes"})"), HasSubstr(": add_bos_token: "));
  EXPECT_THAT(error_of(base(), "[1,"), HasSubstr("not valid JSON: it ends too early, at byte 3"));
}

TEST(TokenizerJson, DepthIsLimitedBeforeParsing) {
  const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  EXPECT_THAT(why_not(parse_tokenizer_json(deep, "", "a")), HasSubstr("nested more than 64 deep"));
  EXPECT_THAT(parse_tokenizer_json("\"" + deep + "\"", "", "a").error().message,
              HasSubstr("the JSON is not an object"));
}

// A damaged file is an error in one line, or a tokenizer that still gives every byte back. True when it was
// accepted.
bool survives(const std::string& tokenizer_json, const std::string& config_json, std::mt19937& random) {
  const auto one_line = [](const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::invalid_input);
    EXPECT_THAT(error.message, AllOf(testing::StartsWith("f: "), testing::Not(HasSubstr("\n"))));
    EXPECT_LT(error.message.size(), 1000u);
    return false;
  };
  auto spec = parse_tokenizer_json(tokenizer_json, config_json, "f");
  if (!spec) return one_line(spec.error());
  spec->nfc = false;
  const auto tokenizer = Tokenizer::create(std::move(*spec), "f");
  if (!tokenizer) return one_line(tokenizer.error());
  const std::string text = text_test::random_text(random, 20, 10);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text), true), text);
  return true;
}

// Sanitizers are ten times slower, and the fuzzers go further than both.
int rounds(int all) { return std::getenv("LLADA_TEST_QUICK") ? all / 5 : all; }

// labels: native
TEST(TokenizerJson, DamagedFilesNeverBreakAnything) {
  std::mt19937 random(23);
  int refused = 0, accepted = 0;
  for (const char* name : {"gpt2", "qwen2", "sequence"}) {
    const std::string good = text_test::read_text(text_test::fixture_path(std::string(name) + ".json"));
    for (int round = 0; round < rounds(1200); ++round) {
      std::string bad = good;
      for (auto edits = 1 + random() % 2; edits > 0; --edits) {
        // Half of the damage goes to the part that is not vocabulary.
        const size_t at = random() % (random() % 2 == 0 ? 1200 : bad.size());
        switch (random() % 6) {
          case 0:
            bad[at] = static_cast<char>(random() & 0xFF);
            break;
          case 1:
            bad.erase(at, 1 + random() % 8);
            break;
          case 2:
            bad.insert(at, bad.substr(random() % bad.size(), random() % 30));
            break;
          case 3:
            bad[at] = "{}[],:\"0-e\\"[random() % 11];
            break;
          case 4:
            bad.resize(at);
            break;
          default:
            std::swap(bad[at], bad[random() % bad.size()]);
            break;
        }
        if (bad.size() < 1200) break;
      }
      const std::string config = round % 8 == 0 ? bad.substr(0, random() % 50) : R"({"add_bos_token": true})";
      ++(survives(bad, config, random) ? accepted : refused);
    }
  }
  EXPECT_GT(refused, rounds(500));
  EXPECT_GT(accepted, rounds(100));
}

// The same for files that are valid JSON with a wrong value, or without one, somewhere.
// labels: native
TEST(TokenizerJson, WrongFieldsNeverBreakAnything) {
  std::mt19937 random(29);
  const json values = {nullptr,
                       true,
                       false,
                       0,
                       -1,
                       7,
                       1e300,
                       18446744073709551615u,
                       "",
                       "a",
                       "\u0000\n",
                       "BPE",
                       "NFC",
                       "(",
                       "\\p{L}",
                       json::array(),
                       json::object(),
                       {{"type", "ByteLevel"}, {"add_prefix_space", false}},
                       {"a", "b"}};
  const json good_config = json::parse(
      R"({"bos_token": {"content": "<|endoftext|>"}, "eos_token": "<|endoftext|>", "add_bos_token": true, "chat_template": [{"name": "default", "template": "y"}]})");
  int refused = 0, accepted = 0;
  for (const char* name : {"gpt2", "qwen2", "sequence"}) {
    const json good = text_test::read_json(text_test::fixture_path(std::string(name) + ".json"));
    for (int round = 0; round < rounds(500); ++round) {
      json bad = good, config = good_config;
      json* at = round % 6 == 0 ? &config : &bad;
      while (at->is_structured() && !at->empty() && random() % 8 != 0) {
        auto child = at->begin();
        std::advance(child, random() % at->size());
        if (at->is_object() && random() % 12 == 0) {
          at->erase(child);
          break;
        }
        at = &*child;
      }
      *at = values[random() % values.size()];
      ++(survives(bad.dump(-1, ' ', true), config.dump(), random) ? accepted : refused);
    }
  }
  EXPECT_GT(refused, rounds(300));
  EXPECT_GT(accepted, rounds(100));
}

}  // namespace
}  // namespace llada
