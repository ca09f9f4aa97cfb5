// What `llada tune` varies: one axis per question, choices ordered so that neighbours are alike. The values of a single
// option come from its field (decode/fields.cc); a new one is searched once it stands here. Combinations that make no
// sense are refused when their text is parsed.
#pragma once
#include <ranges>

#include "engine/options.h"
#include "eval/tune.h"

namespace llada::cli {

// The field's values for tuning, as options; its default is the empty text.
inline std::vector<std::string> tuned_choices(std::string_view key) {
  const decode::Field& field = *decode::find_field(key);
  const std::string preset = field.show(field, {});
  std::vector<std::string> choices;
  for (const auto part : std::views::split(field.tune, ' ')) {
    const std::string value(part.begin(), part.end()), flag = decode::flag(field);
    choices.push_back(value == preset ? "" : field.is_switch() ? flag : flag + " " + value);
  }
  return choices;
}

// block_causal: for models whose finished blocks are exact (decode/kv_policy.h); questions that do not arise there
// are left out.
inline std::vector<eval::Axis> tune_axes(bool block_causal = false) {
  std::vector<eval::Axis> axes = {
      {"acceptance",
       {"--factor 0.1",
        "--factor 0.25",
        "--factor 0.5",
        "--factor 1",
        "--threshold 0.995 --anchor-threshold 0.95",
        "--threshold 0.99 --anchor-threshold 0.95",
        "--threshold 0.99 --anchor-threshold 0.9",
        "--threshold 0.995",
        "--threshold 0.99",
        "--threshold 0.98",
        "--threshold 0.97",
        "--threshold 0.96",
        "--threshold 0.95",
        "--threshold 0.9",
        "--threshold 0.85",
        "--threshold 0.8",
        "--threshold 0.7",
        "--threshold 0.6",
        "--entropy-bound 0.2",
        "--entropy-bound 0.1",
        "--entropy-bound 0.05",
        "--entropy-bound 0.02"},
       10},
      {"credit", tuned_choices("credit"), 0},
      {"tail", tuned_choices("tail"), 2},
      {"rows", tuned_choices("kv"), 0},
      {"refresh", tuned_choices("refresh"), 0},
      {"block", tuned_choices("block_length"), 2},
      {"revision",
       {"", "--revise --stable-threshold 0.8", "--revise --stable-threshold 0.9", "--revise --stable-threshold 0.95",
        "--revise --stable-threshold 0.99", "--wino"},
       0},
      {"revised rows", tuned_choices("revise_rows"), 0},
      {"speculation", {"", "--mbsd --mbsd-trigger 4", "--mbsd --mbsd-trigger 12", "--mbsd --mbsd-trigger 33"}, 0},
  };
  if (!block_causal) return axes;
  std::erase_if(axes, [](const eval::Axis& axis) {
    return axis.name == "tail" || axis.name == "refresh" || axis.name == "speculation";
  });
  for (eval::Axis& axis : axes)
    if (axis.name == "rows") axis.choices = {"--kv block"};
  return axes;
}

}  // namespace llada::cli
