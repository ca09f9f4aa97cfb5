#include "text/tokenizer.h"

#include "text/nfc.h"
#include "text/tokenizer_tables.h"
#include "text/utf8.h"

namespace llada {

struct Tokenizer::Tables : TokenizerTables {};

namespace {

// One call of encode(): the memory it needs and the ids so far.
class Encoder {
 public:
  Encoder(const TokenizerTables& tables, ControlText controls)
      : tables_(tables), takes_controls_(controls == ControlText::token), scratch_(tables.pre_tokenizer) {}

  std::vector<int32_t> run(std::string_view text) {
    if (!takes_controls_ && !tables_.user_defined) {
      plain(text);
      return std::move(ids_);
    }
    cut_out(tables_.literals, text, [this](std::string_view part) {
      cut_out(tables_.last_literals, part, [this](std::string_view rest) { plain(rest); });
    });
    return std::move(ids_);
  }

 private:
  // Takes the tokens of `literals` out of a text; between(part) for each stretch without them.
  template <class Between>
  void cut_out(const LiteralMatcher& literals, std::string_view text, Between between) {
    size_t begin = 0, at = 0;
    while (!literals.empty()) {
      const auto match = literals.find(text, at);
      if (match.length == 0) break;
      at = match.begin + match.length;
      if (!takes_controls_ && is_control_kind(tables_.spec.kinds[match.value])) continue;
      between(text.substr(begin, match.begin - begin));
      ids_.push_back(match.value);
      begin = at;
    }
    between(text.substr(begin));
  }

  // Text without such tokens: valid stretches, and invalid bytes one by one.
  void plain(std::string_view text) {
    size_t begin = 0, at = 0;
    while (at < text.size()) {
      const Utf8Unit unit = utf8_unit(text.substr(at));
      if (!unit.valid) {
        valid(text.substr(begin, at - begin));
        for (int i = 0; i < unit.length; ++i) add_byte(text[at + i], ids_);
        begin = at + unit.length;
      }
      at += unit.length;
    }
    valid(text.substr(begin));
  }

  void valid(std::string_view text) {
    if (text.empty()) return;
    if (tables_.spec.nfc) text = to_nfc(text, normalised_);
    for (const std::string_view piece : tables_.pre_tokenizer.split(text, scratch_)) pre_token(piece);
  }

  void pre_token(std::string_view piece) {
    if (!tables_.words.empty()) {
      if (const auto it = tables_.words.find(piece); it != tables_.words.end()) {
        ids_.push_back(it->second);
        return;
      }
    }
    while (!piece.empty()) {  // a gigabyte at a time, so that positions fit the merger's integers
      word_.clear();
      piece.remove_prefix(tables_.spec.characters ? take_characters(piece) : take_bytes(piece));
      merger_.merge(tables_.merges, word_, ids_);
    }
  }

  // A byte without a token is left out, so that its neighbours may merge: the published library does that.
  void add_byte(char byte, std::vector<int32_t>& ids) const {
    if (const int32_t id = tables_.byte_token[static_cast<uint8_t>(byte)]; id >= 0) ids.push_back(id);
  }

  // Both fill word_, and give the bytes that it stands for.
  size_t take_bytes(std::string_view piece) {
    const std::string_view part = piece.substr(0, kMaxWord);
    for (const char byte : part) add_byte(byte, word_);
    return part.size();
  }

  size_t take_characters(std::string_view piece) {
    size_t at = 0;
    while (at < piece.size() && std::ssize(word_) + 4 <= kMaxWord) {
      const Utf8Unit unit = utf8_unit(piece.substr(at));
      const auto found = tables_.characters.find(unit.code_point == ' ' ? kSpaceMark : unit.code_point);
      if (found != tables_.characters.end()) {
        word_.push_back(found->second);
      } else {
        for (int i = 0; i < unit.length; ++i) add_byte(piece[at + static_cast<size_t>(i)], word_);
      }
      at += static_cast<size_t>(unit.length);
    }
    return at;
  }

  const TokenizerTables& tables_;
  bool takes_controls_;
  PreTokenizer::Scratch scratch_;
  BpeMerger merger_;
  std::vector<int32_t> word_, ids_;
  std::string normalised_;
};

}  // namespace

Result<Tokenizer> Tokenizer::create(TokenizerSpec spec, const std::string& source) {
  auto tables = std::make_shared<Tables>();
  LLADA_TRY_STATUS(build_tables(std::move(spec), source, *tables));
  return Tokenizer(std::move(tables));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, ControlText controls) const {
  return Encoder(*tables_, controls).run(text);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool show_special) const {
  std::string text;
  for (const int32_t id : ids)
    if (show_special || !is_control(id)) text += piece(id);
  return text;
}

std::string_view Tokenizer::piece(int32_t id) const {
  return id >= 0 && id < vocab_size() ? tables_->piece(id) : std::string_view();
}

bool Tokenizer::is_control(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return false;
  return is_control_kind(tables_->spec.kinds[id]);
}

std::optional<int32_t> Tokenizer::find_control(std::string_view text) const {
  const auto it = tables_->controls.find(text);
  return it != tables_->controls.end() ? std::optional(it->second) : std::nullopt;
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(tables_->spec.tokens.size()); }

const TokenizerSpec& Tokenizer::spec() const { return tables_->spec; }

}  // namespace llada
