#include "text/tokenizer_json.h"

#include <algorithm>

#include "text/added_tokens.h"
#include "text/utf8.h"

namespace llada {
namespace {

// --- normalizer

constexpr std::string_view kSpaceText = "\u2581";

Status read_normalizer(const Fields& value, TokenizerSpec& spec) {
  LLADA_TRY(const std::string type, value.text("type", ""));
  if (type == "NFC") {
    spec.nfc = true;
    return {};
  }
  if (type == "Sequence") {
    LLADA_TRY(const auto parts, value.objects("normalizers"));
    for (const Fields& part : parts) LLADA_TRY_STATUS(read_normalizer(part, spec));
    return {};
  }
  if (type == "Replace") {
    const Json* pattern = value.find("pattern");
    LLADA_TRY(const std::string content, value.text("content", ""));
    if (pattern == nullptr || *pattern != Json{{"String", " "}} || content != kSpaceText)
      return value.fault("", "is not the one that writes U+2581 for a space, needed that, NFC or no normalizer");
    spec.characters = true;
    return {};
  }
  return value.wrong("type", type, "NFC, Replace or no normalizer");
}

// --- pre_tokenizer

std::string escape_regex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<uint8_t>(c) >= 0x80;
    if (plain)
      out += c;
    else
      out += fmt::format("\\x{{{:x}}}", static_cast<uint8_t>(c));
  }
  return out;
}

Status read_split(const Fields& value, TokenizerSpec& spec) {
  LLADA_TRY(const std::string behavior, value.text("behavior", ""));
  if (behavior != "Isolated") return value.wrong("behavior", behavior, "Isolated");
  // Inverted or not, Isolated cuts at the same places.
  LLADA_TRY(const Fields pattern, value.object("pattern"));
  LLADA_TRY(const auto regex, pattern.optional_text("Regex"));
  LLADA_TRY(const auto text, pattern.optional_text("String"));
  LLADA_TRY_STATUS(pattern.finish());
  if (regex.has_value() == text.has_value()) return value.wrong("pattern", pattern.all(), "Regex or String");
  const std::string& source = regex ? *regex : *text;
  if (source.empty()) return value.wrong("pattern", pattern.all(), "a string that is not empty");
  spec.regexes.push_back(regex ? source : escape_regex(source));
  return {};
}

// Behind the normalizer that leaves no space, a cut at spaces cuts nothing.
Status check_space_split(const Fields& value) {
  LLADA_TRY(const std::string type, value.text("type", ""));
  const Json* pattern = value.find("pattern");
  if (type == "Split" && pattern != nullptr && *pattern == Json{{"String", " "}}) return {};
  return value.wrong("type", type, "none or a Split at spaces where the normalizer replaces these");
}

Status read_pre_tokenizer(const Fields& value, bool& byte_level, TokenizerSpec& spec) {
  LLADA_TRY(const std::string type, value.text("type", ""));
  if (byte_level) return value.wrong("type", type, "ByteLevel to be the last");
  if (type == "Sequence") {
    LLADA_TRY(const auto parts, value.objects("pretokenizers"));
    for (const Fields& part : parts) LLADA_TRY_STATUS(read_pre_tokenizer(part, byte_level, spec));
    return {};
  }
  if (type == "Split") return read_split(value, spec);
  if (type == "Digits") {
    LLADA_TRY(const bool individual, value.boolean("individual_digits", false));
    spec.regexes.push_back(individual ? R"(\p{N})" : R"(\p{N}+)");
    return {};
  }
  if (type == "ByteLevel") {
    LLADA_TRY(const bool prefix, value.boolean("add_prefix_space", true));
    if (prefix) return value.wrong("add_prefix_space", prefix, "false");
    LLADA_TRY(const bool use_regex, value.boolean("use_regex", true));
    if (use_regex) spec.regexes.emplace_back(kGpt2Regex);
    byte_level = true;
    return {};
  }
  return value.wrong("type", type, "Sequence, Split, Digits or ByteLevel");
}

// --- model

bool is_byte_name(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') &&
         text.substr(3, 2).find_first_not_of("0123456789ABCDEF") == std::string_view::npos;
}

Status refuse_text(const Fields& model, const char* name) {
  LLADA_TRY(const std::string text, model.text(name, ""));
  if (!text.empty()) return model.wrong(name, text, "none");
  return {};
}

Status read_vocabulary(const Fields& vocab, TokenizerSpec& spec) {
  const auto& members = vocab.all().get_ref<const Json::object_t&>();
  const int64_t limit = std::ssize(members) + kMaxHoles;
  for (const auto& [text, id] : members) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(limit))
      return vocab.wrong(in_quotes(text), id, fmt::format("an id below {}", limit));
    const auto index = id.get<size_t>();
    if (index >= spec.tokens.size()) {
      spec.tokens.resize(index + 1);
      spec.kinds.resize(index + 1, TokenKind::unused);
    }
    if (spec.kinds[index] != TokenKind::unused)
      return vocab.wrong(in_quotes(text), id, fmt::format("another one than {} has", in_quotes(spec.tokens[index])));
    spec.tokens[index] = text;
    spec.kinds[index] = TokenKind::normal;
  }
  return {};
}

Status read_merges(const Fields& model, TokenizerSpec& spec) {
  LLADA_TRY(const Json* merges, model.list("merges"));
  spec.merges.reserve(merges->size());
  for (size_t i = 0; i < merges->size(); ++i) {
    const Json& merge = (*merges)[i];
    if (merge.is_string()) {
      spec.merges.push_back(merge.get_ref<const std::string&>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      spec.merges.push_back(merge[0].get_ref<const std::string&>() + " " + merge[1].get_ref<const std::string&>());
    } else {
      return model.wrong(fmt::format("merges[{}]", i), merge, "\"a b\" or [\"a\", \"b\"]");
    }
  }
  return {};
}

Status read_model(const Fields& model, TokenizerSpec& spec) {
  LLADA_TRY(const std::string type, model.text("type", ""));
  if (type != "BPE") return model.wrong("type", type, "BPE");
  LLADA_TRY(const bool byte_fallback, model.boolean("byte_fallback", false));
  if (byte_fallback != spec.characters)
    return model.wrong(
        "byte_fallback", byte_fallback,
        fmt::format("{} with {}", spec.characters, spec.characters ? "U+2581 for spaces" : "a byte-level vocabulary"));
  if (const Json* dropout = model.find("dropout"); dropout != nullptr && *dropout != 0)
    return model.wrong("dropout", *dropout, "null: ids would be random");
  LLADA_TRY_STATUS(refuse_text(model, "continuing_subword_prefix"));
  LLADA_TRY_STATUS(refuse_text(model, "end_of_word_suffix"));
  LLADA_TRY(spec.ignore_merges, model.boolean("ignore_merges", false));
  LLADA_TRY(const Fields vocab, model.object("vocab"));
  LLADA_TRY_STATUS(read_vocabulary(vocab, spec));
  for (size_t id = 0; id < spec.tokens.size() && byte_fallback; ++id)
    if (spec.kinds[id] == TokenKind::normal && is_byte_name(spec.tokens[id])) spec.kinds[id] = TokenKind::byte;
  return read_merges(model, spec);
}

// --- post_processor

// The token before a single text, by the published library's template; empty: none.
Status read_post_processor(const Fields& value, std::string& begins_with) {
  LLADA_TRY(const std::string type, value.text("type", ""));
  if (type == "Sequence") {
    LLADA_TRY(const auto parts, value.objects("processors"));
    for (const Fields& part : parts) LLADA_TRY_STATUS(read_post_processor(part, begins_with));
  }
  if (type != "TemplateProcessing") return {};
  LLADA_TRY(const auto single, value.objects("single"));
  if (single.empty() || !single.front().has("SpecialToken")) return {};
  LLADA_TRY(const Fields first, single.front().object("SpecialToken"));
  LLADA_TRY(begins_with, first.text("id", ""));
  return {};
}

}  // namespace

Status read_tokenizer_json(std::string_view text, const std::string& where, TokenizerSpec& spec,
                           std::string& begins_with) {
  LLADA_TRY(const Fields json, Fields::parse(text, where, kTokenizerJson));
  if (json.has("normalizer")) {
    LLADA_TRY(const Fields normalizer, json.object("normalizer"));
    LLADA_TRY_STATUS(read_normalizer(normalizer, spec));
  }
  const bool cuts = json.has("pre_tokenizer");
  if (spec.characters) {
    if (cuts) {
      LLADA_TRY(const Fields pre_tokenizer, json.object("pre_tokenizer"));
      LLADA_TRY_STATUS(check_space_split(pre_tokenizer));
    }
    spec.pre = kGemma4Tokenizer;
  } else {
    if (!cuts) return json.unfit("pre_tokenizer", "ByteLevel");
    LLADA_TRY(const Fields pre_tokenizer, json.object("pre_tokenizer"));
    bool byte_level = false;
    LLADA_TRY_STATUS(read_pre_tokenizer(pre_tokenizer, byte_level, spec));
    if (!byte_level) return json.fault("pre_tokenizer", "has no ByteLevel, needed one as the last");
    if (spec.regexes.empty()) spec.regexes.emplace_back(R"([\s\S]+)");  // ByteLevel alone, without its regex: no cuts
  }

  if (json.has("decoder")) {
    LLADA_TRY(const Fields decoder, json.object("decoder"));
    LLADA_TRY(const std::string type, decoder.text("type", ""));
    const std::string_view needed = spec.characters ? "Sequence" : "ByteLevel";
    if (type != needed) return decoder.wrong("type", type, needed);
  }
  LLADA_TRY(const Fields model, json.object("model"));
  LLADA_TRY_STATUS(read_model(model, spec));
  if (json.has("post_processor")) {
    LLADA_TRY(const Fields post, json.object("post_processor"));
    LLADA_TRY_STATUS(read_post_processor(post, begins_with));
  }
  if (!json.has("added_tokens")) return {};
  LLADA_TRY(const auto added, json.objects("added_tokens"));
  AddedTokens tokens(spec);
  for (const Fields& entry : added) {
    LLADA_TRY(const AddedToken token, read_added_token(entry, spec.nfc));
    LLADA_TRY(const int64_t id, entry.integer("id", 0, tokens.size() + kMaxHoles - 1));
    LLADA_TRY_STATUS(tokens.add(id, token, entry, "id"));
  }
  tokens.finish();
  return {};
}

// --- vocab.json and merges.txt

Status read_vocab_json(std::string_view json, const std::string& where, TokenizerSpec& spec) {
  LLADA_TRY(const Fields vocab, Fields::parse(json, where, kTokenizerJson));
  return read_vocabulary(vocab, spec);
}

Status read_merges_txt(std::string_view text, const std::string& where, TokenizerSpec& spec) {
  constexpr std::string_view kSpace = " \t\r";
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && kSpace.contains(line.back())) line.remove_suffix(1);
    while (!line.empty() && kSpace.contains(line.front())) line.remove_prefix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version:"))) continue;
    const size_t gap = line.find_first_of(kSpace);
    const size_t next = gap == std::string_view::npos ? gap : line.find_first_not_of(kSpace, gap);
    if (next == std::string_view::npos || line.find_first_of(kSpace, next) != std::string_view::npos)
      return invalid("{}:{}: {}, needed two tokens", where, number, in_quotes(line));
    spec.merges.push_back(fmt::format("{} {}", line.substr(0, gap), line.substr(next)));
  }
  return {};
}

}  // namespace llada
