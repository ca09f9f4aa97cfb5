#include "lab/bench/forward.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/random.h"
#include "devices/value_plan.h"
#include "engine/model_runner.h"
#include "kernels/kernels.h"
#include "models/model_graph.h"
#include "tensor/synthesize.h"

namespace llada::bench {
namespace {

// Rows of a head's keys that are random; they repeat, which attention does not notice.
constexpr int64_t kPattern = 64;

// A canvas's soft tokens of the step before: so many tokens for each row, none of them another row's.
SoftTokens some_tokens(int64_t rows, int64_t vocab) {
  constexpr int64_t kTokens = 256;
  SoftTokens soft;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < kTokens && i < vocab; ++i) {
      const int64_t step = std::max<int64_t>(1, vocab / kTokens);
      soft.tokens.push_back(static_cast<int32_t>(i * step + r % step));
      soft.probabilities.push_back(1.0f / kTokens);
    }
    soft.begin.push_back(std::ssize(soft.tokens));
  }
  return soft;
}

// More classes than a schema of 40 fields makes of 150,000 tokens (262), of which a few have nearly all tokens, as
// those that stand in strings.
TokenClasses some_classes(int64_t vocab) {
  constexpr int32_t kClasses = 1500;
  std::vector<int32_t> class_of;
  for (int64_t t = 0; t < vocab; ++t) {
    const auto kind = static_cast<int32_t>(uniform(23, 0, 0, static_cast<uint64_t>(t)) * 20 * kClasses);
    class_of.push_back(kind < kClasses ? kind : kind % 3 - (kind % 10 == 0 ? 1 : 0));
  }
  return {std::move(class_of), kClasses};
}

void fill(KvStore& kv, ThreadPool& pool) {
  const KvShape& s = kv.shape();
  int32_t widest = 0;
  for (int layer = 0; layer < s.layers; ++layer) widest = std::max(widest, s.of(layer).head_dim);
  std::vector<std::byte> pattern(static_cast<size_t>(kPattern * widest * traits(s.type).bytes));
  synthesize_groups(s.type, 11, 0.5, 0, kPattern * widest, pattern.data());
  pool.run(int64_t{s.layers} * s.sequences, [&](int64_t i, int) {
    const int layer = static_cast<int>(i / s.sequences), sequence = static_cast<int>(i % s.sequences);
    const int64_t row = kv.row_bytes(layer);
    for (int head = 0; head < s.of(layer).heads; ++head)
      for (std::byte* half : {kv.keys(layer, sequence, head), kv.values(layer, sequence, head)})
        for (int64_t p = 0; p < s.positions; p += kPattern)
          std::memcpy(half + p * row, pattern.data(), static_cast<size_t>(std::min(kPattern, s.positions - p) * row));
  });
  for (int sequence = 0; sequence < s.sequences; ++sequence)
    for (int64_t p = 0; p < s.positions; ++p) kv.set_version(sequence, p, 0);
}

}  // namespace

double ForwardWork::bytes_read(int64_t rows) const {
  if (experts == 0) return bytes_read_touching(0);
  const double missed = 1 - static_cast<double>(experts_used) / static_cast<double>(experts);
  return bytes_read_touching((1 - std::pow(missed, static_cast<double>(rows))) * static_cast<double>(experts));
}

double ForwardWork::bytes_read_touching(double experts_touched) const {
  const auto dense = static_cast<double>(weight_bytes - expert_bytes);
  if (experts == 0) return dense;
  return dense + static_cast<double>(expert_bytes) * experts_touched / static_cast<double>(experts);
}

ForwardWork work_of(const Model& model, std::string_view isa) {
  ForwardWork work{.experts = model.config().experts, .experts_used = model.config().experts_used};
  const auto table = kernels::select(isa);
  int64_t in_experts = 0;  // multiply-adds, were all experts used
  for (const WeightInfo& w : model.graph().weights) {
    if (!w.multiplied) continue;
    // An expert stands for the first one of its stack, stored in one piece or apart.
    const TensorView* view = model.file().find(w.name);
    const DType type = view != nullptr ? view->type : model.file().tensors().back().view.type;
    const int64_t packed = table ? (*table)->packed_bytes(type, w.dims[1], w.dims[0]) : 0;
    const int64_t bytes = packed > 0 ? packed : row_bytes(type, w.dims[0]) * w.dims[1];
    work.weight_bytes += bytes;
    (w.expert >= 0 ? in_experts : work.multiply_adds_per_row) += w.dims[0] * w.dims[1];
    if (w.expert >= 0) work.expert_bytes += bytes;
  }
  if (work.experts > 0) work.multiply_adds_per_row += in_experts / work.experts * work.experts_used;
  return work;
}

ForwardTest::ForwardTest(const Model& model, ThreadPool& pool, KvStore kv)
    : model_(&model), pool_(&pool), kv_(std::move(kv)), executor_(model.device(), build_with(model.graph())) {}

Result<ForwardTest> ForwardTest::create(const Model& model, ThreadPool& pool, std::string_view isa, int64_t positions,
                                        int64_t stream_bytes) {
  LLADA_TRY(auto kv, KvStore::create(kv_shape(model, positions, false)));
  fill(kv, pool);
  ForwardTest test(model, pool, std::move(kv));
  test.work_ = work_of(model, isa);
  LLADA_TRY(test.read_, ReadTest::create(pool, stream_bytes));
  return test;
}

Result<double> ForwardTest::experts_touched(const StepInputs& inputs) {
  Trace trace;
  StepOutputs outputs;
  model_->device().set_trace(&trace);
  const Status status = executor_.run(inputs, outputs);
  model_->device().set_trace(nullptr);
  LLADA_TRY_STATUS(status);
  constexpr std::string_view kKey = R"({"experts_touched":)";
  double sum = 0, layers = 0;
  for (const Trace::Span& span : trace.spans())
    if (span.arguments.starts_with(kKey)) {
      sum += std::atof(span.arguments.c_str() + kKey.size());
      ++layers;
    }
  return layers > 0 ? sum / layers : 0;
}

Result<ForwardResult> ForwardTest::measure(PeakWatch& watch, int64_t rows, int64_t keys, int repeats,
                                           const std::function<bool()>& stopped) {
  StepInputs inputs;
  inputs.streams = {{.kv = &kv_}};
  std::vector<int32_t> tokens, positions;
  for (int64_t r = 0; r < rows; ++r) {
    const double u = uniform(17, 0, static_cast<uint64_t>(r), 0);
    tokens.push_back(static_cast<int32_t>(u * static_cast<double>(model_->config().vocab)));
    positions.push_back(static_cast<int32_t>(keys - rows + r));
    inputs.wanted.push_back(static_cast<int32_t>(r));
    inputs.predictions.push_back({.conditional = static_cast<int32_t>(r)});
  }
  append_span(inputs, {}, tokens, positions, model_->graph().keys, static_cast<int32_t>(keys));
  const SoftTokens soft = some_tokens(model_->graph().encodes ? rows : 0, model_->config().vocab);
  const std::vector<double> draws(static_cast<size_t>(rows), 0.5);
  if (model_->graph().encodes) {
    // A step of a random canvas. At this temperature rows of random weights have some tens of probable tokens.
    constexpr double kTemperature = 0.05;
    inputs.streams[0].soft = &soft, inputs.streams[0].keep_logits = true;
    inputs.streams[0].tempering = {kTemperature, draws};
  }
  StepOutputs outputs;
  Device& device = model_->device();
  LLADA_TRY_STATUS(executor_.run(inputs, outputs));

  ForwardResult r{.rows = rows, .keys = keys, .logits = rows};
  std::vector<double> built;
  for (int i = 0; i < repeats; ++i) {
    const auto count = static_cast<int32_t>(rows);
    const double begin = now_s();
    LLADA_TRY(const auto program, build_with(model_->graph())(plain_shape(count, count)));
    if (plan_values(*program).bytes == 0) return failed("bench: a program without values");
    built.push_back(now_s() - begin);
  }
  r.new_shape_ms = median(built) * 1e3;
  if (work_.experts > 0) {
    LLADA_TRY(r.experts_touched, experts_touched(inputs));
  }
  r.read_bytes = work_.bytes_read_touching(r.experts_touched);
  const bool with_form = rows == kFormRows;
  const TokenClasses classes = some_classes(with_form ? model_->config().vocab : 0);
  struct Times {
    std::vector<double> seconds, floors, percents, form_percents;
    std::array<std::vector<double>, kOpKindCount> phases;
  };
  const auto timing = [&]() -> Result<Times> {
    Times t;
    for (int i = 0; i < repeats; ++i) {
      if (stopped && stopped()) return failed("bench: stopped");
      const double rate = read_.gb_per_s(*pool_, 1);
      device.take_phase_times();
      const double begin = now_s();
      LLADA_TRY_STATUS(executor_.run(inputs, outputs));
      t.seconds.push_back(now_s() - begin);
      t.floors.push_back(r.read_bytes / rate / 1e6);
      t.percents.push_back(t.floors.back() / t.seconds.back() / 10);
      const PhaseTimes ms = device.take_phase_times();
      for (size_t kind = 0; kind < t.phases.size(); ++kind) t.phases[kind].push_back(ms[kind]);
      if (!with_form) continue;
      inputs.streams[0].reading.classes = &classes;
      const double form_begin = now_s();
      LLADA_TRY_STATUS(executor_.run(inputs, outputs));
      t.form_percents.push_back(100 * ((now_s() - form_begin) / t.seconds.back() - 1));
      inputs.streams[0].reading = {};
    }
    return t;
  };
  LLADA_TRY(const auto timed, watch.time<Times>(PeakWatch::Unit::int8, timing));
  const auto& [times, floors, percents, form_percents, phases] = timed.value;
  const double top = timed.peak, seconds = median(times);
  r.timings = timed.timings;
  r.ms = seconds * 1e3;
  r.floor_ms = median(floors), r.percent_of_floor = median(percents);
  r.percent_of_floor_best = *std::ranges::min_element(floors) / *std::ranges::min_element(times) / 10;
  r.ms_min = *std::ranges::min_element(times) * 1e3;
  r.ms_max = *std::ranges::max_element(times) * 1e3;
  r.gop_per_s = 2.0 * static_cast<double>(rows) * static_cast<double>(work_.multiply_adds_per_row) / seconds / 1e9;
  r.percent_of_int8_peak = top > 0 ? 100 * r.gop_per_s / top : 0;
  r.read_gb_per_s = r.read_bytes / seconds / 1e9;
  if (with_form) r.form_percent = median(form_percents);
  for (size_t kind = 0; kind < phases.size(); ++kind) r.phase_ms[kind] = median(phases[kind]);
  return r;
}

}  // namespace llada::bench
