#include "cli/lanes_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace llada::cli {
namespace {

constexpr double kWidth = 960, kLeft = 60, kTop = 54, kRow = 34, kGap = 12;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

// Kinds share a colour: matrix products, attention, the head, transfers, everything else.
const char* colour(const SimulatedSpan& span) {
  if (span.lane == "map" || span.lane == "dma") return "#d97706";
  if (span.name.starts_with("head")) return "#7c3aed";
  if (span.name.starts_with("matmul")) return "#2563eb";
  if (span.name.starts_with("attention")) return "#0d9488";
  return "#94a3b8";
}

}  // namespace

std::string lanes_svg(std::span<const SimulatedSpan> spans, const std::string& title) {
  std::vector<std::string> lanes;
  double end = 0;
  for (const char* lane : {"npu", "accelerator", "cpu", "map", "dma"})
    if (std::ranges::count(spans, lane, &SimulatedSpan::lane) > 0) lanes.emplace_back(lane);
  for (const SimulatedSpan& span : spans) end = std::max(end, span.end_s);
  if (end <= 0) end = 1;
  const double scale = (kWidth - kLeft - 16) / end;
  const double height = kTop + static_cast<double>(lanes.size()) * (kRow + kGap) + 52;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"13\">\n"
      "<style>.bg{{fill:#fff}}text{{fill:#1f2937}}.axis{{stroke:#9ca3af}}@media(prefers-color-scheme:dark){{."
      "bg{{fill:#111827}}"
      "text{{fill:#e5e7eb}}}}</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n"
      "<text x=\"{:.0f}\" y=\"24\" font-size=\"15\">{}</text>\n",
      kWidth, height, kLeft, escaped(title));
  for (size_t row = 0; row < lanes.size(); ++row) {
    const double y = kTop + static_cast<double>(row) * (kRow + kGap);
    out += fmt::format("<text x=\"12\" y=\"{:.0f}\">{}</text>\n", y + kRow * 0.62, lanes[row]);
    // Neighbours of one colour that touch are one rectangle: a pass has hundreds of ops.
    double begin = 0, until = -1;
    const char* fill = nullptr;
    const auto flush = [&] {
      if (fill != nullptr)
        out += fmt::format("<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\"/>\n",
                           kLeft + begin * scale, y, std::max(0.15, (until - begin) * scale), kRow, fill);
      fill = nullptr;
    };
    for (const SimulatedSpan& span : spans) {
      if (span.lane != lanes[row] || span.end_s <= 0) continue;
      const char* const next = colour(span);
      const bool touches =
          fill == next && (span.start_s - until) * scale < 0.2 && span.lane != "map" && span.lane != "dma";
      if (!touches) {
        flush();
        begin = std::max(0.0, span.start_s), fill = next;
      }
      until = span.end_s;
    }
    flush();
  }
  const double axis = kTop + static_cast<double>(lanes.size()) * (kRow + kGap);
  out += fmt::format("<line class=\"axis\" x1=\"{0:.0f}\" y1=\"{1:.0f}\" x2=\"{2:.0f}\" y2=\"{1:.0f}\"/>\n", kLeft,
                     axis, kWidth - 16);
  const double tick = std::pow(10, std::floor(std::log10(end / 4)));
  for (double t = 0; t <= end + tick / 2; t += tick * std::ceil(end / tick / 8))
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{:g} s</text>\n", kLeft + t * scale,
                       axis + 18, std::round(t / tick) * tick);
  double x = kLeft;
  for (const auto& [name, fill] :
       {std::pair{"matrix products", "#2563eb"}, std::pair{"attention", "#0d9488"}, std::pair{"LM head", "#7c3aed"},
        std::pair{"mapping a slab", "#d97706"}, std::pair{"other", "#94a3b8"}}) {
    out += fmt::format(
        "<rect x=\"{0:.0f}\" y=\"{1:.0f}\" width=\"12\" height=\"12\" fill=\"{2}\"/>"
        "<text x=\"{3:.0f}\" y=\"{4:.0f}\">{5}</text>\n",
        x, axis + 28, fill, x + 17, axis + 39, name);
    x += 140;
  }
  return out + "</svg>\n";
}

}  // namespace llada::cli
