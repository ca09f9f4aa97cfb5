#include "text/tokenizer_tables.h"

#include <algorithm>
#include <limits>

#include "base/pretokenizer_regexes.h"
#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace llada {
namespace {

constexpr size_t kMaxVocabulary = size_t{1} << 26;
constexpr size_t kMaxUserDefined = 1024;  // bytes in one user-defined token: bounds the search at each place of a text

bool is_alphabet_kind(TokenKind kind) { return kind == TokenKind::normal; }

// Text of byte tokens as sentencepiece writes them, <0x0A>; such tokens are decoded but never produced.
std::optional<char> byte_of_name(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<char>(static_cast<uint8_t>(value));
}

Status check_sizes(const TokenizerSpec& spec, const std::string& source) {
  if (spec.tokens.empty()) return invalid("{}: the tokenizer has no tokens", source);
  if (spec.tokens.size() > kMaxVocabulary)
    return invalid("{}: the tokenizer has {} tokens, needed at most {}", source, spec.tokens.size(), kMaxVocabulary);
  if (spec.kinds.size() != spec.tokens.size())
    return invalid("{}: the tokenizer has {} token types for {} tokens", source, spec.kinds.size(), spec.tokens.size());
  if (spec.merges.size() > std::numeric_limits<int32_t>::max())
    return invalid("{}: the tokenizer has {} merges", source, spec.merges.size());
  for (size_t id = 0; id < spec.kinds.size(); ++id) {
    const auto kind = static_cast<int32_t>(spec.kinds[id]);
    if (kind < 1 || kind > 6) return invalid("{}: token {} has type {}, needed 1 to 6", source, id, kind);
  }
  return {};
}

Status make_specials_control(TokenizerSpec& spec, const std::string& source) {
  const std::pair<std::string_view, int32_t> specials[] = {
      {"bos", spec.bos}, {"eos", spec.eos}, {"pad", spec.pad}, {"eot", spec.eot}, {"mask", spec.mask}};
  for (const auto& [name, id] : specials) {
    if (id == -1) continue;
    if (id < 0 || static_cast<size_t>(id) >= spec.tokens.size())
      return invalid("{}: the {} token is {}, needed an id below {}", source, name, id, spec.tokens.size());
    spec.kinds[id] = TokenKind::control;
  }
  return {};
}

std::unexpected<Error> unknown_pre_tokenizer(std::string_view name, const std::string& source) {
  std::string names;
  for (const PreTokenizerRules& row : pre_tokenizers())
    names += fmt::format("{}{}", names.empty() ? "" : " ", row.names);
  return invalid("{}: tokenizer.ggml.pre is {}, needed one of: {}", source, in_quotes(name), names);
}

void append_with_spaces(std::string& out, std::string_view text) {
  constexpr std::string_view kMark = "\u2581";
  for (size_t at = 0; at < text.size();) {
    const size_t mark = std::min(text.find(kMark, at), text.size());
    out += text.substr(at, mark - at);
    if (mark < text.size()) out += ' ';
    at = mark + kMark.size();
  }
}

void make_pieces(TokenizerTables& tables) {
  const TokenizerSpec& spec = tables.spec;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    tables.begin.push_back(tables.bytes.size());
    const std::string& text = spec.tokens[id];
    if (spec.kinds[id] == TokenKind::unused) continue;
    if (const auto byte = byte_of_name(text); byte && spec.kinds[id] == TokenKind::byte) {
      tables.bytes += *byte;
    } else if (spec.characters && !is_control_kind(spec.kinds[id])) {
      append_with_spaces(tables.bytes, text);
    } else if (const auto raw = from_byte_alphabet(text); raw && is_alphabet_kind(spec.kinds[id])) {
      tables.bytes += *raw;
    } else {
      tables.bytes += text;
    }
  }
  tables.begin.push_back(tables.bytes.size());
}

using TokenIndex = std::unordered_map<std::string_view, int32_t>;

// Vocabularies that were learned from text lack tokens of bytes that it did not have: control characters, and those
// that are no part of UTF-8. Without the printable ones of ASCII it is no alphabet of bytes.
Status index_bytes(const std::string& source, const TokenIndex& normal, TokenizerTables& tables) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(text, byte_to_char(static_cast<uint8_t>(byte)));
    const auto it = normal.find(text);
    if (it == normal.end() && byte >= ' ' && byte <= '~')
      return invalid("{}: no normal token for byte 0x{:02X} ({}), needed one for each printable character of ASCII",
                     source, byte, in_quotes(text));
    tables.byte_token[byte] = it != normal.end() ? it->second : -1;
  }
  return {};
}

Status index_byte_tokens(const std::string& source, TokenizerTables& tables) {
  tables.byte_token.fill(-1);
  for (size_t id = 0; id < tables.spec.tokens.size(); ++id)
    if (tables.spec.kinds[id] == TokenKind::byte)
      if (const auto byte = byte_of_name(tables.spec.tokens[id]))
        tables.byte_token[static_cast<uint8_t>(*byte)] = static_cast<int32_t>(id);
  const auto missing = std::ranges::find(tables.byte_token, -1);
  if (missing == tables.byte_token.end()) return {};
  return invalid("{}: no byte token <0x{:02X}>, needed one for each of the 256 bytes", source,
                 missing - tables.byte_token.begin());
}

Status index_tokens(const std::string& source, TokenizerTables& tables, TokenIndex& normal) {
  const TokenizerSpec& spec = tables.spec;
  std::vector<LiteralMatcher::Literal> literals, last_literals;
  TokenIndex whole;
  normal.reserve(spec.tokens.size());
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const std::string& text = spec.tokens[i];
    if (text.empty()) continue;
    const TokenKind kind = spec.kinds[i];
    if (kind == TokenKind::normal) {
      if (const auto [it, fresh] = normal.emplace(text, id); !fresh)
        return invalid("{}: tokens {} and {} are both {}", source, it->second, id, in_quotes(text));
    } else if (kind != TokenKind::unused && kind != TokenKind::byte) {
      if (const auto [it, fresh] = whole.emplace(text, id); !fresh)
        return invalid("{}: tokens {} and {} are both {}", source, it->second, id, in_quotes(text));
      const bool control = kind != TokenKind::user_defined;
      if (control) tables.controls.emplace(text, id);
      if (text.size() > kMaxUserDefined) {
        if (control) continue;
        return invalid("{}: the user-defined token {} has {} bytes, needed at most {}", source, id, text.size(),
                       kMaxUserDefined);
      }
      tables.user_defined = tables.user_defined || !control;
      const bool last = std::ranges::binary_search(spec.matched_last, id);
      (last ? last_literals : literals).emplace_back(text, id);
    }
  }
  tables.literals = LiteralMatcher(std::move(literals));
  tables.last_literals = LiteralMatcher(std::move(last_literals));
  LLADA_TRY_STATUS(spec.characters ? index_byte_tokens(source, tables) : index_bytes(source, normal, tables));
  // A user-defined token may be in the merges too; its text is then also its place in the byte alphabet.
  for (const auto& [text, id] : whole)
    if (spec.kinds[id] == TokenKind::user_defined) normal.emplace(text, id);
  if (!spec.characters) return {};
  for (const auto& [text, id] : normal)
    if (const Utf8Unit unit = utf8_unit(text); unit.valid && static_cast<size_t>(unit.length) == text.size())
      tables.characters.emplace(unit.code_point, id);
  return {};
}

Status read_merges(const std::string& source, const TokenIndex& normal, TokenizerTables& tables) {
  const TokenizerSpec& spec = tables.spec;
  std::vector<MergeRule> rules;
  rules.reserve(spec.merges.size());
  std::string result;
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const std::string_view merge = spec.merges[rank];
    const size_t space = merge.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == merge.size() ||
        merge.find(' ', space + 1) != std::string_view::npos)
      return invalid("{}: merge {} is {}, needed two tokens and one space", source, rank, in_quotes(merge));
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    result.assign(left).append(right);
    int32_t ids[3];
    const std::string_view parts[3] = {left, right, result};
    for (int i = 0; i < 3; ++i) {
      const auto it = normal.find(parts[i]);
      if (it == normal.end())
        return invalid("{}: merge {} ({}) needs the token {}, which is not a normal token of the vocabulary", source,
                       rank, in_quotes(merge), in_quotes(parts[i]));
      ids[i] = it->second;
    }
    rules.push_back({ids[0], ids[1], ids[2], static_cast<uint32_t>(rank)});
  }
  tables.merges = MergeTable(std::move(rules), static_cast<int32_t>(spec.tokens.size()));
  if (const MergeRule* twice = tables.merges.first_duplicate())
    return invalid("{}: merge {} ({}) is there twice", source, twice->rank, in_quotes(spec.merges[twice->rank]));
  return {};
}

}  // namespace

LiteralMatcher::LiteralMatcher(std::vector<Literal> literals) : literals_(std::move(literals)) {
  std::sort(literals_.begin(), literals_.end());
  for (const Literal& literal : literals_) first_bytes_.set(static_cast<uint8_t>(literal.first[0]));
}

LiteralMatcher::Match LiteralMatcher::find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!first_bytes_[static_cast<uint8_t>(text[begin])]) continue;
    Match match;
    auto low = literals_.begin(), high = literals_.end();  // those that agree with the text so far
    for (size_t depth = 0; low != high && begin + depth < text.size(); ++depth) {
      const char byte = text[begin + depth];
      const auto less = [depth](const Literal& literal, char wanted) {
        return literal.first.size() <= depth ||
               static_cast<uint8_t>(literal.first[depth]) < static_cast<uint8_t>(wanted);
      };
      const auto greater = [depth](char wanted, const Literal& literal) {
        return literal.first.size() > depth &&
               static_cast<uint8_t>(wanted) < static_cast<uint8_t>(literal.first[depth]);
      };
      low = std::lower_bound(low, high, byte, less);
      high = std::upper_bound(low, high, byte, greater);
      // Sorted order puts the literal that ends here before those that go on.
      if (low != high && low->first.size() == depth + 1) match = {begin, depth + 1, low->second};
    }
    if (match.length > 0) return match;
  }
  return {};
}

Status build_tables(TokenizerSpec spec, const std::string& source, TokenizerTables& tables) {
  LLADA_TRY_STATUS(check_sizes(spec, source));
  LLADA_TRY_STATUS(make_specials_control(spec, source));
  std::vector<std::string> regexes = spec.regexes;
  if (regexes.empty()) {
    const PreTokenizerRules* rules = find_pre_tokenizer(spec.pre);
    if (rules == nullptr) return unknown_pre_tokenizer(spec.pre, source);
    regexes.assign(rules->regexes.begin(), rules->regexes.end());
    spec.ignore_merges = spec.ignore_merges || rules->flags.ignore_merges;
  }
  auto pre_tokenizer = PreTokenizer::create(regexes);
  if (!pre_tokenizer) {
    pre_tokenizer.error().message.insert(0, source + ": ");
    return std::unexpected(std::move(pre_tokenizer).error());
  }
  tables.pre_tokenizer = std::move(*pre_tokenizer);
  tables.spec = std::move(spec);
  make_pieces(tables);
  TokenIndex normal;
  LLADA_TRY_STATUS(index_tokens(source, tables, normal));
  LLADA_TRY_STATUS(read_merges(source, normal, tables));
  const bool all = tables.spec.ignore_merges;
  for (size_t id = 0; id < tables.spec.tokens.size() && (all || tables.spec.characters); ++id) {
    const std::string_view piece = tables.piece(static_cast<int32_t>(id));
    if (tables.spec.kinds[id] == TokenKind::normal && (all || piece.find_first_not_of('\n') == std::string_view::npos))
      tables.words.emplace(piece, id);
  }
  return {};
}

}  // namespace llada
