#include "engine/infill_text.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "base/numbers.h"
#include "text/utf8.h"

namespace llada {

Result<std::vector<InfillPiece>> parse_infill_template(std::string_view text) {
  constexpr std::string_view kOne = "<mask>", kMany = "<mask:", kAuto = "auto", kMost = "auto:";
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
    // Every second of the backslashes in front stands for the one before it.
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
      std::string_view digits =
          rest.substr(kMany.size(), close == std::string_view::npos ? close : close - kMany.size());
      bool right = close != std::string_view::npos;
      if (digits == kAuto) {
        gap.automatic = true;
        gap.gap = kAutoGap;
      } else {
        gap.automatic = digits.starts_with(kMost);
        if (gap.automatic) digits.remove_prefix(kMost.size());
        gap.gap = parse_number<decltype(gap.gap)>(digits).value_or(0);
        right = right && gap.gap >= 1 && gap.gap <= kMaxGap;
      }
      if (!right)
        return invalid("the gap {} of the text: needed <mask:N>, <mask:auto> or <mask:auto:N> with N from 1 to {}",
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

namespace {

// Gaps that are automatic, the last ones first, down to one token each, until the text fits the context.
void shorten(InfillLayout& layout, int64_t context) {
  int64_t over = context > 0 ? std::ssize(layout.tokens) - context : 0;
  const std::vector<InfillGap> open = layout.automatic();
  std::vector<int64_t> lengths;
  for (const InfillGap& gap : open) lengths.push_back(gap.length);
  for (size_t i = lengths.size(); i-- > 0 && over > 0;) {
    const int64_t less = std::min(over, lengths[i] - 1);
    lengths[i] -= less, over -= less;
  }
  std::vector<int32_t> tokens;
  for (const int32_t position : kept_positions(layout.tokens.size(), open, lengths))
    tokens.push_back(layout.tokens[static_cast<size_t>(position)]);
  layout.tokens = std::move(tokens);
  layout.gaps = laid_gaps(std::move(layout.gaps), lengths);
}

}  // namespace

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
    layout.gaps.push_back({std::ssize(layout.tokens), piece.gap, piece.automatic});
    layout.tokens.resize(layout.tokens.size() + static_cast<size_t>(piece.gap), model.special_ids().mask);
  }
  add_text();
  shorten(layout, model.context());
  for (const InfillGap& gap : layout.gaps) {
    layout.positions.resize(layout.positions.size() + static_cast<size_t>(gap.length));
    std::iota(layout.positions.end() - gap.length, layout.positions.end(), static_cast<int32_t>(gap.position));
  }
  return layout;
}

std::vector<InfillGap> InfillLayout::automatic() const {
  std::vector<InfillGap> found;
  std::ranges::copy_if(gaps, std::back_inserter(found), &InfillGap::automatic);
  return found;
}

}  // namespace llada
