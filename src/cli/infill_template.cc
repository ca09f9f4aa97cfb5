#include "cli/infill_template.h"

#include "cli/options.h"
#include "text/utf8.h"

namespace llada::cli {

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
    InfillPiece gap;
    size_t length = kOne.size();
    if (rest.starts_with(kOne)) {
      gap.gap = 1;
    } else if (rest.starts_with(kMany)) {
      const size_t close = rest.find('>');
      const std::string_view digits =
          rest.substr(kMany.size(), close == std::string_view::npos ? close : close - kMany.size());
      const auto value = parse_integer(digits, 1, kMaxGap);
      if (!value || close == std::string_view::npos)
        return invalid("the gap {} of the text: needed <mask:N> with N from 1 to {}",
                       in_quotes(rest.substr(0, close == std::string_view::npos ? close : close + 1)), kMaxGap);
      gap.gap = *value;
      length = close + 1;
    } else {
      ++at;
      continue;
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

}  // namespace llada::cli
