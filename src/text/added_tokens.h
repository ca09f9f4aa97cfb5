// Tokens that a folder's other files add to a vocabulary, and the names that they give to tokens. Inside text/ only.
// Source of the rules: transformers' PreTrainedTokenizerBase.from_pretrained.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/tokenizer_spec.h"
#include "json/fields.h"

namespace llada {

struct AddedToken {
  std::string text;
  bool special = false;
  bool last = false;  // "normalized": matched after the others, in the text between them
};

class AddedTokens {
 public:
  explicit AddedTokens(TokenizerSpec& spec) : spec_(spec), last_(spec.matched_last.begin(), spec.matched_last.end()) {}

  // Adds a token. A text that the vocabulary has keeps its id; any other gets `id`, which must be free. Errors name the
  // field `name`.
  Status add(int64_t id, const AddedToken& token, const Fields& fields, std::string_view name);

  // The id of an added token with this text, else of one of the vocabulary; -1: none.
  int32_t find(std::string_view text);

  bool is_added_already(std::string_view text);  // as a control or user-defined token
  int64_t size() const { return std::ssize(spec_.tokens); }
  void make_control(int32_t id) { spec_.kinds[static_cast<size_t>(id)] = TokenKind::control; }

  void finish();  // fills spec.matched_last

 private:
  void index();
  TokenizerSpec& spec_;
  std::set<int32_t> last_;
  std::unordered_map<std::string, int32_t> ids_;  // filled at the first need; of equal texts the added one
  bool indexed_ = false;
};

// An object {content, special, normalized, single_word, lstrip, rstrip} of tokenizer.json or tokenizer_config.json.
// nfc: the tokenizer normalizes texts to NFC, beside which `last` is refused.
Result<AddedToken> read_added_token(const Fields& value, bool nfc);

// tokenizer_config.json's added_tokens_decoder: id to such an object.
Status read_added_tokens_decoder(const Fields& decoder, bool nfc, AddedTokens& out);

// added_tokens.json: text to id. where: the path that errors name. special: the texts that special_tokens_map.json or
// tokenizer_config.json name.
Status read_added_tokens_json(std::string_view json, const std::string& where, bool nfc,
                              const std::set<std::string>& special, AddedTokens& out);

// The text of a member that is a string or an object with content; empty where it is absent or null.
Result<std::string> special_text(const Fields& object, const char* name);

inline constexpr const char* kSpecialLists[] = {"additional_special_tokens", "extra_special_tokens"};

// The texts of a member that lists special tokens; empty where it is absent or null.
Result<std::vector<std::string>> special_list(const Fields& object, const char* name);

// All texts that special_tokens_map.json or tokenizer_config.json calls special.
Result<std::set<std::string>> special_texts(const Fields& object);

}  // namespace llada
