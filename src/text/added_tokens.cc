#include "text/added_tokens.h"

#include <map>

#include "base/numbers.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace llada {
namespace {

bool is_added(TokenKind kind) { return kind == TokenKind::control || kind == TokenKind::user_defined; }

Result<std::string> text_of(const Fields& object, const char* name, const Json& value) {
  const Json& content = value.is_object() && value.contains("content") ? value["content"] : value;
  if (!content.is_string()) return object.wrong(name, value, "a string or an object with content");
  return content.get_ref<const std::string&>();
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

Status AddedTokens::add(int64_t id, const AddedToken& token, const Fields& fields, std::string_view name) {
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
    return fields.fault(name, fmt::format("found the id {}, which is already {}, needed a free id for {}", index,
                                          in_quotes(spec_.tokens[index]), in_quotes(token.text)));
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

Result<AddedToken> read_added_token(const Fields& value, bool nfc) {
  AddedToken token;
  LLADA_TRY(token.text, value.text("content"));
  if (token.text.empty()) return value.wrong("content", "", "a string that is not empty");
  LLADA_TRY(token.special, value.boolean("special", false));
  LLADA_TRY(token.last, value.boolean("normalized", !token.special));
  if (token.special) return token;
  for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
    LLADA_TRY(const bool set, value.boolean(flag, false));
    if (set) return value.wrong(flag, set, "false for a token that is not special");
  }
  if (token.last && nfc) return value.wrong("normalized", true, "false together with the NFC normalizer");
  return token;
}

Status read_added_tokens_decoder(const Fields& decoder, bool nfc, AddedTokens& out) {
  // By id: a hole may be large, and the order of a file's keys has no meaning.
  std::map<int64_t, const Json*> entries;
  for (const auto& [key, value] : decoder.all().items()) {
    const int64_t id = parse_number<int64_t>(key).value_or(-1);
    if (id < 0) return decoder.fault("", fmt::format("found the key {}, needed a token id", in_quotes(key)));
    entries.emplace(id, &value);
  }
  const int64_t limit = kMaxHoles + out.size();
  for (const auto& [id, value] : entries) {
    const std::string path = decoder.path(std::to_string(id));
    LLADA_TRY(const Fields entry, Fields::of(*value, decoder.source(), path));
    if (id >= limit) return entry.fault("", fmt::format("found this id, needed one below {}", limit));
    LLADA_TRY(const AddedToken token, read_added_token(entry, nfc));
    LLADA_TRY_STATUS(out.add(id, token, decoder, std::to_string(id)));
  }
  return {};
}

Status read_added_tokens_json(std::string_view json, const std::string& where, bool nfc,
                              const std::set<std::string>& special, AddedTokens& out) {
  LLADA_TRY(const Fields root, Fields::parse(json, where, kTokenizerJson));
  const int64_t limit = kMaxHoles + out.size();
  std::map<int64_t, std::string> entries;
  for (const auto& [text, id] : root.all().items()) {
    const auto number = whole_number(id);
    if (text.empty() || !number || *number < 0 || *number >= limit)
      return root.wrong(in_quotes(text), id, fmt::format("an id below {}", limit));
    const auto [it, fresh] = entries.emplace(*number, text);
    if (!fresh) return root.wrong(in_quotes(text), id, fmt::format("another one than {} has", in_quotes(it->second)));
  }
  for (const auto& [id, text] : entries) {
    if (out.is_added_already(text)) continue;  // tokenizer.json's own entry says more
    const bool is_special = special.contains(text);
    LLADA_TRY_STATUS(
        out.add(id, {.text = text, .special = is_special, .last = !is_special && !nfc}, root, in_quotes(text)));
  }
  return {};
}

Result<std::string> special_text(const Fields& object, const char* name) {
  const Json* value = object.find(name);
  if (value == nullptr) return std::string();
  return text_of(object, name, *value);
}

Result<std::vector<std::string>> special_list(const Fields& object, const char* name) {
  std::vector<std::string> texts;
  const Json* list = object.find(name);
  if (list == nullptr) return texts;
  if (!list->is_structured()) return object.wrong(name, *list, "a list");
  for (const Json& value : *list) {
    LLADA_TRY(std::string text, text_of(object, name, value));
    texts.push_back(std::move(text));
  }
  return texts;
}

Result<std::set<std::string>> special_texts(const Fields& object) {
  std::set<std::string> texts;
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    LLADA_TRY(std::string text, special_text(object, name));
    if (!text.empty()) texts.insert(std::move(text));
  }
  for (const char* name : kSpecialLists) {
    LLADA_TRY(auto further, special_list(object, name));
    texts.insert(further.begin(), further.end());
  }
  return texts;
}

}  // namespace llada
