#include "devices/cuda/head_run.h"

#include <algorithm>

namespace llada::cuda {
namespace {

constexpr int64_t kHeadColumns = 32 * 512;  // of logits in device memory at a time

int64_t columns_at_a_time(int64_t vocabulary) {
  return std::min<int64_t>(kHeadColumns, (vocabulary + kHeadChunk - 1) / kHeadChunk * kHeadChunk);
}

}  // namespace

int64_t HeadRun::bytes(int64_t rows, int64_t vocabulary) {
  const int64_t chunks = (vocabulary + kHeadChunk - 1) / kHeadChunk;
  return rows * (columns_at_a_time(vocabulary) * 4 + chunks * static_cast<int64_t>(sizeof(HeadPartial)) +
                 static_cast<int64_t>(sizeof(Prediction)));
}

Status HeadRun::run(const Job& job, ProductRun& products) {
  const Matrix& w = *job.matrix;
  const StepData& step = *job.step;
  Memory& memory = *job.memory;
  const int64_t rows = job.rows;
  const int64_t vocab = w.outputs, chunk = columns_at_a_time(vocab);
  const int64_t chunks = (vocab + kHeadChunk - 1) / kHeadChunk;
  LLADA_TRY_STATUS(reserve(memory, logits_, rows * chunk * 4, "logits", job.stream));
  LLADA_TRY_STATUS(
      reserve(memory, partials_, rows * chunks * static_cast<int64_t>(sizeof(HeadPartial)), "the head", job.stream));
  const auto result_bytes = rows * static_cast<int64_t>(sizeof(Prediction));
  LLADA_TRY_STATUS(reserve(memory, results_, result_bytes, "predictions", job.stream));
  LLADA_TRY_STATUS(host_results_.reserve(result_bytes, "predictions"));
  auto* const logits = reinterpret_cast<float*>(logits_.data());
  HeadArguments a{.logits = logits,
                  .stride = chunk,
                  .begin = 0,
                  .end = 0,
                  .rows_of = step.at<HeadRow>(step.head_rows),
                  .tokens = step.at<int32_t>(step.head_tokens),
                  .partials = reinterpret_cast<HeadPartial*>(partials_.data()),
                  .chunks = static_cast<int32_t>(chunks)};
  reserve_logits(*job.inputs, step.sets, vocab, *job.outputs);
  bool reads = false;
  for (size_t r = 0; r < step.sets.scored.size(); ++r) reads |= step.sets.scored[r] >= 0 && step.sets.kept[r] < 0;
  read_.resize(reads ? static_cast<size_t>(rows * vocab) : 0);
  for (int64_t begin = 0; begin < vocab; begin += chunk) {
    a.begin = static_cast<int32_t>(begin);
    a.end = static_cast<int32_t>(std::min(vocab, begin + chunk));
    products.multiply(w, a.begin, a.end, logits, chunk);
    if (job.cap > 0) soft_cap(job.stream, logits, rows, a.end - a.begin, chunk, job.cap);
    head_reduce(job.stream, a, rows);
    LLADA_TRY_STATUS(keep_logits(job, vocab, a));
  }
  head_merge(job.stream, a, rows, reinterpret_cast<Prediction*>(results_.data()));
  LLADA_TRY_STATUS(check(cudaMemcpyAsync(host_results_.data(), results_.data(), static_cast<size_t>(result_bytes),
                                         cudaMemcpyDeviceToHost, job.stream),
                         "copying predictions"));
  pending_ = Pending{job.inputs, &step.sets, job.outputs, rows, vocab};
  return {};
}

float* HeadRun::host_logits(const RowSets& sets, int64_t row, int64_t vocabulary, StepOutputs& outputs) {
  float* const kept = kept_logits(sets, row, vocabulary, outputs);
  if (kept != nullptr || sets.scored[static_cast<size_t>(row)] < 0) return kept;
  return read_.data() + row * vocabulary;
}

Status HeadRun::keep_logits(const Job& job, int64_t vocab, const HeadArguments& a) {
  const RowSets& sets = job.step->sets;
  for (int64_t first = 0, next; first < job.rows; first = next) {
    float* const to = host_logits(sets, first, vocab, *job.outputs);
    const auto follows = [&](int64_t r) {
      return host_logits(sets, r, vocab, *job.outputs) == (to == nullptr ? to : to + (r - first) * vocab);
    };
    for (next = first + 1; next < job.rows && follows(next);) ++next;
    if (to == nullptr) continue;
    LLADA_TRY_STATUS(
        check(cudaMemcpy2DAsync(to + a.begin, static_cast<size_t>(vocab) * 4, a.logits + first * a.stride,
                                static_cast<size_t>(a.stride) * 4, static_cast<size_t>(a.end - a.begin) * 4,
                                static_cast<size_t>(next - first), cudaMemcpyDeviceToHost, job.stream),
              "copying logits"));
  }
  return {};
}

Status HeadRun::take() {
  if (!pending_) return {};
  const Pending done = *std::exchange(pending_, std::nullopt);
  const auto* results = reinterpret_cast<const Prediction*>(host_results_.data());
  done.outputs->predictions.assign(results, results + done.rows);
  for (int64_t r = 0; r < done.rows; ++r)
    if (const float* logits = host_logits(*done.sets, r, done.vocabulary, *done.outputs); logits != nullptr)
      read_scores(*done.inputs, *done.sets, r, {logits, static_cast<size_t>(done.vocabulary)}, *done.outputs);
  return {};
}

}  // namespace llada::cuda
