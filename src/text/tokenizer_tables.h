// The tables that Tokenizer::create derives from a TokenizerSpec, checked. Inside text/ only.
#pragma once
#include <array>
#include <bitset>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/tokenizer_spec.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"

namespace llada {

// Finds fixed strings in text: at each place the longest one, going left to right (leftmost-longest). A sorted list,
// narrowed byte by byte; the cost is bounded by text length times the longest string.
class LiteralMatcher {
 public:
  using Literal = std::pair<std::string_view, int32_t>;  // the string, and the value that a match returns

  struct Match {
    size_t begin = 0, length = 0;  // length 0: none
    int32_t value = -1;
  };

  LiteralMatcher() = default;

  // Strings are not empty, not repeated, and outlive the matcher.
  explicit LiteralMatcher(std::vector<Literal> literals);

  // The first match that begins at or after `from`.
  Match find(std::string_view text, size_t from) const;

  bool empty() const { return literals_.empty(); }

 private:
  std::vector<Literal> literals_;
  std::bitset<256> first_bytes_;
};

struct TokenizerTables {
  TokenizerSpec spec;
  std::string bytes;                                    // all pieces, one after the other
  std::vector<size_t> begin;                            // piece of id: bytes[begin[id], begin[id + 1])
  std::array<int32_t, 256> byte_token{};                // the token of each single byte; -1: none
  std::unordered_map<char32_t, int32_t> characters;     // with spec.characters: those that have a token
  std::unordered_map<std::string_view, int32_t> words;  // piece -> id of the whole pre-tokens that skip the merges
  std::map<std::string_view, int32_t> controls;         // text -> id
  MergeTable merges;
  PreTokenizer pre_tokenizer;
  // Texts of the control and user-defined tokens: those that are looked for first, and those that are looked for in the
  // text between the first ones. Where a control token's text stays text, no user-defined token is found inside it.
  LiteralMatcher literals, last_literals;
  bool user_defined = false;  // there is a user-defined token

  std::string_view piece(int32_t id) const {
    return std::string_view(bytes).substr(begin[id], begin[id + 1] - begin[id]);
  }
};

inline bool is_control_kind(TokenKind kind) { return kind == TokenKind::control || kind == TokenKind::unknown; }

inline constexpr char32_t kSpaceMark = 0x2581;  // stands for a space in tokens of characters

// Fills `tables`, which stays where it is: its members point into each other.
Status build_tables(TokenizerSpec spec, const std::string& source, TokenizerTables& tables);

}  // namespace llada
