#include "engine/infill_text.h"

#include <charconv>
#include <numeric>
#include <string>
#include <utility>

#include "text/utf8.h"

namespace llada {

Result<std::vector<InfillPiece>> parse_infill_template(std::string_view text) {
  constexpr std::string_view kOne = "<mask>", kMany = "<mask:";
  std::vector<InfillPiece> pieces;
  bool has_gap = false;
  size_t literal = 0;  // where the text that is not yet in a piece begins
  const auto flush = [&](size_t end) {
    if (end > literal) pieces.push_back({.text = text.substr(literal, end - literal), .gap = 0});
  };
  for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at)) {
    const std::string_view rest = text.substr(at);
    if (!rest.starts_with(kOne) && !rest.starts_with(kMany)) {
      ++at;
      continue;
    }
    // Of the backslashes in front every second one stands for the one before it.
    size_t marks = 0;
    while (at - marks > literal && text[at - marks - 1] == '\\') ++marks;
    if (marks > 0) {
      flush(at - (marks + 1) / 2);
      literal = at;
    }
    if (marks % 2 == 1) {
      ++at;
      continue;
    }
    InfillPiece gap;
    size_t length = kOne.size();
    if (rest.starts_with(kOne)) {
      gap.gap = 1;
    } else {
      const size_t close = rest.find('>');
      const std::string_view digits =
          rest.substr(kMany.size(), close == std::string_view::npos ? close : close - kMany.size());
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), gap.gap);
      if (error != std::errc() || end != digits.data() + digits.size() || gap.gap < 1 || gap.gap > kMaxGap ||
          close == std::string_view::npos)
        return invalid("the gap {} of the text: needed <mask:N> with N from 1 to {}",
                       in_quotes(rest.substr(0, close == std::string_view::npos ? close : close + 1)), kMaxGap);
      length = close + 1;
    }
    flush(at);
    pieces.push_back(gap);
    has_gap = true;
    at += length;
    literal = at;
  }
  flush(text.size());
  if (!has_gap) return invalid("the text has no gap: needed at least one <mask> or <mask:N>");
  return pieces;
}

Result<InfillLayout> lay_out_infill(const Model& model, std::span<const InfillPiece> pieces) {
  InfillLayout layout;
  LLADA_TRY(layout.tokens, model.prompt_ids(""));  // BOS where the model wants one
  std::string text;
  const auto add_text = [&] {
    const auto ids = model.tokenizer().encode(std::exchange(text, {}));
    layout.tokens.insert(layout.tokens.end(), ids.begin(), ids.end());
  };
  for (const InfillPiece& piece : pieces) {
    if (piece.gap == 0) {
      text += piece.text;
      continue;
    }
    add_text();
    const size_t begin = layout.tokens.size();
    layout.tokens.resize(begin + static_cast<size_t>(piece.gap), model.special_ids().mask);
    layout.gaps.push_back({static_cast<int64_t>(begin), piece.gap});
    layout.positions.resize(layout.positions.size() + static_cast<size_t>(piece.gap));
    std::iota(layout.positions.end() - piece.gap, layout.positions.end(), static_cast<int32_t>(begin));
  }
  add_text();
  return layout;
}

}  // namespace llada
