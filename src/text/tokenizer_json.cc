#include "text/tokenizer_json.h"

#include <algorithm>
#include <limits>

#include "text/json_input.h"
#include "text/pre_tokenizer_rules.h"
#include "text/utf8.h"

namespace llada {
namespace {

constexpr int64_t kMaxHoles = 65536;  // ids without a token, so that a hostile id cannot ask for gigabytes

Result<std::string> type_of(const Json& component, const std::string& where) {
  if (!component.is_object()) return invalid("{} is {}, needed an object", where, kind_of(component));
  return string_member(component, "type", "", where);
}

// --- normalizer

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
  return invalid("{}.type is {}, needed NFC or no normalizer", where, in_quotes(type));
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

Status refuse_text(const Json& model, const char* name, const std::string& where) {
  LLADA_TRY(const std::string text, string_member(model, name, "", where));
  if (!text.empty()) return invalid("{}.{} is {}, needed none", where, name, in_quotes(text));
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
  if (byte_fallback) return invalid("{}.byte_fallback is true, needed a byte-level vocabulary", where);
  if (const Json* dropout = find_member(model, "dropout"); dropout != nullptr && !dropout->is_null() && *dropout != 0)
    return invalid("{}.dropout is not null: ids would be random", where);
  LLADA_TRY_STATUS(refuse_text(model, "continuing_subword_prefix", where));
  LLADA_TRY_STATUS(refuse_text(model, "end_of_word_suffix", where));
  LLADA_TRY(spec.ignore_merges, bool_member(model, "ignore_merges", false, where));
  const Json* vocab = find_member(model, "vocab");
  if (vocab == nullptr || !vocab->is_object()) return invalid("{}.vocab is not an object", where);
  const int64_t limit = static_cast<int64_t>(vocab->size()) + kMaxHoles;
  for (const auto& [text, id] : vocab->items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(limit))
      return invalid("{}.vocab[{}] is {}, needed an id below {}", where, in_quotes(text),
                     id.is_number() ? id.dump() : std::string(kind_of(id)), limit);
    const auto index = id.get<size_t>();
    if (index >= spec.tokens.size()) {
      spec.tokens.resize(index + 1);
      spec.kinds.resize(index + 1, TokenKind::unused);
    }
    if (spec.kinds[index] != TokenKind::unused)
      return invalid("{}.vocab gives the id {} to {} and to {}", where, index, in_quotes(spec.tokens[index]),
                     in_quotes(text));
    spec.tokens[index] = text;
    spec.kinds[index] = TokenKind::normal;
  }
  return read_merges(model, where, spec);
}

// --- added tokens

Status read_added_token(const Json& token, const std::string& where, TokenizerSpec& spec) {
  if (!token.is_object()) return invalid("{} is {}, needed an object", where, kind_of(token));
  LLADA_TRY(const int64_t id, index_member(token, "id", static_cast<int64_t>(spec.tokens.size()) + kMaxHoles, where));
  LLADA_TRY(const std::string content, string_member(token, "content", "", where));
  if (content.empty()) return invalid("{}.content is missing or empty", where);
  LLADA_TRY(const bool special, bool_member(token, "special", false, where));
  LLADA_TRY(const bool normalized, bool_member(token, "normalized", !special, where));
  if (!special) {  // a special one is never made of a text, so the rest does not matter
    for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
      LLADA_TRY(const bool set, bool_member(token, flag, false, where));
      if (set) return invalid("{}.{} is true, needed false for a token that is not special", where, flag);
    }
    if (normalized && spec.nfc)
      return invalid("{}.normalized is true together with the NFC normalizer, needed false", where);
  }
  const auto index = static_cast<size_t>(id);
  if (index >= spec.tokens.size()) {
    spec.tokens.resize(index + 1);
    spec.kinds.resize(index + 1, TokenKind::unused);
  }
  if (spec.kinds[index] != TokenKind::unused && spec.tokens[index] != content)
    return invalid("{}.id is {}, which is already {}, needed a free id for {}", where, index,
                   in_quotes(spec.tokens[index]), in_quotes(content));
  if (normalized) spec.matched_last.push_back(static_cast<int32_t>(index));
  spec.tokens[index] = content;
  spec.kinds[index] = special ? TokenKind::control : TokenKind::user_defined;
  return {};
}

// --- tokenizer_config.json

Status read_special(const Json& config, const char* name, const std::string& where, const TokenizerSpec& spec,
                    int32_t& id) {
  const Json* value = find_member(config, name);
  if (value == nullptr || value->is_null()) return {};
  if (const Json* content = find_member(*value, "content")) value = content;
  if (!value->is_string())
    return invalid("{}.{} is {}, needed a string or an object with content", where, name, kind_of(*value));
  const auto& text = value->get_ref<const std::string&>();
  for (const bool added : {true, false}) {  // an added token before one of the vocabulary
    for (size_t i = 0; i < spec.tokens.size(); ++i) {
      const bool is_added = spec.kinds[i] == TokenKind::control || spec.kinds[i] == TokenKind::user_defined;
      if (is_added != added || spec.kinds[i] == TokenKind::unused || spec.tokens[i] != text) continue;
      id = static_cast<int32_t>(i);
      return {};
    }
  }
  return invalid("{}.{} is {}, which the vocabulary does not have", where, name, in_quotes(text));
}

// A string, or a list of {name, template} of which "default" counts.
Status read_chat_template(const Json& config, const std::string& where, TokenizerSpec& spec) {
  const Json* value = find_member(config, "chat_template");
  if (value == nullptr || !value->is_array()) {
    LLADA_TRY(spec.chat_template, string_member(config, "chat_template", "", where));
    return {};
  }
  for (size_t i = 0; i < value->size(); ++i) {
    const std::string path = fmt::format("{}.chat_template[{}]", where, i);
    LLADA_TRY(const std::string name, string_member((*value)[i], "name", "", path));
    if (name != "default") continue;
    LLADA_TRY(spec.chat_template, string_member((*value)[i], "template", "", path));
  }
  return {};
}

Status read_config(std::string_view text, const std::string& where, TokenizerSpec& spec) {
  LLADA_TRY(const Json config, parse_json(text, where));
  if (!config.is_object()) return invalid("{} is {}, needed an object", where, kind_of(config));
  LLADA_TRY_STATUS(read_special(config, "bos_token", where, spec, spec.bos));
  LLADA_TRY_STATUS(read_special(config, "eos_token", where, spec, spec.eos));
  LLADA_TRY_STATUS(read_special(config, "pad_token", where, spec, spec.pad));
  LLADA_TRY_STATUS(read_special(config, "mask_token", where, spec, spec.mask));
  LLADA_TRY(spec.add_bos, bool_member(config, "add_bos_token", false, where));
  return read_chat_template(config, where, spec);
}

}  // namespace

Result<TokenizerSpec> parse_tokenizer_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json,
                                           const std::string& source) {
  const std::string where = source + ": tokenizer.json";
  LLADA_TRY(const Json json, parse_json(tokenizer_json, where));
  if (!json.is_object()) return invalid("{} is {}, needed an object", where, kind_of(json));
  TokenizerSpec spec;
  if (const Json* normalizer = find_member(json, "normalizer"))
    LLADA_TRY_STATUS(read_normalizer(*normalizer, where + ".normalizer", spec));

  const Json* pre_tokenizer = find_member(json, "pre_tokenizer");
  if (pre_tokenizer == nullptr || pre_tokenizer->is_null())
    return invalid("{}.pre_tokenizer is missing, needed ByteLevel", where);
  bool byte_level = false;
  LLADA_TRY_STATUS(read_pre_tokenizer(*pre_tokenizer, where + ".pre_tokenizer", byte_level, spec));
  if (!byte_level) return invalid("{}.pre_tokenizer has no ByteLevel, needed one as the last", where);
  if (spec.regexes.empty()) spec.regexes.emplace_back(R"([\s\S]+)");  // ByteLevel alone, without its regex: no cuts

  if (const Json* decoder = find_member(json, "decoder"); decoder != nullptr && !decoder->is_null()) {
    LLADA_TRY(const std::string type, type_of(*decoder, where + ".decoder"));
    if (type != "ByteLevel") return invalid("{}.decoder.type is {}, needed ByteLevel", where, in_quotes(type));
  }
  const Json* model = find_member(json, "model");
  if (model == nullptr) return invalid("{}.model is missing", where);
  LLADA_TRY_STATUS(read_model(*model, where + ".model", spec));

  if (const Json* added = find_member(json, "added_tokens"); added != nullptr && !added->is_null()) {
    if (!added->is_array()) return invalid("{}.added_tokens is {}, needed a list", where, kind_of(*added));
    for (size_t i = 0; i < added->size(); ++i)
      LLADA_TRY_STATUS(read_added_token((*added)[i], fmt::format("{}.added_tokens[{}]", where, i), spec));
    std::ranges::sort(spec.matched_last);
  }
  for (size_t i = 0; i < spec.tokens.size(); ++i)
    if (spec.kinds[i] == TokenKind::unused) spec.tokens[i] = fmt::format("[PAD{}]", i);

  if (!tokenizer_config_json.empty())
    LLADA_TRY_STATUS(read_config(tokenizer_config_json, source + ": tokenizer_config.json", spec));
  spec.eot = find_control_token(spec, kEndOfTurnTexts);
  if (spec.mask < 0) spec.mask = find_control_token(spec, kMaskTexts);
  return spec;
}

}  // namespace llada
