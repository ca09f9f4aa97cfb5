#include "forms/vocabulary.h"

#include <algorithm>
#include <utility>

#include "text/call_syntax.h"
#include "text/tokenizer.h"
#include "text/tokenizer_tables.h"

namespace llada::forms {
namespace {

constexpr size_t kLongest = 1024;  // bytes of a token that takes part

// The first eight bytes as a number that orders as they do.
uint64_t head_of(std::string_view piece) {
  uint64_t head = 0;
  for (size_t i = 0; i < 8; ++i) head = head << 8 | (i < piece.size() ? static_cast<uint8_t>(piece[i]) : 0);
  return head;
}

}  // namespace

Vocabulary::Vocabulary(std::span<const std::string_view> pieces, Encode encode)
    : size_(static_cast<int32_t>(pieces.size())), encode_(std::move(encode)) {
  struct Entry {
    uint64_t head;
    int32_t id;
  };
  std::vector<Entry> order;
  order.reserve(pieces.size());
  for (size_t id = 0; id < pieces.size(); ++id)
    if (!pieces[id].empty() && pieces[id].size() <= kLongest)
      order.push_back({head_of(pieces[id]), static_cast<int32_t>(id)});
  std::ranges::sort(order, [&](const Entry& a, const Entry& b) {
    if (a.head != b.head) return a.head < b.head;
    const int compared = pieces[static_cast<size_t>(a.id)].compare(pieces[static_cast<size_t>(b.id)]);
    return compared != 0 ? compared < 0 : a.id < b.id;
  });
  std::vector<int32_t> open;  // nodes on the way to the last piece
  std::string_view before;
  tokens_.reserve(order.size());
  for (const Entry& entry : order) {
    const std::string_view piece = pieces[static_cast<size_t>(entry.id)];
    const auto shared = static_cast<size_t>(std::ranges::mismatch(piece, before).in1 - piece.begin());
    for (; open.size() > shared; open.pop_back())
      nodes_[static_cast<size_t>(open.back())].end = static_cast<int32_t>(nodes_.size());
    for (size_t i = shared; i < piece.size(); ++i) {
      open.push_back(static_cast<int32_t>(nodes_.size()));
      nodes_.push_back({.end = 0,
                        .tokens = static_cast<int32_t>(tokens_.size()),
                        .depth = static_cast<uint16_t>(i + 1),
                        .byte = static_cast<uint8_t>(piece[i])});
    }
    tokens_.push_back(entry.id);
    longest_ = std::max(longest_, piece.size());
    before = piece;
  }
  for (const int32_t node : open) nodes_[static_cast<size_t>(node)].end = static_cast<int32_t>(nodes_.size());
  nodes_.push_back({.end = 0, .tokens = static_cast<int32_t>(tokens_.size()), .depth = 0, .byte = 0});
}

namespace {

// The ids of a text in which bytes stand for control tokens.
std::vector<int32_t> encode_marked(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  for (size_t begin = 0, at = 0; at <= text.size(); ++at) {
    const auto* mark = std::end(kGemmaMarks);
    if (at < text.size()) mark = std::ranges::find(kGemmaMarks, text[at], &std::pair<char, std::string_view>::first);
    if (at < text.size() && mark == std::end(kGemmaMarks)) continue;
    const std::vector<int32_t> between = tokenizer.encode(text.substr(begin, at - begin));
    ids.insert(ids.end(), between.begin(), between.end());
    if (at < text.size()) ids.push_back(tokenizer.find_control(mark->second).value_or(-1));
    begin = at + 1;
  }
  return ids;
}

}  // namespace

std::shared_ptr<const Vocabulary> Vocabulary::of(const Tokenizer& tokenizer, std::span<const int32_t> but) {
  std::vector<std::string_view> pieces(static_cast<size_t>(tokenizer.vocab_size()));
  for (size_t id = 0; id < pieces.size(); ++id) {
    const TokenKind kind = tokenizer.spec().kinds[id];
    if (!is_control_kind(kind) && kind != TokenKind::unused) pieces[id] = tokenizer.piece(static_cast<int32_t>(id));
  }
  for (const int32_t id : but)
    if (id >= 0 && static_cast<size_t>(id) < pieces.size()) pieces[static_cast<size_t>(id)] = {};
  for (const auto& [byte, name] : kGemmaMarks) {
    const auto id = tokenizer.find_control(name);
    if (!id) continue;
    // A token that has the byte itself, as the tokens of single bytes, must not pass for the mark.
    for (std::string_view& piece : pieces)
      if (piece.contains(byte)) piece = {};
    pieces[static_cast<size_t>(*id)] = {&byte, 1};
  }
  return std::make_shared<const Vocabulary>(
      pieces, [tokenizer](std::string_view text) { return encode_marked(tokenizer, text); });
}

size_t Vocabulary::length_in(std::string_view text, int32_t token) const {
  int32_t node = 0, end = static_cast<int32_t>(nodes_.size()) - 1;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    while (node < end && nodes_[static_cast<size_t>(node)].byte < byte) node = nodes_[static_cast<size_t>(node)].end;
    if (node >= end || nodes_[static_cast<size_t>(node)].byte != byte) return 0;
    if (std::ranges::find(tokens_at(node), token) != tokens_at(node).end()) return i + 1;
    end = nodes_[static_cast<size_t>(node)].end;
    ++node;
  }
  return 0;
}

int64_t Vocabulary::bytes() const {
  return static_cast<int64_t>(nodes_.capacity() * sizeof(Node) + tokens_.capacity() * sizeof(int32_t));
}

}  // namespace llada::forms
