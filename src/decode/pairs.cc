#include "decode/pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "decode/fields.h"
#include "decode/sampling.h"

namespace llada::decode {
namespace {

// Rules that read the probability; the others read entropy or margin.
bool reads_probability(Acceptance a) {
  return a != Acceptance::entropy && a != Acceptance::dream_entropy && a != Acceptance::dream_margin;
}

// Pairs of options that would contradict or silently ignore each other.
Status validate_pairs(const DecodeOptions& o) {
  const bool random = o.remasking == Remasking::random;
  if (!has_schedule(o.acceptance) && o.steps != 0) {
    return invalid("steps: found {} with acceptance {}, which decides the number of steps itself; needed 0", o.steps,
                   name(o.acceptance));
  }
  if (o.acceptance != Acceptance::schedule && random) {
    return invalid("remasking: random has no confidence for acceptance {}; needed acceptance schedule",
                   name(o.acceptance));
  }
  if (!reads_probability(o.acceptance) && (o.confidence_eos_eot_inf || o.credit)) {
    return invalid("{}: changes confidences, which acceptance {} does not read; needed another acceptance",
                   o.credit ? "credit" : "confidence_eos_eot_inf", name(o.acceptance));
  }
  if (random && (o.confidence_eos_eot_inf || o.credit || o.mbsd || o.revision != Revision::none)) {
    const char* what = o.credit                   ? "credit"
                       : o.mbsd                   ? "mbsd"
                       : o.confidence_eos_eot_inf ? "confidence_eos_eot_inf"
                                                  : "revision";
    return invalid("{}: works on confidences, which remasking random does not read; needed low_confidence", what);
  }
  if (o.kv == KvChoice::none && o.refresh > 0) {
    return invalid(
        "refresh: found {} with kv none, which computes everything in every step; needed kv prefix, suffix, dual, "
        "block, delayed or frozen",
        o.refresh);
  }
  if (o.kv == KvChoice::none && o.warmup > 1) {
    return invalid(
        "warmup: found {} with kv none, which computes everything in every step; needed kv prefix, suffix, dual, "
        "block, "
        "delayed or frozen",
        o.warmup);
  }
  if (o.temperature == 0 && (o.top_k > 0 || o.top_p < 1 || o.min_p > 0)) {
    return invalid("{}: found {} with temperature 0, which takes the best token; needed a temperature above 0",
                   o.top_k > 0   ? "top_k"
                   : o.top_p < 1 ? "top_p"
                                 : "min_p",
                   o.top_k > 0   ? static_cast<double>(o.top_k)
                   : o.top_p < 1 ? o.top_p
                                 : o.min_p);
  }
  if (takes_other_tokens(o) && compares_best_tokens(o)) {
    return invalid("{}: compares best tokens, which {} {} does not take; needed {} or {}",
                   o.credit                       ? "credit"
                   : o.revision == Revision::wino ? "revision"
                                                  : "draft",
                   o.temperature > 0 ? "temperature" : "repeat_penalty",
                   o.temperature > 0 ? o.temperature : o.repeat_penalty,
                   o.temperature > 0 ? "temperature 0" : "repeat_penalty 1",
                   o.credit                       ? "credit=false"
                   : o.revision == Revision::wino ? "revision=none"
                                                  : "draft 0");
  }
  if (o.draft != 0 && (o.kv == KvChoice::delayed || o.kv == KvChoice::frozen))
    return invalid("draft: kv {} stores a token once, after its commit, and drafts store nothing; needed another kv",
                   name(o.kv));
  if (o.draft != 0 && (o.revision == Revision::dual_path || o.revision == Revision::wino))
    return invalid(
        "draft: revision {} asks for masked tokens beside the step, which a draft cannot; needed none, edit "
        "or remask",
        name(o.revision));
  if (o.entropy_gate > 0 && has_schedule(o.acceptance)) {
    return invalid(
        "entropy_gate: found {} with acceptance {}, which commits a planned number; needed another acceptance",
        o.entropy_gate, name(o.acceptance));
  }
  if (o.ahead_steps > 0 && (has_schedule(o.acceptance) || o.mbsd || o.revision != Revision::none))
    return invalid(
        "ahead_steps: keeps tokens of blocks that {} counts on to be masked; needed an acceptance without a "
        "schedule, no mbsd and no revision",
        o.mbsd                         ? "mbsd"
        : o.revision != Revision::none ? fmt::format("revision {}", name(o.revision))
                                       : fmt::format("acceptance {}", name(o.acceptance)));
  if (o.edit_mask && has_schedule(o.acceptance))
    return invalid(
        "edit_mask: masks tokens again, which acceptance {} does not plan for; needed threshold, factor, "
        "entropy, anchored, settled or frechet",
        name(o.acceptance));
  if (o.slide && o.steps > 0)
    return invalid("slide: steps {} are planned for blocks, and a sliding one may hold too few masks; needed steps 0",
                   o.steps);
  if (o.slide && (o.revision == Revision::wino || o.revision == Revision::edit || o.revision == Revision::remask))
    return invalid(
        "slide: revision {} looks at the tokens of one block, which slide leaves behind; needed none or dual-path",
        name(o.revision));
  if (o.slide && (o.acceptance == Acceptance::llada2 || is_dream(o.acceptance)))
    return invalid("slide: acceptance {} shares its forwards over blocks; needed another acceptance",
                   name(o.acceptance));
  if (o.frozen_final && o.kv != KvChoice::frozen)
    return invalid("frozen_final: found kv {}, which freezes nothing; needed kv frozen", name(o.kv));
  const bool masks_again = o.revision == Revision::wino || o.revision == Revision::remask;
  if (masks_again && has_schedule(o.acceptance)) {
    return invalid(
        "revision: wino and remask mask tokens again, which acceptance schedule, llada2 and dream-* do not plan for; "
        "needed threshold, factor, entropy, anchored, settled or frechet");
  }
  return {};
}

}  // namespace

Status validate(const DecodeOptions& o, bool infill) {
  LLADA_TRY_STATUS(check_fields(o, infill));
  if (o.tail >= 0 && infill)
    return invalid("tail: found {} for infilling, where the text goes on behind the gap; needed all", o.tail);
  LLADA_TRY_STATUS(validate_pairs(o));
  if (o.tail_last && o.tail < 0) return invalid("tail_last: found tail all, which cuts nothing off; needed a tail");
  if (o.tail_last && o.auto_length)
    return invalid(
        "tail_last: found gen_length auto, whose last position is not known; needed a number for gen_length");
  if (o.tail_last && o.kv == KvChoice::delayed)
    return invalid(
        "tail_last: found kv delayed, which computes what stands for the last position once; needed another kv");
  if (o.mbsd && o.tail == 0)
    return invalid("mbsd: found tail 0, which leaves no position behind the block to draft; needed 1 or more");
  if (o.mbsd && !infill && o.block_length >= o.gen_length)
    return invalid("mbsd: found one block (block_length {}, gen_length {}), needed a block to look ahead to",
                   o.block_length, o.gen_length);
  // An infilling has no generation length: whatever stands there was not checked.
  if (o.auto_length && !infill && o.early_stop == EarlyStop::none)
    return invalid(
        "gen_length: auto ends with the answer, and early_stop none goes on behind it; needed early_stop "
        "block or answer");
  if (o.auto_length && !infill && o.steps > 0)
    return invalid("steps: found {} with gen_length auto, where the number of blocks is not known; needed 0", o.steps);
  const int64_t blocks = infill ? 0 : (o.gen_length - 1) / o.block_length + 1;
  if (!infill && o.steps > 0 && o.steps < blocks)
    return invalid("steps: found {}, needed at least one for each of {} blocks (gen_length {}, block_length {})",
                   o.steps, blocks, o.gen_length, o.block_length);
  return {};
}

Status validate_for(const DecodeOptions& o, const SpecialIds& ids, bool infill) {
  const int64_t block = ids.attention_block;
  if (block == 0 && o.frozen_final)
    return invalid("frozen_final: a model with full attention finishes no block before the end; needed false");
  if (block == 0) return {};
  if (o.slide) return invalid("slide: a block-causal model predicts a block of its own tiling at a time; needed false");
  if (infill)
    return invalid(
        "infill: a block-causal model does not see the text behind a gap's block; needed a model with full attention");
  if (o.block_length > block || block % o.block_length != 0)
    return invalid("block_length: found {}, needed {}, the model's attention block, or a divisor of it", o.block_length,
                   block);
  if (o.kv != KvChoice::none && o.kv != KvChoice::block && o.kv != KvChoice::frozen)
    return invalid(
        "kv: found {} with a block-causal model, whose finished blocks are exact; needed none, block or frozen",
        name(o.kv));
  if (o.kv == KvChoice::frozen && o.revision != Revision::none)
    return invalid("revision: found {} with kv frozen and a block-causal model; needed none, or kv block",
                   name(o.revision));
  const std::pair<const char*, bool> stale[] = {
      {"refresh", o.refresh > 0}, {"warmup", o.warmup > 1}, {"tail", o.tail >= 0}};
  for (const auto& [what, given] : stale)
    if (given)
      return invalid(
          "{}: nothing that a block-causal model has stored goes stale, and nothing behind the block is read; needed "
          "no {}",
          what, what);
  if (o.mbsd)
    return invalid("mbsd: a block-causal model predicts a block from finished ones only; needed no look ahead");
  if (o.ahead_steps > 0)
    return invalid("ahead_steps: a block-causal model predicts a block from finished ones only; needed 0");
  if (o.revision == Revision::dual_path && o.revise_path == RevisePath::separate)
    return invalid(
        "revise_path: found separate, which reads K/V from before the step; needed fused with a block-causal model");
  return {};
}

std::vector<StrategyPair> strategy_pairs(int64_t attention_block) {
  std::vector<StrategyPair> pairs;
  SpecialIds ids;
  ids.attention_block = attention_block;
  for (const Acceptance acceptance : all_values<Acceptance>()) {
    for (const Revision revision : all_values<Revision>()) {
      for (const bool mbsd : {false, true}) {
        for (const KvChoice kv : all_values<KvChoice>()) {
          StrategyPair pair;
          pair.options.acceptance = acceptance;
          pair.options.revision = revision;
          pair.options.mbsd = mbsd;
          pair.options.kv = kv;
          if (const Status status = validate(pair.options); !status) {
            pair.refusal = status.error().message;
          } else if (const Status fits = validate_for(pair.options, ids); !fits) {
            pair.refusal = fits.error().message;
          }
          pairs.push_back(std::move(pair));
        }
      }
    }
  }
  return pairs;
}

std::string strategy_table(int64_t attention_block) {
  std::string table = "| acceptance |", rule = "|---|";
  for (const Revision revision : all_values<Revision>()) {
    for (const char* speculation : {"", " + mbsd"}) {
      table += fmt::format(" {}{} |", name(revision) == "none" ? "no revision" : name(revision), speculation);
      rule += "---|";
    }
  }
  table += "\n" + rule;
  std::vector<std::string> refusals;
  const std::vector<StrategyPair> pairs = strategy_pairs(attention_block);
  const size_t policies = all_values<KvChoice>().size(), columns = all_values<Revision>().size() * 2;
  for (size_t cell = 0; cell * policies < pairs.size(); ++cell) {
    const auto first = pairs.begin() + static_cast<std::ptrdiff_t>(cell * policies);
    if (cell % columns == 0) table += fmt::format("\n| {} |", name(first->options.acceptance));
    std::string works;
    size_t working = 0;
    for (auto pair = first; pair != first + static_cast<std::ptrdiff_t>(policies); ++pair) {
      if (!pair->refusal.empty()) continue;
      ++working;
      works += (works.empty() ? "" : ", ") + std::string(name(pair->options.kv));
    }
    if (working == policies) works = "all";
    if (working == 0) {
      if (std::ranges::find(refusals, first->refusal) == refusals.end()) refusals.push_back(first->refusal);
      works = fmt::format("no ({})", std::ranges::find(refusals, first->refusal) - refusals.begin() + 1);
    }
    table += fmt::format(" {} |", works);
  }
  table += "\n";
  for (size_t i = 0; i < refusals.size(); ++i) table += fmt::format("\n{}. `{}`", i + 1, refusals[i]);
  return table + "\n";
}

}  // namespace llada::decode
