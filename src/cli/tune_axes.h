// What `llada tune` varies: one axis per question, choices ordered so that neighbours are alike. An option whose field
// has values for tuning (decode/fields.cc) is an axis by that; options that only make sense together stand here.
// Combinations that make no sense are refused when their text is parsed.
#pragma once
#include <algorithm>
#include <ranges>

#include "engine/options.h"
#include "eval/tune.h"

namespace llada::cli {

// The field's values for tuning, as options; its default is the empty text.
inline std::vector<std::string> tuned_choices(const decode::Field& field) {
  const std::string preset = field.show(field, {});
  std::vector<std::string> choices;
  for (const auto part : std::views::split(field.tune, ' ')) {
    const std::string value(part.begin(), part.end()), flag = decode::flag(field);
    choices.push_back(value == preset ? "" : field.is_switch() ? flag : flag + " " + value);
  }
  return choices;
}

// block_causal: of a model whose finished blocks are exact (decode/kv_policy.h). Questions that do not arise for the
// model are left out.
inline std::vector<eval::Axis> tune_axes(bool block_causal = false) {
  std::vector<eval::Axis> axes = {
      {"acceptance",
       {"--factor 0.1",
        "--factor 0.25",
        "--factor 0.5",
        "--factor 1",
        "--threshold 1",
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
        "--frechet-margin 0.25",
        "--frechet-margin 0.5",
        "--frechet-margin 0.8",
        "--frechet-margin 0.95",
        "--entropy-bound 0.2",
        "--entropy-bound 0.1",
        "--entropy-bound 0.05",
        "--entropy-bound 0.02"},
       11},
      {"way of revising",
       {"", "--revise --stable-threshold 0.8", "--revise --stable-threshold 0.9", "--revise --stable-threshold 0.95",
        "--revise --stable-threshold 0.99", "--revise --visible-threshold 0.9 --stable-threshold 0.99", "--wino",
        "--edit-threshold 0.9", "--edit-threshold 0.9 --edit-mask"},
       0},
      {"speculation",
       {"", "--mbsd --mbsd-trigger 4", "--mbsd --mbsd-trigger 12", "--mbsd --mbsd-trigger 12 --mbsd-threshold 0.9",
        "--mbsd --mbsd-trigger 12 --mbsd-threshold 0.9 --mbsd-max-rows 32", "--mbsd --mbsd-trigger 33"},
       0},
  };
  for (const decode::Field& field : decode::fields()) {
    if (field.tune.empty()) continue;
    eval::Axis axis{std::string(field.key), tuned_choices(field), 0};
    // The search begins with the default, and with a tail, which has paid wherever it was tried.
    const auto start = std::ranges::find(axis.choices, field.key == "tail" ? "--tail 32" : "");
    axis.start = static_cast<size_t>(start - axis.choices.begin());
    axes.push_back(std::move(axis));
  }
  const auto leave_out = [&](std::initializer_list<std::string_view> names) {
    std::erase_if(axes, [&](const eval::Axis& axis) { return std::ranges::find(names, axis.name) != names.end(); });
  };
  if (!block_causal) {
    leave_out({"frozen_final"});
    return axes;
  }
  leave_out({"tail", "tail_last", "refresh", "speculation", "ahead_steps", "ahead_threshold"});
  std::ranges::find(axes, "kv", &eval::Axis::name)->choices = {"--kv block", "--kv frozen"};
  return axes;
}

}  // namespace llada::cli
