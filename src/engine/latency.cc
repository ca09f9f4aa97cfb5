#include "engine/latency.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>

#include "base/cpu_time.h"
#include "decode/canvas.h"
#include "engine/model.h"
#include "engine/model_runner.h"
#include "engine/request.h"

namespace llada {
namespace {

// Finer around multiples of 8, where kernels' row tiles end.
constexpr std::array<int64_t, 19> kLadder = {1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 192, 256};
constexpr double kSlowMs = 500, kEnoughMs = 20;
constexpr size_t kLeastRuns = 3, kMostRuns = 25;

decode::StepPlan plan_of(const Model& model, int64_t rows, const LatencyRequest& request) {
  decode::StepPlan plan;
  plan.rows.resize(static_cast<size_t>(rows));
  std::iota(plan.rows.begin(), plan.rows.end(), static_cast<int32_t>(request.keys - rows));
  // Half of a block is decided, and its tokens differ: rows that are all alike would be routed to the same few experts,
  // and the more rows of a mixture the cheaper they would seem.
  const int64_t vocab = model.config().vocab;
  for (int64_t i = 0; i < rows; ++i)
    plan.inputs.push_back(i % 2 == 0 ? model.special_ids().mask : static_cast<int32_t>(i * 7919 % vocab));
  const auto wanted = static_cast<std::ptrdiff_t>(std::min(rows, request.logit_rows));
  plan.logits.assign(plan.rows.end() - wanted, plan.rows.end());
  plan.keys = static_cast<int32_t>(request.keys);
  return plan;
}

// Wall clock; on a device that lives in emulated time its own. One processor thread computes in the caller: then its
// processor time, which other programs change little (beside three builds, 20 rows took longer than 32 by the wall
// clock).
Result<double> timed(Device& device, ModelRunner& runner, RequestStep step) {
  Clock* const clock = device.capabilities().clock;
  const double emulated = clock != nullptr ? clock->emulated().seconds : 0;
  const auto begin = std::chrono::steady_clock::now();
  const double cpu_begin = thread_cpu_seconds();
  runner.run({&step, 1});
  LLADA_TRY_STATUS(step.status);
  if (clock == nullptr && device.info().name == "cpu" && device.info().threads == 1)
    return (thread_cpu_seconds() - cpu_begin) * 1e3;
  if (clock != nullptr) return (clock->emulated().seconds - emulated) * 1e3;
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

Result<double> median_ms(Device& device, ModelRunner& runner, const RequestStep& step) {
  LLADA_TRY(const double first, timed(device, runner, step));
  if (first >= kSlowMs) return first;
  std::vector<double> times;
  for (double sum = 0; times.size() < kLeastRuns || (sum < kEnoughMs && times.size() < kMostRuns);) {
    LLADA_TRY(const double ms, timed(device, runner, step));
    times.push_back(ms);
    sum += ms;
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

}  // namespace

double LatencyTable::ms(int64_t rows) const {
  const auto x = static_cast<double>(rows);
  const auto through = [&](double x0, double y0, double x1, double y1) {
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
  };
  const auto after = std::ranges::lower_bound(points, rows, {}, &LatencyPoint::rows);
  if (after == points.begin()) return through(0, 0, static_cast<double>(after->rows), after->ms);
  if (after == points.end() && points.size() == 1) return points[0].ms * x / static_cast<double>(points[0].rows);
  const auto high = after == points.end() ? after - 1 : after;
  const auto low = high - 1;
  return through(static_cast<double>(low->rows), low->ms, static_cast<double>(high->rows), high->ms);
}

std::vector<LatencyPoint> LatencyTable::buckets() const {
  std::vector<LatencyPoint> ascending;
  for (const LatencyPoint& point : points) {
    while (!ascending.empty() && ascending.back().ms >= point.ms) ascending.pop_back();
    ascending.push_back(point);
  }
  return ascending;
}

Result<LatencyTable> measure_latency(const Model& model, const LatencyRequest& asked) {
  LatencyRequest request = asked;
  const int64_t context = model.config().context;
  if (request.keys == 0) request.keys = context > 0 ? std::min<int64_t>(256, context) : 256;
  if (request.keys < 1 || (context > 0 && request.keys > context))
    return invalid("latency table: found {} positions, needed 1 to the model's {}", request.keys, context);
  if (request.most_rows == 0) request.most_rows = model.config().experts > 0 ? 256 : 128;
  request.most_rows = std::clamp<int64_t>(request.most_rows, 1, request.keys);
  LLADA_TRY(const OwnDevices own, share_devices(model, request.threads));
  Device& device = device_of(model, own);
  SamplingRule rule;
  rule.never_sampled = {model.special_ids().mask};
  ModelRunner runner(model, device, nullptr, executor_options(model, own, {}));
  LLADA_TRY(auto state, RequestState::create(model, device, request.keys, false, rule));
  const decode::Canvas canvas = decode::fixed_canvas(std::vector<int32_t>(static_cast<size_t>(request.keys), 0));
  // The same forward again and again: nothing is taken of its results.
  const auto denoiser = [&](int64_t rows) {
    return decode::Denoiser(canvas, decode::one_forward(plan_of(model, rows, request)));
  };
  decode::Denoiser whole = denoiser(request.keys);  // fills the store
  LLADA_TRY(const double all, timed(device, runner, {&whole, &state}));
  static_cast<void>(all);
  LatencyTable table{device.info().description, request.keys, request.logit_rows, {}};
  std::vector<int64_t> ladder;
  for (const int64_t rows : kLadder)
    if (rows < request.most_rows) ladder.push_back(rows);
  ladder.push_back(request.most_rows);
  for (const int64_t rows : ladder) {
    decode::Denoiser part = denoiser(rows);
    LLADA_TRY(const double ms, median_ms(device, runner, {&part, &state}));
    table.points.push_back({rows, ms});
  }
  return table;
}

}  // namespace llada
