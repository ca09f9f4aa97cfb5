#include "text/tokenizer_json.h"

#include <algorithm>

#include "text/added_tokens.h"
#include "text/utf8.h"

namespace llada {
namespace {

Result<std::string> type_of(const Json& component, const std::string& where) {
  if (!component.is_object()) return invalid("{} is {}, needed an object", where, kind_of(component));
  return string_member(component, "type", "", where);
}

// --- normalizer

constexpr std::string_view kSpaceText = "\u2581";

Status read_normalizer(const Json& value, const std::string& where, TokenizerSpec& spec) {
  if (value.is_null()) return {};
  LLADA_TRY(const std::string type, type_of(value, where));
  if (type == "NFC") {
    spec.nfc = true;
    return {};
  }
  if (type == "Sequence") {
    const Json* parts = find_member(value, "normalizers");
    if (parts == nullptr || !parts->is_array()) return invalid("{}.normalizers is not a list", where);
    for (size_t i = 0; i < parts->size(); ++i)
      LLADA_TRY_STATUS(read_normalizer((*parts)[i], fmt::format("{}.normalizers[{}]", where, i), spec));
    return {};
  }
  if (type == "Replace") {
    const Json* pattern = find_member(value, "pattern");
    LLADA_TRY(const std::string content, string_member(value, "content", "", where));
    if (pattern == nullptr || *pattern != Json{{"String", " "}} || content != kSpaceText)
      return invalid("{} is not the one that writes U+2581 for a space, needed that, NFC or no normalizer", where);
    spec.characters = true;
    return {};
  }
  return invalid("{}.type is {}, needed NFC, Replace or no normalizer", where, in_quotes(type));
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

Status read_split(const Json& value, const std::string& where, TokenizerSpec& spec) {
  LLADA_TRY(const std::string behavior, string_member(value, "behavior", "", where));
  if (behavior != "Isolated") return invalid("{}.behavior is {}, needed Isolated", where, in_quotes(behavior));
  // Inverted or not, Isolated cuts at the same places.
  const Json* pattern = find_member(value, "pattern");
  if (pattern == nullptr || !pattern->is_object() || pattern->size() != 1)
    return invalid("{}.pattern is not an object with Regex or String", where);
  const std::string& name = pattern->begin().key();
  const Json& text = pattern->begin().value();
  if ((name != "Regex" && name != "String") || !text.is_string())
    return invalid("{}.pattern has {}, needed Regex or String", where, in_quotes(name));
  const auto& source = text.get_ref<const std::string&>();
  if (source.empty()) return invalid("{}.pattern.{} is empty", where, name);
  spec.regexes.push_back(name == "Regex" ? source : escape_regex(source));
  return {};
}

// Behind the normalizer that leaves no space, a cut at spaces cuts nothing.
Status check_space_split(const Json& value, const std::string& where) {
  LLADA_TRY(const std::string type, type_of(value, where));
  const Json* pattern = find_member(value, "pattern");
  if (type == "Split" && pattern != nullptr && *pattern == Json{{"String", " "}}) return {};
  return invalid("{}.type is {}, needed none or a Split at spaces where the normalizer replaces these", where,
                 in_quotes(type));
}

Status read_pre_tokenizer(const Json& value, const std::string& where, bool& byte_level, TokenizerSpec& spec) {
  LLADA_TRY(const std::string type, type_of(value, where));
  if (byte_level)
    return invalid("{}.type is {} after ByteLevel, needed ByteLevel to be the last", where, in_quotes(type));
  if (type == "Sequence") {
    const Json* parts = find_member(value, "pretokenizers");
    if (parts == nullptr || !parts->is_array()) return invalid("{}.pretokenizers is not a list", where);
    for (size_t i = 0; i < parts->size(); ++i)
      LLADA_TRY_STATUS(
          read_pre_tokenizer((*parts)[i], fmt::format("{}.pretokenizers[{}]", where, i), byte_level, spec));
    return {};
  }
  if (type == "Split") return read_split(value, where, spec);
  if (type == "Digits") {
    LLADA_TRY(const bool individual, bool_member(value, "individual_digits", false, where));
    spec.regexes.push_back(individual ? R"(\p{N})" : R"(\p{N}+)");
    return {};
  }
  if (type == "ByteLevel") {
    LLADA_TRY(const bool prefix, bool_member(value, "add_prefix_space", true, where));
    if (prefix) return invalid("{}.add_prefix_space is true, needed false", where);
    LLADA_TRY(const bool use_regex, bool_member(value, "use_regex", true, where));
    if (use_regex) spec.regexes.emplace_back(kGpt2Regex);
    byte_level = true;
    return {};
  }
  return invalid("{}.type is {}, needed Sequence, Split, Digits or ByteLevel", where, in_quotes(type));
}

// --- model

bool is_byte_name(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>') &&
         text.substr(3, 2).find_first_not_of("0123456789ABCDEF") == std::string_view::npos;
}

Status refuse_text(const Json& model, const char* name, const std::string& where) {
  LLADA_TRY(const std::string text, string_member(model, name, "", where));
  if (!text.empty()) return invalid("{}.{} is {}, needed none", where, name, in_quotes(text));
  return {};
}

Status read_vocabulary(const Json& vocab, const std::string& where, TokenizerSpec& spec) {
  if (!vocab.is_object()) return invalid("{} is {}, needed an object", where, kind_of(vocab));
  const int64_t limit = static_cast<int64_t>(vocab.size()) + kMaxHoles;
  for (const auto& [text, id] : vocab.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(limit))
      return invalid("{}[{}] is {}, needed an id below {}", where, in_quotes(text),
                     id.is_number() ? id.dump() : std::string(kind_of(id)), limit);
    const auto index = id.get<size_t>();
    if (index >= spec.tokens.size()) {
      spec.tokens.resize(index + 1);
      spec.kinds.resize(index + 1, TokenKind::unused);
    }
    if (spec.kinds[index] != TokenKind::unused)
      return invalid("{} gives the id {} to {} and to {}", where, index, in_quotes(spec.tokens[index]),
                     in_quotes(text));
    spec.tokens[index] = text;
    spec.kinds[index] = TokenKind::normal;
  }
  return {};
}

Status read_merges(const Json& model, const std::string& where, TokenizerSpec& spec) {
  const Json* merges = find_member(model, "merges");
  if (merges == nullptr || !merges->is_array()) return invalid("{}.merges is not a list", where);
  spec.merges.reserve(merges->size());
  for (size_t i = 0; i < merges->size(); ++i) {
    const Json& merge = (*merges)[i];
    if (merge.is_string()) {
      spec.merges.push_back(merge.get_ref<const std::string&>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      spec.merges.push_back(merge[0].get_ref<const std::string&>() + " " + merge[1].get_ref<const std::string&>());
    } else {
      return invalid("{}.merges[{}] is {}, needed \"a b\" or [\"a\", \"b\"]", where, i, kind_of(merge));
    }
  }
  return {};
}

Status read_model(const Json& model, const std::string& where, TokenizerSpec& spec) {
  LLADA_TRY(const std::string type, type_of(model, where));
  if (type != "BPE") return invalid("{}.type is {}, needed BPE", where, in_quotes(type));
  LLADA_TRY(const bool byte_fallback, bool_member(model, "byte_fallback", false, where));
  if (byte_fallback != spec.characters)
    return invalid("{}.byte_fallback is {}, needed {} with {}", where, byte_fallback, spec.characters,
                   spec.characters ? "U+2581 for spaces" : "a byte-level vocabulary");
  if (const Json* dropout = find_member(model, "dropout"); dropout != nullptr && !dropout->is_null() && *dropout != 0)
    return invalid("{}.dropout is not null: ids would be random", where);
  LLADA_TRY_STATUS(refuse_text(model, "continuing_subword_prefix", where));
  LLADA_TRY_STATUS(refuse_text(model, "end_of_word_suffix", where));
  LLADA_TRY(spec.ignore_merges, bool_member(model, "ignore_merges", false, where));
  const Json* vocab = find_member(model, "vocab");
  if (vocab == nullptr) return invalid("{}.vocab is missing", where);
  LLADA_TRY_STATUS(read_vocabulary(*vocab, where + ".vocab", spec));
  for (size_t id = 0; id < spec.tokens.size() && byte_fallback; ++id)
    if (spec.kinds[id] == TokenKind::normal && is_byte_name(spec.tokens[id])) spec.kinds[id] = TokenKind::byte;
  return read_merges(model, where, spec);
}

// --- post_processor

// The token before a single text, by the published library's template; empty: none.
Status read_post_processor(const Json& value, const std::string& where, std::string& begins_with) {
  if (value.is_null()) return {};
  LLADA_TRY(const std::string type, type_of(value, where));
  if (type == "Sequence") {
    const Json* parts = find_member(value, "processors");
    if (parts == nullptr || !parts->is_array()) return invalid("{}.processors is not a list", where);
    for (size_t i = 0; i < parts->size(); ++i)
      LLADA_TRY_STATUS(read_post_processor((*parts)[i], fmt::format("{}.processors[{}]", where, i), begins_with));
  }
  if (type != "TemplateProcessing") return {};
  const Json* single = find_member(value, "single");
  if (single == nullptr || !single->is_array()) return invalid("{}.single is not a list", where);
  const Json* first = single->empty() ? nullptr : find_member(single->front(), "SpecialToken");
  if (first == nullptr) return {};
  LLADA_TRY(begins_with, string_member(*first, "id", "", where + ".single[0].SpecialToken"));
  return {};
}

}  // namespace

Status read_tokenizer_json(std::string_view text, const std::string& where, TokenizerSpec& spec,
                           std::string& begins_with) {
  LLADA_TRY(const Json json, parse_json(text, where));
  if (!json.is_object()) return invalid("{} is {}, needed an object", where, kind_of(json));
  if (const Json* normalizer = find_member(json, "normalizer"))
    LLADA_TRY_STATUS(read_normalizer(*normalizer, where + ".normalizer", spec));

  const Json* pre_tokenizer = find_member(json, "pre_tokenizer");
  const bool cuts = pre_tokenizer != nullptr && !pre_tokenizer->is_null();
  if (spec.characters) {
    if (cuts) LLADA_TRY_STATUS(check_space_split(*pre_tokenizer, where + ".pre_tokenizer"));
    spec.pre = kGemma4Tokenizer;
  } else {
    if (!cuts) return invalid("{}.pre_tokenizer is missing, needed ByteLevel", where);
    bool byte_level = false;
    LLADA_TRY_STATUS(read_pre_tokenizer(*pre_tokenizer, where + ".pre_tokenizer", byte_level, spec));
    if (!byte_level) return invalid("{}.pre_tokenizer has no ByteLevel, needed one as the last", where);
    if (spec.regexes.empty()) spec.regexes.emplace_back(R"([\s\S]+)");  // ByteLevel alone, without its regex: no cuts
  }

  if (const Json* decoder = find_member(json, "decoder"); decoder != nullptr && !decoder->is_null()) {
    LLADA_TRY(const std::string type, type_of(*decoder, where + ".decoder"));
    const std::string_view needed = spec.characters ? "Sequence" : "ByteLevel";
    if (type != needed) return invalid("{}.decoder.type is {}, needed {}", where, in_quotes(type), needed);
  }
  const Json* model = find_member(json, "model");
  if (model == nullptr) return invalid("{}.model is missing", where);
  LLADA_TRY_STATUS(read_model(*model, where + ".model", spec));

  if (const Json* post = find_member(json, "post_processor"))
    LLADA_TRY_STATUS(read_post_processor(*post, where + ".post_processor", begins_with));
  const Json* added = find_member(json, "added_tokens");
  if (added == nullptr || added->is_null()) return {};
  if (!added->is_array()) return invalid("{}.added_tokens is {}, needed a list", where, kind_of(*added));
  AddedTokens tokens(spec);
  for (size_t i = 0; i < added->size(); ++i) {
    const Json& entry = (*added)[i];
    const std::string path = fmt::format("{}.added_tokens[{}]", where, i);
    LLADA_TRY(const AddedToken token, read_added_token(entry, spec.nfc, path));
    LLADA_TRY(const int64_t id, index_member(entry, "id", tokens.size() + kMaxHoles, path));
    LLADA_TRY_STATUS(tokens.add(id, token, path));
  }
  tokens.finish();
  return {};
}

// --- vocab.json and merges.txt

Status read_vocab_json(std::string_view json, const std::string& where, TokenizerSpec& spec) {
  LLADA_TRY(const Json vocab, parse_json(json, where));
  return read_vocabulary(vocab, where, spec);
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
