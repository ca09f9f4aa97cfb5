// The results of a batch: predictions, and rows of K/V.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "devices/hexagon/batch.h"

namespace llada::hexagon {

void wrote_rows(const Run& run, size_t first, size_t last, KvViewer by) {
  for (size_t i = first; i < last; ++i) {
    const Op& op = run.program->ops[i];
    if (rule_of(op.kind).kv != KvUse::writes) continue;
    for (const RowSpan& span : run.inputs->spans)
      for (int32_t r = span.begin; r < span.begin + span.count; ++r) {
        KvStore& kv = *run.inputs->streams[static_cast<size_t>(span.stream)].kv;
        const int32_t position = run.inputs->kept_at()[static_cast<size_t>(r)];
        // Trials write, too: their rows stand in the store for a moment.
        kv.wrote(by, op.layer, span.sequence, position);
      }
  }
}

void take_values(const BatchSources& sources, const Batch& batch, const Staging& out) {
  const Program& program = *sources.run->program;
  for (size_t i = 0; i < sources.out.size(); ++i) {
    const auto id = static_cast<size_t>(sources.out[i]);
    const Value& value = program.values[id];
    std::memcpy(sources.host_arena->data() + sources.plan->offsets[id], out.at(batch.out[i]),
                static_cast<size_t>(program.shape.count(value.rows) * int64_t{value.columns} * 4));
  }
}

KvHeads heads_of(const KvStore& store) {
  const KvShape& shape = store.shape();
  return {int64_t{shape.layers} * shape.sequences * shape.kv_heads, store.row_bytes(), store.head_bytes(),
          store.half_bytes()};
}

void add_rows(const KvHeads& heads, uint32_t number, std::span<const KvRows> rows, uint32_t use,
              std::vector<WireRange>& ranges) {
  for (const KvRows& r : rows)
    for (const int64_t half : {int64_t{0}, heads.half})
      ranges.push_back({{number, static_cast<uint32_t>(half + r.first * heads.row)},
                        static_cast<uint32_t>((r.last - r.first) * heads.row),
                        use,
                        static_cast<uint32_t>(heads.count),
                        static_cast<uint32_t>(heads.stride)});
}

namespace {

// Gumbel-max over the row, as every device does it: ties and order cannot matter, each token has its own noise.
void sample(const float* logits, int64_t n, const SamplingRule& rule, int32_t position, Prediction& out) {
  const uint64_t key = rule.key(position);
  std::vector<bool> excluded(static_cast<size_t>(n), false);
  for (const int32_t token : rule.never_sampled)
    if (token >= 0 && token < n) excluded[static_cast<size_t>(token)] = true;
  double best = -std::numeric_limits<double>::infinity();
  out.token = -1;
  for (int64_t t = 0; t < n; ++t) {
    if (excluded[static_cast<size_t>(t)]) continue;
    const double u = draw(key, static_cast<uint64_t>(t));
    const double score = logits[t] - rule.temperature * std::log(-std::log(u));
    if (score > best) best = score, out.token = static_cast<int32_t>(t), out.logit = logits[t];
  }
}

}  // namespace

Status read_head(const Batch& batch, const Staging& out, const RowSets& rows, const Run& run) {
  const StepInputs& in = *run.inputs;
  const auto* from = reinterpret_cast<const WirePrediction*>(out.at(batch.predictions));
  const float* logits = batch.logits == WIRE_NO_BUFFER ? nullptr : reinterpret_cast<const float*>(out.at(batch.logits));
  run.outputs->predictions.assign(static_cast<size_t>(batch.head_rows), {});
  reserve_logits(in, rows, batch.vocabulary, *run.outputs);
  for (int64_t r = 0; r < batch.head_rows; ++r) {
    const WirePrediction w = from[r];
    Prediction& p = run.outputs->predictions[static_cast<size_t>(r)];
    const auto known = [&](int32_t token) { return token >= -1 && token < batch.vocabulary; };
    // A row whose tokens are all excluded has -infinity.
    const auto number = [](float x) { return x < std::numeric_limits<float>::infinity(); };
    const bool answered = known(w.best) && known(w.second) && w.reserved == 0;
    const bool is_damaged = answered && !(number(w.max) && number(w.best_logit));
    if (!is_damaged &&
        !(answered && w.best >= 0 && std::isfinite(w.best_logit) && w.rest >= 0 && number(w.rest) && w.weighted <= 0))
      return failed("hexagon: the prediction of position {} is garbage (token {} of {})",
                    rows.positions[2][static_cast<size_t>(r)], w.best, batch.vocabulary);
    if (is_damaged) {
      p.probability = std::numeric_limits<double>::quiet_NaN();
      continue;
    }
    const SamplingRule& rule = in.streams[static_cast<size_t>(rows.streams[static_cast<size_t>(r)])].sampling;
    p.token = w.best, p.runner_up = w.second, p.logit = w.best_logit;
    if (float* kept = kept_logits(rows, r, batch.vocabulary, *run.outputs))
      std::copy_n(logits + r * batch.vocabulary, batch.vocabulary, kept);
    if (logits != nullptr)
      read_scores(in, rows, r, {logits + r * batch.vocabulary, static_cast<size_t>(batch.vocabulary)}, *run.outputs);
    if (rule.temperature > 0)
      sample(logits + r * batch.vocabulary, batch.vocabulary, rule, rows.positions[2][static_cast<size_t>(r)], p);
    const double sum = 1.0 + static_cast<double>(w.rest);
    const auto probability = [&](int32_t token, float logit) {
      if (token < 0 || std::ranges::count(rule.out_of_softmax, token) > 0) return 0.0;
      return std::exp(static_cast<double>(logit) - static_cast<double>(w.max)) / sum;
    };
    p.probability = probability(p.token, p.logit);
    p.entropy = std::max(0.0, std::log1p(static_cast<double>(w.rest)) - static_cast<double>(w.weighted) / sum);
    p.margin = probability(w.best, w.best_logit) - probability(w.second, w.second_logit);
  }
  return {};
}

}  // namespace llada::hexagon
