#include "decode/removed.h"

#include <fmt/format.h>

#include <algorithm>

namespace llada::decode {
namespace {

struct Removed {
  std::string_view key, word, instead;
};

constexpr std::string_view kRevise = "revision=dual-path checks doubtful tokens again";
constexpr std::string_view kGate = "threshold with entropy_gate keeps tokens back while much is open on their left";
constexpr std::string_view kSlide = "slide keeps no token waiting for a block's end";
constexpr std::string_view kRefresh = "refresh_after=N recomputes everything once N tokens have changed";
constexpr std::string_view kFrozen = "kv=frozen with slide computes the fewest rows";
constexpr std::string_view kTemperatures = "the model's file has it, and temperature=N scales it";
constexpr std::string_view kDual = "kv=dual with refresh_after keeps the store fresh";

constexpr Removed kRemoved[] = {
    {"preset", "npu", "balanced computes everything as seldom, whenever 80 tokens have changed"},
    {"preset", "long", "fast computes as few rows in a quarter of the forwards"},
    {"remasking", "", "accept=schedule takes the most probable tokens, accept=random as many in a random order"},
    {"final_sweep", "", "leave it out: tokens that are visible when all is decided are final"},
    {"accept", "anchored", kGate},
    {"accept", "settled", kGate},
    {"accept", "frechet", kGate},
    {"anchor_threshold", "", kGate},
    {"settle_threshold", "", kGate},
    {"settle_steps", "", kGate},
    {"frechet_margin", "", kGate},
    {"ahead_steps", "", kSlide},
    {"ahead_threshold", "", kSlide},
    {"credit", "", kRevise},
    {"kv", "suffix", kDual},
    {"kv", "delayed", kFrozen},
    {"tail_last", "", "tail=N alone; gen_length=auto follows the answer's length"},
    {"warmup", "", "the first forward of a block recomputes everything; refresh_after=N does it again"},
    {"frozen_final", "", "kv=block keeps finished blocks, and kv=frozen makes them exact"},
    {"refresh", "", kRefresh},
    {"refresh_drift", "", kRefresh},
    {"evict", "", kFrozen},
    {"evict_rows", "", kFrozen},
    {"draft", "", "mbsd drafts blocks ahead"},
    {"mbsd_drafts", "", "drafts are hidden: later steps see masks"},
    {"mbsd_lookahead", "", "a step drafts 32 positions at most, or as many as latency_table leaves room for"},
    {"mbsd_max_rows", "", "latency_table=N:1 drafts while the step has up to N rows"},
    {"latency_slack", "", "drafts may slow a step by 2 %"},
    {"repeat_window", "", "repeat_penalty looks at 64 positions before and behind"},
    {"repeat_last_n", "", "repeat_penalty looks at 64 positions before and behind"},
    {"revise", "", "revision=dual-path is its whole name, revision=none ends it"},
    {"visible_threshold", "", "threshold=N is that of revision, too"},
    {"revise_path", "", "revise_lateness=0 has the checks in a forward beside the step's"},
    {"stable_repeats", "", "two predictions that agree make a token final"},
    {"revise_policy", "", "the most doubtful tokens and the oldest take turns"},
    {"revise_limit", "", "a token is final after four checks"},
    {"revision", "wino", kRevise},
    {"revision", "remask", kRevise},
    {"revision", "edit-blocks", "edit writes over tokens of the block that is decided"},
    {"wino", "", kRevise},
    {"wino_back", "", kRevise},
    {"remask_share", "", kRevise},
    {"remask_below", "", kRevise},
    {"remask_limit", "", kRevise},
    {"edit_mask", "", "edit_threshold writes the other token at once"},
    {"t_max", "", kTemperatures},
    {"t_min", "", kTemperatures},
    {"stability_threshold", "", "the model's file has it"},
};

}  // namespace

std::string_view replaced_by(std::string_view name, std::string_view word) {
  std::string key(name.substr(std::min(name.find_first_not_of('-'), name.size())));
  std::ranges::replace(key, '-', '_');
  for (const Removed& r : kRemoved)
    if (r.key == key && r.word == word) return r.instead;
  return {};
}

std::string no_option(std::string_view name) {
  const std::string_view instead = replaced_by(name);
  return instead.empty() ? fmt::format("'{}' is no decoding option", name)
                         : fmt::format("'{}' was removed: {}", name, instead);
}

}  // namespace llada::decode
