// The search space of `llada tune`: one axis per question, choices ordered so that neighbours are alike. An option
// whose field has values for tuning (Field::tune) is an axis by that; options that only make sense together stand
// here. Combinations that make no sense are refused when their text is parsed.
#pragma once
#include <algorithm>
#include <iterator>
#include <ranges>

#include "engine/options.h"
#include "eval/tune.h"

namespace llada::cli {

// The field's values for tuning, as options. Its default is the empty text, but where naming it chooses a rule.
inline std::vector<std::string> tuned_choices(const decode::Field& field) {
  const std::string preset = field.show(field, {});
  std::vector<std::string> choices;
  for (const auto part : std::views::split(field.tune, ' ')) {
    const std::string value(part.begin(), part.end()), flag = decode::flag(field);
    choices.push_back(value == preset && field.rules == 0 ? "" : field.is_switch() ? flag : flag + " " + value);
  }
  return choices;
}

// block_causal: the K/V of finished blocks is exact (decode/kv_policy.h). Questions that do not arise for the
// model are left out.
inline std::vector<eval::Axis> tune_axes(bool block_causal = false) {
  eval::Axis rules{"acceptance", {}, 0};
  std::vector<eval::Axis> axes = {
      {"way of revising",
       {"", "--stable-threshold 0.8", "--stable-threshold 0.9", "--stable-threshold 0.95", "--stable-threshold 0.99",
        "--threshold 0.9 --stable-threshold 0.99", "--edit-threshold 0.9"},
       0},
      {"speculation",
       {"", "--mbsd --mbsd-trigger 4", "--mbsd --mbsd-trigger 12", "--mbsd --mbsd-trigger 12 --mbsd-threshold 0.9",
        "--mbsd --mbsd-trigger 12 --mbsd-threshold 0.9 --latency-table 32:1", "--mbsd --mbsd-trigger 33"},
       0},
  };
  for (const decode::Field& field : decode::fields()) {
    if (field.tune.empty()) continue;
    if (field.rules != 0) {  // one axis of all rules
      std::ranges::move(tuned_choices(field), std::back_inserter(rules.choices));
      continue;
    }
    eval::Axis axis{std::string(field.key), tuned_choices(field), 0};
    // The search begins with the default, and with a tail, as the presets have it.
    const auto start = std::ranges::find(axis.choices, field.key == "tail" ? "--tail 32" : "");
    axis.start = static_cast<size_t>(start - axis.choices.begin());
    axes.push_back(std::move(axis));
  }
  rules.start = static_cast<size_t>(std::ranges::find(rules.choices, "--threshold 0.97") - rules.choices.begin());
  axes.insert(axes.begin(), std::move(rules));
  if (!block_causal) return axes;
  std::erase_if(axes, [](const eval::Axis& axis) {
    return axis.name == "tail" || axis.name == "refresh_after" || axis.name == "speculation";
  });
  std::vector<std::string>& policies = std::ranges::find(axes, "kv", &eval::Axis::name)->choices;
  policies.clear();
  for (const decode::KvChoice kv : decode::all_values<decode::KvChoice>())  // none costs more and decides the same
    if (kv != decode::KvChoice::none && decode::validate(decode::CacheOptions{.kv = kv}, false, 32))
      policies.push_back(fmt::format("--kv {}", name(kv)));
  return axes;
}

}  // namespace llada::cli
