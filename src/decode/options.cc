#include "decode/options.h"

#include <cmath>
#include <utility>

namespace llada::decode {
namespace {

constexpr double kMaxGuidance = 1e6;  // useful ones are below 10; far beyond this, hidden states overflow a float

bool finite_from(double value, double least) { return std::isfinite(value) && value >= least; }
bool within(double value, double least, double most) { return value >= least && value <= most; }

// Rules that commit a planned number per step.
bool has_schedule(Acceptance a) {
  return a == Acceptance::schedule || a == Acceptance::llada2 || a == Acceptance::dream_entropy ||
         a == Acceptance::dream_margin || a == Acceptance::dream_maskgit;
}

// Rules that read the probability; the others read entropy or margin.
bool reads_probability(Acceptance a) {
  return a != Acceptance::entropy && a != Acceptance::dream_entropy && a != Acceptance::dream_margin;
}

Status validate_numbers(const DecodeOptions& o, bool infill) {
  if (!infill && (o.gen_length < 1 || o.gen_length > kMaxGenLength)) {
    return invalid("gen_length: found {}, needed 1 to {}", o.gen_length, kMaxGenLength);
  }
  if (o.block_length < 1 || o.block_length > kMaxGenLength) {
    return invalid("block_length: found {}, needed 1 to {}", o.block_length, kMaxGenLength);
  }
  if (o.steps < 0 || o.steps > kMaxSteps) {
    return invalid("steps: found {}, needed 0 (one token per step) to {}", o.steps, kMaxSteps);
  }
  if (!(o.threshold > 0 && o.threshold <= 1)) {
    return invalid("threshold: found {}, needed above 0 and at most 1", o.threshold);
  }
  if (!std::isfinite(o.factor) || o.factor <= 0) return invalid("factor: found {}, needed above 0", o.factor);
  if (!finite_from(o.entropy_bound, 0)) {
    return invalid("entropy_bound: found {}, needed 0 nats or more", o.entropy_bound);
  }
  if (!within(o.anchor_threshold, 0, 1)) {
    return invalid("anchor_threshold: found {}, needed 0 to 1", o.anchor_threshold);
  }
  if (o.settle_steps < 2 || o.settle_steps > kMaxSteps) {
    return invalid("settle_steps: found {}, needed 2 or more", o.settle_steps);
  }
  if (!within(o.settle_threshold, 0, 1)) {
    return invalid("settle_threshold: found {}, needed 0 to 1", o.settle_threshold);
  }
  if (!finite_from(o.temperature, 0))
    return invalid("temperature: found {}, needed 0 or more", o.temperature);
  if (!within(o.cfg_scale, 0, kMaxGuidance))
    return invalid("cfg_scale: found {}, needed 0 to {}", o.cfg_scale, kMaxGuidance);
  if (o.refresh < 0) return invalid("refresh: found {}, needed 0 (block starts only) or more", o.refresh);
  if (o.warmup < 1 || o.warmup > kMaxSteps) {
    return invalid("warmup: found {}, needed 1 or more full forwards", o.warmup);
  }
  if (o.tail < -1 || o.tail > kMaxGenLength) {
    return invalid("tail: found {}, needed 0 to {} positions, or -1 for all", o.tail, kMaxGenLength);
  }
  if (o.tail >= 0 && infill) {
    return invalid("tail: found {} for infilling, where the text goes on behind the gap; needed all", o.tail);
  }
  if (!within(o.refresh_drift, 0, 2)) {
    return invalid("refresh_drift: found {}, needed 0 (do not look) to 2", o.refresh_drift);
  }
  return {};
}

Status validate_speculation(const DecodeOptions& o, bool infill) {
  if (o.mbsd_trigger < 1 || o.mbsd_trigger > kMaxGenLength) {
    return invalid("mbsd_trigger: found {}, needed 1 to {} masks", o.mbsd_trigger, kMaxGenLength);
  }
  if (o.mbsd_lookahead < 1 || o.mbsd_lookahead > kMaxGenLength) {
    return invalid("mbsd_lookahead: found {}, needed 1 to {} positions", o.mbsd_lookahead, kMaxGenLength);
  }
  if (o.mbsd_max_rows < 0) return invalid("mbsd_max_rows: found {}, needed 0 (any) or more", o.mbsd_max_rows);
  if (!(o.mbsd_threshold >= 0 && o.mbsd_threshold < 1)) {
    return invalid("mbsd_threshold: found {}, needed 0 or more and below 1", o.mbsd_threshold);
  }
  if (!finite_from(o.latency_slack, 0)) {
    return invalid("latency_slack: found {}, needed 0 or more", o.latency_slack);
  }
  if (o.device_latency && !o.latency_table.empty())
    return invalid("latency_table: found {} points beside the device's own table, needed one of the two",
                   o.latency_table.size());
  for (size_t i = 0; i < o.latency_table.size(); ++i) {
    const LatencyPoint& p = o.latency_table[i];
    const LatencyPoint before = i > 0 ? o.latency_table[i - 1] : LatencyPoint{};
    if (p.rows <= before.rows || !finite_from(p.ms, before.ms)) {
      return invalid(
          "latency_table: found {} rows in {} ms after {} in {}, needed both ascending from above 0", p.rows,
          p.ms, before.rows, before.ms);
    }
  }
  if (o.mbsd && o.tail == 0) {
    return invalid(
        "mbsd: found tail 0, which leaves no position behind the block to draft; needed 1 or more");
  }
  if (o.mbsd && !infill && o.block_length >= o.gen_length) {
    return invalid("mbsd: found one block (block_length {}, gen_length {}), needed a block to look ahead to",
                   o.block_length, o.gen_length);
  }
  return {};
}

Status validate_revision(const DecodeOptions& o) {
  if (!within(o.stable_threshold, 0, 1)) {
    return invalid("stable_threshold: found {}, needed 0 to 1", o.stable_threshold);
  }
  if (o.stable_repeats < 2) return invalid("stable_repeats: found {}, needed 2 or more", o.stable_repeats);
  if (o.revise_rows < 1 || o.revise_rows > kMaxGenLength) {
    return invalid("revise_rows: found {}, needed 1 to {} tokens per step", o.revise_rows, kMaxGenLength);
  }
  // The bound on a run's steps is a product with the positions; it stays far below 2^63.
  if (o.revise_limit < 1 || o.revise_limit > 1000) {
    return invalid("revise_limit: found {}, needed 1 to 1000 checks per token", o.revise_limit);
  }
  if (o.final_sweep < 0 || o.final_sweep > kMaxGenLength) {
    return invalid("final_sweep: found {}, needed 0 (no sweep) to {} tokens per step", o.final_sweep,
                   kMaxGenLength);
  }
  if (!within(o.wino_back, 0.5, 1)) return invalid("wino_back: found {}, needed 0.5 to 1", o.wino_back);
  if (!within(o.edit_threshold, 0, 1)) {
    return invalid("edit_threshold: found {}, needed 0 to 1", o.edit_threshold);
  }
  if (o.edit_steps < 0 || o.edit_steps > kMaxSteps) {
    return invalid("edit_steps: found {}, needed 0 to {}", o.edit_steps, kMaxSteps);
  }
  if (!(o.remask_share > 0 && o.remask_share <= 1)) {
    return invalid("remask_share: found {}, needed above 0 and at most 1", o.remask_share);
  }
  if (!(o.remask_below > 0 && o.remask_below <= 1)) {
    return invalid("remask_below: found {}, needed above 0 and at most 1", o.remask_below);
  }
  if (o.remask_limit < 1 || o.remask_limit > 1000) {
    return invalid("remask_limit: found {}, needed 1 to 1000", o.remask_limit);
  }
  return {};
}

// Pairs of options that would contradict or silently ignore each other.
Status validate_pairs(const DecodeOptions& o) {
  const bool random = o.remasking == Remasking::random;
  if (!has_schedule(o.acceptance) && o.steps != 0) {
    return invalid("steps: found {} with acceptance {}, which decides the number of steps itself; needed 0",
                   o.steps, name(o.acceptance));
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
    return invalid("{}: works on confidences, which remasking random does not read; needed low_confidence",
                   what);
  }
  if (o.kv == KvChoice::none && (o.refresh > 0 || o.refresh_drift > 0)) {
    return invalid(
        "{}: found {} with kv none, which computes everything in every step; needed kv prefix, suffix, dual, "
        "block or "
        "delayed",
        o.refresh > 0 ? "refresh" : "refresh_drift",
        o.refresh > 0 ? static_cast<double>(o.refresh) : o.refresh_drift);
  }
  if (o.kv == KvChoice::none && o.warmup > 1) {
    return invalid(
        "warmup: found {} with kv none, which computes everything in every step; needed kv prefix, suffix, "
        "dual, block or "
        "delayed",
        o.warmup);
  }
  if (o.temperature > 0 && (o.credit || o.revision != Revision::none)) {
    return invalid("{}: compares best tokens, which temperature {} does not take; needed temperature 0",
                   o.credit ? "credit" : "revision", o.temperature);
  }
  const bool masks_again = o.revision == Revision::wino || o.revision == Revision::remask;
  if (masks_again && has_schedule(o.acceptance)) {
    return invalid(
        "revision: wino and remask mask tokens again, which acceptance schedule, llada2 and dream-* do not "
        "plan "
        "for; needed threshold, factor, entropy, anchored or settled");
  }
  return {};
}

}  // namespace

Status validate(const DecodeOptions& o, bool infill) {
  for (const std::string_view word :
       {name(o.acceptance), name(o.remasking), name(o.early_stop), name(o.kv), name(o.revision),
        name(o.revise_policy), name(o.revise_path), name(o.mbsd_drafts)}) {
    if (word.empty()) {
      return invalid(
          "acceptance, remasking, early_stop, kv, revision or one of their policies: found a number without "
          "a "
          "name, needed one of the named values");
    }
  }
  LLADA_TRY_STATUS(validate_numbers(o, infill));
  LLADA_TRY_STATUS(validate_pairs(o));
  LLADA_TRY_STATUS(validate_speculation(o, infill));
  LLADA_TRY_STATUS(validate_revision(o));
  if (!infill && o.steps > 0) {
    const int64_t blocks = (o.gen_length - 1) / o.block_length + 1;
    if (o.steps < blocks) {
      return invalid(
          "steps: found {}, needed at least one for each of {} blocks (gen_length {}, block_length {})",
          o.steps, blocks, o.gen_length, o.block_length);
    }
  }
  return {};
}

Status validate_for(const DecodeOptions& o, const SpecialIds& ids, bool infill) {
  const int64_t block = ids.attention_block;
  if (block == 0) return {};
  if (infill)
    return invalid("infill: a block-causal model does not see the text behind a gap's block; needed a model with "
                   "full attention");
  if (o.block_length > block || block % o.block_length != 0)
    return invalid("block_length: found {}, needed {}, the model's attention block, or a divisor of it",
                   o.block_length, block);
  if (o.kv != KvChoice::none && o.kv != KvChoice::block)
    return invalid("kv: found {} with a block-causal model, whose finished blocks are exact; needed none or block",
                   name(o.kv));
  const std::pair<const char*, bool> stale[] = {{"refresh", o.refresh > 0},
                                                {"refresh_drift", o.refresh_drift > 0},
                                                {"warmup", o.warmup > 1},
                                                {"tail", o.tail >= 0}};
  for (const auto& [what, given] : stale)
    if (given)
      return invalid("{}: nothing that a block-causal model has stored goes stale, and nothing behind the block "
                     "is read; needed no {}",
                     what, what);
  if (o.mbsd)
    return invalid("mbsd: a block-causal model predicts a block from finished ones only; needed no look ahead");
  if (o.revision == Revision::dual_path && o.revise_path == RevisePath::separate)
    return invalid("revise_path: found separate, which reads K/V from before the step; needed fused with a "
                   "block-causal model");
  return {};
}

}  // namespace llada::decode
