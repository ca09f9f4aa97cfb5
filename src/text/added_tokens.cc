#include "text/added_tokens.h"

#include <charconv>
#include <map>

#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace llada {
namespace {

bool is_added(TokenKind kind) { return kind == TokenKind::control || kind == TokenKind::user_defined; }

Result<std::string> text_of(const Json& value, const std::string& where) {
  const Json* content = find_member(value, "content");
  if (content == nullptr) content = &value;
  if (!content->is_string())
    return invalid("{} is {}, needed a string or an object with content", where, kind_of(value));
  return content->get_ref<const std::string&>();
}

}  // namespace

void AddedTokens::index() {
  if (indexed_) return;
  indexed_ = true;
  for (const bool added : {true, false})
    for (size_t i = 0; i < spec_.tokens.size(); ++i)
      if (spec_.kinds[i] != TokenKind::unused && is_added(spec_.kinds[i]) == added)
        ids_.emplace(spec_.tokens[i], static_cast<int32_t>(i));
}

int32_t AddedTokens::find(std::string_view text) {
  index();
  const auto found = ids_.find(std::string(text));
  return found != ids_.end() ? found->second : -1;
}

bool AddedTokens::is_added_already(std::string_view text) {
  const int32_t id = find(text);
  return id >= 0 && is_added(spec_.kinds[static_cast<size_t>(id)]);
}

Status AddedTokens::add(int64_t id, const AddedToken& token, const std::string& where) {
  const auto is_at = [&](int64_t at) {
    return at < std::ssize(spec_.tokens) && spec_.kinds[static_cast<size_t>(at)] != TokenKind::unused &&
           spec_.tokens[static_cast<size_t>(at)] == token.text;
  };
  if (!is_at(id))
    if (const int32_t known = find(token.text); known >= 0) id = known;
  const auto index = static_cast<size_t>(id);
  if (index >= spec_.tokens.size()) {
    spec_.tokens.resize(index + 1);
    spec_.kinds.resize(index + 1, TokenKind::unused);
  }
  if (spec_.kinds[index] != TokenKind::unused && spec_.tokens[index] != token.text)
    return invalid("{}.id is {}, which is already {}, needed a free id for {}", where, index,
                   in_quotes(spec_.tokens[index]), in_quotes(token.text));
  spec_.tokens[index] = token.text;
  spec_.kinds[index] = token.special ? TokenKind::control : TokenKind::user_defined;
  if (indexed_) ids_.insert_or_assign(token.text, static_cast<int32_t>(id));
  if (token.last) {
    last_.insert(static_cast<int32_t>(id));
  } else {
    last_.erase(static_cast<int32_t>(id));
  }
  return {};
}

void AddedTokens::finish() { spec_.matched_last.assign(last_.begin(), last_.end()); }

Result<AddedToken> read_added_token(const Json& value, bool nfc, const std::string& where) {
  if (!value.is_object()) return invalid("{} is {}, needed an object", where, kind_of(value));
  AddedToken token;
  LLADA_TRY(token.text, string_member(value, "content", "", where));
  if (token.text.empty()) return invalid("{}.content is missing or empty", where);
  LLADA_TRY(token.special, bool_member(value, "special", false, where));
  LLADA_TRY(token.last, bool_member(value, "normalized", !token.special, where));
  if (token.special) return token;
  for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
    LLADA_TRY(const bool set, bool_member(value, flag, false, where));
    if (set) return invalid("{}.{} is true, needed false for a token that is not special", where, flag);
  }
  if (token.last && nfc) return invalid("{}.normalized is true together with the NFC normalizer, needed false", where);
  return token;
}

Status read_added_tokens_decoder(const Json& decoder, const std::string& where, bool nfc, AddedTokens& out) {
  if (!decoder.is_object()) return invalid("{} is {}, needed an object", where, kind_of(decoder));
  // By id: a hole may be large, and the order of a file's keys has no meaning.
  std::map<int64_t, const Json*> entries;
  for (const auto& [key, value] : decoder.items()) {
    int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0)
      return invalid("{} has the key {}, needed a token id", where, in_quotes(key));
    entries.emplace(id, &value);
  }
  const int64_t limit = kMaxHoles + out.size();
  for (const auto& [id, value] : entries) {
    const std::string entry = fmt::format("{}.{}", where, id);
    if (id >= limit) return invalid("{}: the id is too large, needed one below {}", entry, limit);
    LLADA_TRY(const AddedToken token, read_added_token(*value, nfc, entry));
    LLADA_TRY_STATUS(out.add(id, token, entry));
  }
  return {};
}

Status read_added_tokens_json(std::string_view json, const std::string& where, bool nfc,
                              const std::set<std::string>& special, AddedTokens& out) {
  LLADA_TRY(const Json root, parse_json(json, where));
  if (!root.is_object()) return invalid("{} is {}, needed an object", where, kind_of(root));
  const int64_t limit = kMaxHoles + out.size();
  std::map<int64_t, std::string> entries;
  for (const auto& [text, id] : root.items()) {
    const std::string entry = fmt::format("{}[{}]", where, in_quotes(text));
    if (text.empty() || !id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(limit))
      return invalid("{} is {}, needed an id below {}", entry, id.is_number() ? id.dump() : std::string(kind_of(id)),
                     limit);
    const auto [it, fresh] = entries.emplace(id.get<int64_t>(), text);
    if (!fresh) return invalid("{} has the id {}, which {} has too", entry, it->first, in_quotes(it->second));
  }
  for (const auto& [id, text] : entries) {
    if (out.is_added_already(text)) continue;  // tokenizer.json's own entry says more
    const bool is_special = special.contains(text);
    LLADA_TRY_STATUS(out.add(id, {.text = text, .special = is_special, .last = !is_special && !nfc},
                             fmt::format("{}[{}]", where, in_quotes(text))));
  }
  return {};
}

Result<std::string> special_text(const Json& object, const char* name, const std::string& where) {
  const Json* value = find_member(object, name);
  if (value == nullptr || value->is_null()) return std::string();
  return text_of(*value, fmt::format("{}.{}", where, name));
}

Result<std::vector<std::string>> special_list(const Json& object, const char* name, const std::string& where) {
  std::vector<std::string> texts;
  const Json* list = find_member(object, name);
  if (list == nullptr || list->is_null()) return texts;
  if (!list->is_array() && !list->is_object())
    return invalid("{}.{} is {}, needed a list", where, name, kind_of(*list));
  for (const Json& value : *list) {
    LLADA_TRY(std::string text, text_of(value, fmt::format("{}.{}", where, name)));
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<std::set<std::string>> special_texts(const Json& object, const std::string& where) {
  std::set<std::string> texts;
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    LLADA_TRY(std::string text, special_text(object, name, where));
    if (!text.empty()) texts.insert(std::move(text));
  }
  for (const char* name : kSpecialLists) {
    LLADA_TRY(auto further, special_list(object, name, where));
    texts.insert(further.begin(), further.end());
  }
  return texts;
}

}  // namespace llada
