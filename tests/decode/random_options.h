// Decoding options drawn at random, for tests of whatever takes them. Many contradict themselves; validate() says which.
#pragma once
#include <random>

#include "decode/options.h"

namespace llada::decode {

using Rng = std::mt19937_64;
inline int64_t between(Rng& rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng() % static_cast<uint64_t>(high - low + 1));
}

inline DecodeOptions random_options(Rng& rng) {
  DecodeOptions o;
  o.gen_length = between(rng, 1, 70);
  o.block_length = between(rng, 1, 80);
  o.acceptance = static_cast<Acceptance>(rng() % all_values<Acceptance>().size());
  if ((o.acceptance == Acceptance::schedule || o.acceptance == Acceptance::random) && rng() % 2)
    o.steps = between(rng, 1, 80);
  o.threshold = static_cast<double>(between(rng, 1, 20)) / 20;
  o.factor = static_cast<double>(between(rng, 1, 40)) / 20;
  o.entropy_bound = static_cast<double>(between(rng, 0, 40)) / 20;
  o.temperature = static_cast<double>(rng() % 3);
  o.seed = rng();
  o.cfg_scale = rng() % 4 ? 0 : 1;
  o.confidence_eos_eot_inf = rng() % 8 == 0;
  o.early_stop = static_cast<EarlyStop>(rng() % 3);
  o.kv = static_cast<KvChoice>(rng() % all_values<KvChoice>().size());
  if (o.kv != KvChoice::none) o.refresh_after = between(rng, 0, 4);
  if (rng() % 4 == 0) o.tail = between(rng, 0, 40);
  o.slide = rng() % 4 == 0;
  o.mbsd = rng() % 3 == 0;
  o.mbsd_trigger = between(rng, 1, 40);
  o.mbsd_threshold = static_cast<double>(between(rng, 0, 19)) / 20;
  if (rng() % 4 == 0)
    o.latency_table = {{8, 1}, {16, 1.5}, {32, 1.5}, {64, 4}};
  else if (rng() % 3 == 0)
    o.latency_table = {{between(rng, 1, 60), 1}};
  if (rng() % 2) {
    o.temperature = 0;
    o.revision = static_cast<Revision>(rng() % 3) /* levenshtein needs ranked tokens */;
  }
  o.stable_threshold = static_cast<double>(between(rng, 10, 20)) / 20;
  o.revise_lateness = rng() % 2 ? between(rng, kReady, 3) : kFused;
  o.revise_rows = between(rng, 1, 6);
  o.edit_threshold = static_cast<double>(between(rng, 0, 20)) / 20;
  o.edit_steps = between(rng, 0, 5);
  if (!has_schedule(o.acceptance) && rng() % 4 == 0) o.entropy_gate = static_cast<double>(between(rng, 1, 60)) / 20;
  o.auto_length = rng() % 5 == 0;
  return o;
}

}  // namespace llada::decode
