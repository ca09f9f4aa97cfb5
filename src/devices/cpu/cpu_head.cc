#include "devices/cpu/cpu_head.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/random.h"

namespace llada {
namespace {

// Columns per chunk. Fixed, whatever the number of threads: chunk borders decide how sums are grouped.
constexpr int64_t kChunk = 512;
constexpr float kExcluded = -std::numeric_limits<float>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const Stream& stream_of(const CpuHead::Job& job, int64_t row) {
  return job.inputs->streams[static_cast<size_t>(job.sets->streams[static_cast<size_t>(row)])];
}
const SamplingRule& rule_of(const CpuHead::Job& job, int64_t row) { return stream_of(job, row).sampling; }

}  // namespace

CpuHead::Partial CpuHead::reduce(const Job& job, int64_t row, float* logits, int64_t begin, int64_t n,
                                 Seen& seen) const {
  const SamplingRule& rule = rule_of(job, row);
  Partial p{};
  std::vector<std::pair<int64_t, float>> out;  // of the softmax, with their logits
  for (const int32_t token : rule.out_of_softmax)
    if (token >= begin && token < begin + n)
      out.emplace_back(token - begin, std::exchange(logits[token - begin], kernels::kNoLogit));
  p.stats = job.kernels->softmax_stats(logits, n);
  for (const auto& [at, value] : out) {
    if (!std::isfinite(value)) p.stats.sum = kNan;
    if (value != kernels::kNoLogit) logits[at] = value;  // a token named twice: its logit was taken out the first time
  }

  // Nearly always a chunk has neither of the row's two best tokens, and then only its sums matter. (With tokens out of
  // the softmax its maximum says too little.)
  if (rule.temperature == 0 && rule.out_of_softmax.empty() && p.stats.max < seen.second) {
    p.top = {-1, -1, kExcluded, kExcluded};
    p.score = -std::numeric_limits<double>::infinity(), p.sampled = -1;
    return p;
  }
  for (auto token = std::ranges::lower_bound(rule.never_sampled, begin);
       token != rule.never_sampled.end() && *token < begin + n; ++token)
    logits[*token - begin] = kExcluded;
  p.top = job.kernels->top2(logits, n);
  if (p.top.best_value > seen.best)
    seen = {p.top.best_value, std::max(seen.best, p.top.second_value)};
  else
    seen.second = std::max(seen.second, p.top.best_value);
  p.sampled = p.top.best;
  p.score = p.sampled_logit = p.top.best_value;
  if (rule.temperature > 0) {
    p.sampled = -1;
    p.score = -std::numeric_limits<double>::infinity();
    const uint64_t key = rule.key(job.sets->positions[2][static_cast<size_t>(row)]);
    for (int64_t i = 0; i < n; ++i) {
      if (logits[i] == kExcluded) continue;
      const double u = draw(key, static_cast<uint64_t>(begin + i));
      const double score = logits[i] - rule.temperature * std::log(-std::log(u));
      if (score > p.score) p.score = score, p.sampled = static_cast<int32_t>(i), p.sampled_logit = logits[i];
    }
  }
  const auto global = [&](int32_t& index) { index = index < 0 ? -1 : index + static_cast<int32_t>(begin); };
  global(p.sampled), global(p.top.best), global(p.top.second);
  return p;
}

Prediction CpuHead::merge(const Job& job, int64_t row, int64_t chunks) const {
  kernels::SoftmaxStats total{kExcluded, 0, 0};
  kernels::Top2 top{-1, -1, kExcluded, kExcluded};
  double score = -std::numeric_limits<double>::infinity();
  Prediction out;
  for (int64_t c = 0; c < chunks; ++c)
    total.max = std::max(total.max, partial_[static_cast<size_t>(row * chunks + c)].stats.max);
  for (int64_t c = 0; c < chunks; ++c) {
    const Partial& p = partial_[static_cast<size_t>(row * chunks + c)];
    const double shift = static_cast<double>(p.stats.max) - total.max, scale = std::exp(shift);
    total.sum += p.stats.sum * scale;
    total.weighted += (p.stats.weighted + shift * p.stats.sum) * scale;
    // Strictly greater: chunks ascend, so ties stay with the lower token.
    if (p.top.best_value > top.best_value) {
      const bool old_is_second = top.best_value >= p.top.second_value;
      top = {p.top.best, old_is_second ? top.best : p.top.second, p.top.best_value,
             old_is_second ? top.best_value : p.top.second_value};
    } else if (p.top.best_value > top.second_value) {
      top.second = p.top.best, top.second_value = p.top.best_value;
    }
    if (p.score > score) score = p.score, out.token = p.sampled, out.logit = p.sampled_logit;
  }
  // A logit that is not finite has made the sums NaN, whatever token was chosen.
  if (!std::isfinite(total.sum) || !std::isfinite(total.weighted)) {
    out.probability = kNan;
    return out;
  }
  const auto probability = [&](int32_t token, float logit) {
    if (token < 0 || std::ranges::count(rule_of(job, row).out_of_softmax, token) > 0) return 0.0;
    return std::exp(static_cast<double>(logit) - total.max) / total.sum;
  };
  out.runner_up = top.second;
  out.probability = probability(out.token, out.logit);
  out.entropy = std::max(0.0, std::log(total.sum) - total.weighted / total.sum);
  out.margin = probability(top.best, top.best_value) - probability(top.second, top.second_value);
  return out;
}

void CpuHead::temper(const Job& job, int64_t chunks, int64_t columns, StepOutputs& outputs) const {
  const auto asks = [](const Stream& stream) { return stream.tempering.temperature > 0; };
  if (std::ranges::none_of(job.inputs->streams, asks)) return;
  const int64_t vocab = job.weight->outputs;
  std::vector<TemperedRow> rows(static_cast<size_t>(job.rows));
  job.pool->run(job.rows, [&](int64_t r, int) {
    const Tempering& tempering = stream_of(job, r).tempering;
    if (tempering.temperature == 0) return;
    const float* logits = kept_logits(*job.sets, r, vocab, outputs);
    Prediction& prediction = outputs.predictions[static_cast<size_t>(r)];
    if (prediction.token >= 0) prediction.logit = logits[prediction.token];
    std::vector<kernels::SoftmaxStats> stats;
    for (int64_t c = 0; c < chunks; ++c) stats.push_back(partial_[static_cast<size_t>(r * chunks + c)].stats);
    const auto draw = static_cast<size_t>(job.sets->kept[static_cast<size_t>(r)]);
    rows[static_cast<size_t>(r)] =
        temper_row({logits, static_cast<size_t>(vocab)}, tempering.temperature, tempering.draws[draw], stats, columns);
  });
  outputs.tempered.resize(job.inputs->streams.size());
  for (size_t r = 0; r < rows.size(); ++r)
    if (asks(stream_of(job, static_cast<int64_t>(r))))
      append(outputs.tempered[static_cast<size_t>(job.sets->streams[r])], rows[r]);
}

Status CpuHead::run(const Job& job, StepOutputs& outputs) {
  const int64_t vocab = job.weight->outputs, inputs = job.weight->inputs;
  const int64_t tile = job.kernels->column_tile(job.weight->stored.type);
  const int64_t chunk = (kChunk + tile - 1) / tile * tile;
  const int64_t chunks = (vocab + chunk - 1) / chunk;
  reserve_logits(*job.inputs, *job.sets, vocab, outputs);
  LLADA_TRY_STATUS(scratch_.reserve(job.pool->size() * job.rows * chunk * static_cast<int64_t>(sizeof(float))));
  partial_.resize(static_cast<size_t>(chunks * job.rows));
  seen_.assign(static_cast<size_t>(job.pool->size() * job.rows), {kExcluded, kExcluded});
  constexpr int64_t kStretch = TokenClasses::kStretch;
  LLADA_CHECK(kStretch % chunk == 0);
  std::vector<RowReader> readers;
  std::vector<int64_t> reader_of(static_cast<size_t>(job.rows), -1);
  for (int64_t r = 0; r < job.rows; ++r)
    if (auto reader = row_reader(*job.inputs, *job.sets, r)) {
      reader_of[static_cast<size_t>(r)] = std::ssize(readers);
      readers.push_back(*std::move(reader));
    }
  const auto readings = std::ssize(readers);
  LLADA_TRY_STATUS(stretch_.reserve(readings * kStretch * static_cast<int64_t>(sizeof(float))));
  auto* const stretch = reinterpret_cast<float*>(stretch_.data());
  const auto one_chunk = [&](int64_t c, int thread) {
    const int64_t begin = c * chunk, n = std::min(vocab, begin + chunk) - begin;
    float* logits = reinterpret_cast<float*>(scratch_.data()) + thread * job.rows * chunk;
    job.kernels->matmul({.type = job.weight->stored.type,
                         .n = vocab,
                         .k = inputs,
                         .weights = job.weight->bytes(),
                         .x = job.x,
                         .activations = job.activations,
                         .rows = job.rows,
                         .n0 = begin,
                         .n1 = begin + n,
                         .y = logits - begin,
                         .y_stride = chunk});
    for (int64_t r = 0; r < job.rows; ++r) {
      if (job.cap > 0) job.kernels->soft_cap(logits + r * chunk, n, job.cap);
      if (float* kept = kept_logits(*job.sets, r, vocab, outputs)) std::copy_n(logits + r * chunk, n, kept + begin);
      if (const int64_t reader = reader_of[static_cast<size_t>(r)]; reader >= 0)
        std::copy_n(logits + r * chunk, n, stretch + reader * kStretch + begin % kStretch);
      if (const auto divisor = static_cast<float>(stream_of(job, r).tempering.temperature); divisor > 0)
        for (int64_t i = 0; i < n; ++i) logits[r * chunk + i] /= divisor;
      partial_[static_cast<size_t>(r * chunks + c)] =
          reduce(job, r, logits + r * chunk, begin, n, seen_[static_cast<size_t>(thread * job.rows + r)]);
    }
  };
  const int64_t at_a_time = readings > 0 ? kStretch / chunk : chunks;
  for (int64_t first = 0; first < chunks; first += at_a_time) {
    job.pool->run(std::min(at_a_time, chunks - first), [&](int64_t c, int thread) { one_chunk(first + c, thread); });
    const auto columns = static_cast<size_t>(std::min(kStretch, vocab - first * chunk));
    job.pool->run(readings,
                  [&](int64_t i, int) { readers[static_cast<size_t>(i)].read({stretch + i * kStretch, columns}); });
  }
  for (int64_t r = 0; r < job.rows; ++r)
    if (const int64_t reader = reader_of[static_cast<size_t>(r)]; reader >= 0)
      *kept_scores(*job.sets, r, outputs) = readers[static_cast<size_t>(reader)].take();
  outputs.predictions.resize(static_cast<size_t>(job.rows));
  job.pool->run(job.rows, [&](int64_t r, int) { outputs.predictions[static_cast<size_t>(r)] = merge(job, r, chunks); });
  temper(job, chunks, chunk, outputs);
  return {};
}

}  // namespace llada
