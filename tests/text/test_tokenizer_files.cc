// The files of a folder beside tokenizer.json, and in its place: what they add, what comes first, what is refused.
#include <gmock/gmock.h>

#include <chrono>

#include "text/support.h"
#include "text/tokenizer_files.h"

namespace llada {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const json& qwen() {
  static const json tokenizer = text_test::read_json(text_test::fixture_path("qwen2.json"));
  return tokenizer;
}

// The same tokenizer as Dream is published: a vocabulary, merges, and the added tokens in one of two files.
TokenizerFiles split_files(bool decoder) {
  TokenizerFiles files;
  files.vocab = qwen()["model"]["vocab"].dump();
  files.merges = "#version: 0.2\n";
  for (const json& merge : qwen()["model"]["merges"])
    files.merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  json config = {{"tokenizer_class", "DreamTokenizer"}}, added, by_id;
  json map = {{"eos_token", {{"content", "<|endoftext|>"}}},
              {"mask_token", "<|mask|>"},
              {"additional_special_tokens", {"<|im_start|>", "<|im_end|>"}}};
  for (json token : qwen()["added_tokens"]) {
    added[token["content"].get<std::string>()] = token["id"];
    by_id[std::to_string(token["id"].get<int>())] = token;
  }
  if (decoder) {
    config["added_tokens_decoder"] = by_id;
    config.update(map);
  } else {
    files.added_tokens = added.dump();
    files.special_tokens_map = map.dump();
  }
  files.config = config.dump();
  return files;
}

Tokenizer made_of(const TokenizerFiles& files) {
  auto spec = parse_tokenizer_files(files, "folder");
  EXPECT_TRUE(spec) << spec.error().message;
  auto tokenizer = Tokenizer::create(spec ? std::move(*spec) : TokenizerSpec(), "folder");
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return tokenizer ? *tokenizer : text_test::fixture("gpt2");
}

std::string error_of(const TokenizerFiles& files) {
  auto spec = parse_tokenizer_files(files, "folder");
  if (spec) {
    const auto tokenizer = Tokenizer::create(std::move(*spec), "folder");
    if (tokenizer) return "fine";
    spec = std::unexpected(tokenizer.error());
  }
  EXPECT_EQ(spec.error().kind, ErrorKind::invalid_input);
  EXPECT_THAT(spec.error().message, AllOf(testing::StartsWith("folder: "), testing::Not(HasSubstr("\n"))));
  EXPECT_LT(spec.error().message.size(), 400u);
  return spec.error().message;
}

TEST(TokenizerFiles, AVocabularyWithMergesGivesThePublishedIds) {
  const auto items = text_test::read_json(text_test::fixture_path("qwen2.expected.json"));
  const auto whole = text_test::read_json(text_test::fixture_path("whole.expected.json"));
  const Tokenizer from_json = text_test::fixture("qwen2", R"({"eos_token":"<|endoftext|>"})");
  for (const bool decoder : {false, true}) {
    const Tokenizer tokenizer = made_of(split_files(decoder));
    for (const json& item : items)
      ASSERT_EQ(tokenizer.encode(item["text"].get<std::string>()), item["ids"].get<std::vector<int32_t>>()) << item;
    for (const json& item : whole)
      if (item["tokenizer"] == "qwen2") {
        ASSERT_EQ(tokenizer.encode(item["text"].get<std::string>(), ControlText::token),
                  item["ids"].get<std::vector<int32_t>>())
            << item;
      }
    const TokenizerSpec &a = tokenizer.spec(), &b = from_json.spec();
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.kinds, b.kinds);
    EXPECT_EQ(a.regexes, b.regexes);
    EXPECT_EQ(std::tuple(a.nfc, a.eos, a.mask, a.eot), std::tuple(b.nfc, b.eos, b.mask, b.eot));
  }
}

TEST(TokenizerFiles, TheClassSaysHowTextIsCut) {
  TokenizerFiles files = split_files(false);
  files.config = R"({"tokenizer_class":"GPT2Tokenizer"})";
  EXPECT_FALSE(made_of(files).spec().nfc);
  EXPECT_THAT(made_of(files).spec().regexes, ElementsAre(testing::StartsWith("'s|'t")));
  files.config = "";
  EXPECT_TRUE(made_of(files).spec().nfc);
  files.config = R"({"tokenizer_class":"LlamaTokenizer"})";
  EXPECT_THAT(error_of(files),
              AllOf(HasSubstr(": tokenizer_class: found \"LlamaTokenizer\""), HasSubstr("GPT2Tokenizer")));
}

TEST(TokenizerFiles, MergesWithLineEndsOfOtherSystems) {
  TokenizerFiles files = split_files(false), other = files;
  for (size_t at = 0; (at = other.merges.find('\n', at)) != std::string::npos; at += 2) other.merges.insert(at, "\r");
  other.merges += "\n \r\n";
  EXPECT_EQ(made_of(other).spec().merges, made_of(files).spec().merges);
}

// What transformers adds when it loads a tokenizer whose tokenizer.json lacks them.
TEST(TokenizerFiles, TokensThatOtherFilesAdd) {
  TokenizerFiles files;
  json tokenizer = qwen();
  tokenizer["added_tokens"].erase(2);  // <|im_end|>, 1002
  files.tokenizer = tokenizer.dump();
  EXPECT_FALSE(made_of(files).find_control("<|im_end|>"));
  const json entry = {{"content", "<|im_end|>"}, {"special", true}};
  files.config = json{{"added_tokens_decoder", {{"1002", entry}}}}.dump();
  EXPECT_EQ(made_of(files).find_control("<|im_end|>"), 1002);
  files.config = "{}";
  files.added_tokens = R"({"<|im_end|>": 1002, "<plain>": 1010, "<tool": 1005})";
  EXPECT_FALSE(made_of(files).find_control("<|im_end|>")) << "nobody calls it special";
  files.special_tokens_map = R"({"additional_special_tokens": ["<|im_end|>", {"content": "<absent>"}]})";
  const Tokenizer both = made_of(files);
  EXPECT_EQ(both.find_control("<|im_end|>"), 1002);
  EXPECT_THAT(both.encode("<plain>"), ElementsAre(1010));
  EXPECT_EQ(both.spec().kinds[1008], TokenKind::unused);
  // With added_tokens_decoder the two other files do not count, but for names that it leaves out.
  files.config = json{{"added_tokens_decoder", {{"1002", entry}}}}.dump();
  files.special_tokens_map = R"({"eos_token": "<|im_end|>"})";
  EXPECT_EQ(made_of(files).vocab_size(), 1007);
  EXPECT_EQ(made_of(files).spec().eos, 1002);
  // A token keeps the id that it has.
  files.config =
      json{{"added_tokens_decoder", {{"1020", entry}, {"1019", {{"content", "<|endoftext|>"}, {"special", true}}}}}}
          .dump();
  EXPECT_EQ(made_of(files).find_control("<|endoftext|>"), 1000);
  EXPECT_EQ(made_of(files).find_control("<|im_end|>"), 1020);
}

TEST(TokenizerFiles, ABeginTokenOfThePostProcessor) {
  json tokenizer = text_test::read_json(text_test::fixture_path("llama.json"));
  const json first = {{"type", "TemplateProcessing"},
                      {"single",
                       {{{"SpecialToken", {{"id", "<|startoftext|>"}, {"type_id", 0}}}},
                        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
                      {"pair", json::array()},
                      {"special_tokens", json::object()}};
  const auto spec = [&](const json& post, const std::string& config) {
    tokenizer["post_processor"] = post;
    TokenizerFiles files;
    files.tokenizer = tokenizer.dump();
    files.config = config;
    return *parse_tokenizer_files(files, "folder");
  };
  EXPECT_FALSE(spec(nullptr, "").add_bos);
  EXPECT_TRUE(spec(first, "").add_bos);
  EXPECT_EQ(spec(first, "").bos, 1000);
  EXPECT_TRUE(spec({{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, first}}}, "").add_bos);
  EXPECT_FALSE(spec(first, R"({"add_bos_token": false})").add_bos) << "what is said goes before what is done";
  EXPECT_FALSE(spec(first, R"({"bos_token": "<|eot_id|>"})").add_bos) << "another token than the model's";
  json after = first;
  std::swap(after["single"][0], after["single"][1]);
  EXPECT_FALSE(spec(after, "").add_bos);
}

TEST(TokenizerFiles, TheTemplateOfItsOwnFileComesFirst) {
  TokenizerFiles files;
  files.tokenizer = qwen().dump();
  files.config = R"({"chat_template": "in the config"})";
  EXPECT_EQ(parse_tokenizer_files(files, "f")->chat_template, "in the config");
  files.chat_template = "in its file";
  EXPECT_EQ(parse_tokenizer_files(files, "f")->chat_template, "in its file");
  files.chat_template.clear();
  files.config = R"({"chat_template": [{"name": "rag", "template": "a"}, {"name": "tool_use", "template": "b"}]})";
  EXPECT_EQ(parse_tokenizer_files(files, "f")->chat_template, "a") << "no default: the first";
  files.config = R"({"chat_template": [{"name": "rag", "template": "a"}, {"name": "default", "template": "b"}]})";
  EXPECT_EQ(parse_tokenizer_files(files, "f")->chat_template, "b");
}

// Either way, so that whatever opens can be written as GGUF, whose reader has the same bound.
TEST(TokenizerFiles, ATemplateOfMoreThanAMebibyteIsRefused) {
  const std::string most(size_t{1} << 20, 'x');
  TokenizerFiles files;
  files.tokenizer = qwen().dump();
  files.chat_template = most;
  EXPECT_TRUE(parse_tokenizer_files(files, "f"));
  files.chat_template += 'x';
  const char* line = "f: the chat template has 1048577 bytes, at most 1048576 needed";
  EXPECT_EQ(parse_tokenizer_files(files, "f").error().message, line);
  files.chat_template.clear();
  files.config = json{{"chat_template", most + "x"}}.dump();
  EXPECT_EQ(parse_tokenizer_files(files, "f").error().message, line);
}

TEST(TokenizerFiles, BadFilesAreOneLine) {
  const auto with = [](std::string TokenizerFiles::* file, const std::string& text) {
    TokenizerFiles files = split_files(false);
    files.*file = text;
    return error_of(files);
  };
  const std::string merges = split_files(false).merges;
  EXPECT_EQ(error_of(split_files(false)), "fine");
  EXPECT_THAT(error_of({}), HasSubstr("needed tokenizer.json, or vocab.json and merges.txt"));
  EXPECT_THAT(with(&TokenizerFiles::merges, ""), HasSubstr("needed tokenizer.json, or vocab.json and merges.txt"));
  EXPECT_THAT(with(&TokenizerFiles::merges, "a b\na b c\n"), HasSubstr("merges.txt:2: \"a b c\""));
  EXPECT_THAT(with(&TokenizerFiles::merges, "a b\nab\n"), HasSubstr("merges.txt:2: \"ab\""));
  EXPECT_THAT(with(&TokenizerFiles::merges, "\xff\xfe \x01\n"), HasSubstr("merge 0"));
  EXPECT_THAT(with(&TokenizerFiles::merges, merges + merges.substr(merges.find('\n') + 1)),
              HasSubstr("is there twice"));
  EXPECT_THAT(with(&TokenizerFiles::vocab, "[]"), HasSubstr("vocab.json: the JSON is not an object"));
  EXPECT_THAT(with(&TokenizerFiles::vocab, "{\"a\xff\": 1}"), HasSubstr("vocab.json: not valid JSON"));
  EXPECT_THAT(with(&TokenizerFiles::vocab, R"({"a": 1, "b": 1})"),
              HasSubstr("vocab.json: \"b\": found 1, needed another one than \"a\" has"));
  EXPECT_THAT(with(&TokenizerFiles::added_tokens, R"({"<x>": 70000000})"), HasSubstr("\"<x>\": found 70000000"));
  EXPECT_THAT(with(&TokenizerFiles::added_tokens, R"({"<x>": -1})"), HasSubstr("needed an id below"));
  EXPECT_THAT(with(&TokenizerFiles::added_tokens, R"({"<x>": 5})"),
              HasSubstr("json: \"<x>\": found the id 5, which is already"));
  EXPECT_THAT(with(&TokenizerFiles::added_tokens, R"({"<x>": 1010, "<y>": 1010})"),
              HasSubstr("\"<y>\": found 1010, needed another one than \"<x>\" has"));
  EXPECT_THAT(with(&TokenizerFiles::added_tokens, "7"), HasSubstr("added_tokens.json: the JSON is not an object"));
  EXPECT_THAT(with(&TokenizerFiles::special_tokens_map, R"({"eos_token": 1})"),
              HasSubstr("json: eos_token: found 1, needed a string or an object"));
  EXPECT_THAT(with(&TokenizerFiles::special_tokens_map, R"({"eos_token": "</s>"})"), HasSubstr("</s>"));
  EXPECT_THAT(with(&TokenizerFiles::special_tokens_map, R"({"additional_special_tokens": "x"})"),
              HasSubstr("additional_special_tokens: found \"x\", needed a list"));
  const auto decoder = [&](const std::string& text) {
    TokenizerFiles files = split_files(false);
    files.special_tokens_map.clear();
    files.config = R"({"added_tokens_decoder": )" + text + "}";
    return error_of(files);
  };
  EXPECT_THAT(decoder("[]"), HasSubstr("added_tokens_decoder: found [], needed an object"));
  EXPECT_THAT(decoder(R"({"x": {"content": "a"}})"), HasSubstr("found the key \"x\""));
  EXPECT_THAT(decoder(R"({"-1": {"content": "a"}})"), HasSubstr("found the key \"-1\""));
  EXPECT_THAT(decoder(R"({"99999999999": {"content": "zz"}})"),
              HasSubstr("added_tokens_decoder.99999999999: found this id, needed one below"));
  EXPECT_THAT(decoder(R"({"5": {"content": "zzzz", "special": true}})"),
              HasSubstr("added_tokens_decoder.5: found the id 5, which is already"));
  EXPECT_THAT(decoder(R"({"1010": {"special": true}})"), HasSubstr(".content: is missing"));
  EXPECT_THAT(decoder(R"({"1010": {"content": "<x>", "rstrip": true}})"), HasSubstr(".rstrip: found true"));
  EXPECT_THAT(decoder(R"({"65": {"content": "a", "special": true}})"), HasSubstr("0x61"))
      << "the byte has no token then";
}

// Quadratic work would take minutes here.
TEST(TokenizerFiles, ManyAddedTokensTakeNoLonger) {
  TokenizerFiles files = split_files(false);
  json added;
  for (int i = 0; i < 20'000; ++i) added["<" + std::to_string(i) + ">"] = 2000 + i;
  files.added_tokens = added.dump();
  files.special_tokens_map.clear();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(made_of(files).encode("<7><19999>"), ElementsAre(2007, 21999));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace llada
