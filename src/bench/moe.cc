#include "bench/moe.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "tensor/synthesize.h"

namespace llada::bench {
namespace {

enum : uint64_t { kOrderDraw = 31, kRouteDraw, kInputDraw };

Shape matrix(int64_t inputs, int64_t outputs) { return {{inputs, outputs, 1, 1}, 2}; }

}  // namespace

std::string_view name(MoeRouting routing) { return routing == MoeRouting::uniform ? "uniform" : "skewed"; }

std::vector<float> synthetic_gates(MoeRouting routing, int64_t rows, int64_t experts, int64_t used, uint64_t seed) {
  std::vector<double> log_weight(static_cast<size_t>(experts), 0.0);
  if (routing == MoeRouting::skewed) {
    std::vector<size_t> order(static_cast<size_t>(experts));
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t e) { return uniform(seed, 0, e, kOrderDraw); });
    for (size_t rank = 0; rank < order.size(); ++rank)
      log_weight[order[rank]] = -std::log(static_cast<double>(rank + 1));
  }
  std::vector<float> gates(static_cast<size_t>(rows * experts), 0.0f);
  std::vector<std::pair<double, int64_t>> draw(static_cast<size_t>(experts));
  for (int64_t r = 0; r < rows; ++r) {
    // The k largest of weight + Gumbel noise are k draws without replacement.
    for (int64_t e = 0; e < experts; ++e) {
      const double u = uniform(seed, static_cast<uint64_t>(r), static_cast<uint64_t>(e), kRouteDraw);
      draw[static_cast<size_t>(e)] = {std::log(-std::log(u)) - log_weight[static_cast<size_t>(e)], e};
    }
    std::ranges::partial_sort(draw, draw.begin() + used);
    for (int64_t k = 0; k < used; ++k)
      gates[static_cast<size_t>(r * experts + draw[static_cast<size_t>(k)].second)] = 1.0f / static_cast<float>(used);
  }
  return gates;
}

Result<MoeTest> MoeTest::create(const kernels::KernelTable& table, ThreadPool& pool, const ModelConfig& config,
                                DType type) {
  MoeTest test;
  test.table_ = &table;
  test.pool_ = &pool;
  test.experts_ = config.experts, test.used_ = config.experts_used;
  test.width_ = config.width, test.inner_ = config.expert_ffn_width;
  // Stored as conversion stores them: rows that the type cannot hold are F16.
  const auto stored = [&](int64_t inputs) { return inputs % traits(type).elements == 0 ? type : DType::F16; };
  std::vector<WeightInfo> infos;
  std::vector<TensorView> views;
  for (int slot = 0; slot < 3; ++slot) {
    const bool down = slot == 2;
    const int64_t inputs = down ? test.inner_ : test.width_, outputs = down ? test.width_ : test.inner_;
    for (int64_t e = 0; e < test.experts_; ++e) {
      infos.push_back({"experts", {inputs, outputs}, 0, static_cast<int16_t>(e)});
      views.push_back({nullptr, stored(inputs), matrix(inputs, outputs)});
    }
  }
  // What the kernels pack is stored in one place, matrix after matrix; what they use as stored has its own.
  constexpr int64_t kAlign = 4096;
  int64_t shared = 0, bytes = 0;
  std::vector<int64_t> offsets(views.size(), 0);
  const auto packs = [&](const TensorView& v) {
    return table.packed_bytes(v.type, v.shape.rows(), v.shape.columns()) > 0;
  };
  for (const TensorView& v : views)
    if (packs(v)) shared = std::max(shared, (v.bytes() + kAlign - 1) / kAlign * kAlign);
  bytes = shared;
  for (size_t i = 0; i < views.size(); ++i) {
    if (packs(views[i])) continue;
    offsets[i] = bytes;
    bytes += (views[i].bytes() + kAlign - 1) / kAlign * kAlign;
  }
  test.stored_ = allocate_aligned(bytes);
  if (test.stored_ == nullptr) return failed("moe: {} bytes could not be allocated", bytes);
  for (size_t i = 0; i < views.size(); ++i) views[i].data = test.stored_.get() + offsets[i];
  const auto make = [&](size_t i) {
    const TensorView& v = views[i];
    const double spread = 1 / std::sqrt(static_cast<double>(v.shape.columns()));
    synthesize_groups(v.type, mix64(i), spread, 0, v.shape.elements() / traits(v.type).elements,
                      test.stored_.get() + offsets[i]);
  };
  const auto weights =
      std::make_shared<CpuWeights>(table, infos, views, WeightHooks{.planned = {}, .wanted = make, .packed = {}});
  LLADA_TRY_STATUS(weights->load(pool, weights->every_id()));
  test.weights_ = weights;
  return test;
}

int64_t MoeTest::expert_bytes() const {
  int64_t bytes = 0;
  for (const int64_t slot : {int64_t{0}, experts_, 2 * experts_}) {
    const CpuWeight& w = weights_->list[static_cast<size_t>(slot)];
    const int64_t packed = table_->packed_bytes(w.stored.type, w.outputs, w.inputs);
    bytes += packed > 0 ? packed : w.stored.bytes();
  }
  return bytes;
}

Status MoeTest::run(const std::vector<float>& gates, int64_t rows, int16_t used) {
  Op op{.kind = OpKind::experts};
  op.weight = {0, static_cast<WeightId>(experts_), static_cast<WeightId>(2 * experts_)};
  op.experts = static_cast<int16_t>(experts_), op.experts_used = used;
  return run_->run({.kernels = table_,
                    .pool = pool_,
                    .weights = weights_->list,
                    .op = &op,
                    .x = x_.data(),
                    .gates = gates.data(),
                    .rows = rows,
                    .out = out_.data()});
}

void MoeTest::reserve(int64_t rows) {
  x_.resize(static_cast<size_t>(rows * width_));
  out_.resize(x_.size());
  for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(2 * uniform(1, 0, i, kInputDraw) - 1);
}

Result<MoeResult> MoeTest::measure(MoeRouting routing, int64_t rows, const ReadTest& read, int repeats) {
  reserve(rows);
  MoeResult r{.routing = routing, .rows = rows, .experts = experts_, .used = used_, .width = width_, .inner = inner_};
  std::vector<double> times, floors, rates, percents;
  // Every repeat draws anew, so that none finds its experts in a cache because the last one used them.
  for (int i = 0; i <= repeats; ++i) {
    const auto gates = synthetic_gates(routing, rows, experts_, used_, static_cast<uint64_t>(i));
    const double rate = read.gb_per_s(*pool_, 1);
    const double begin = now_s();
    LLADA_TRY_STATUS(run(gates, rows, static_cast<int16_t>(used_)));
    if (i == 0) continue;
    times.push_back((now_s() - begin) * 1e3);
    rates.push_back(rate);
    floors.push_back(static_cast<double>(run_->touched() * expert_bytes()) / rate / 1e6);
    percents.push_back(100 * floors.back() / times.back());
    r.touched += run_->touched();
  }
  r.touched /= repeats;
  r.bytes = r.touched * expert_bytes();
  r.read_gb_per_s = median(rates), r.floor_ms = median(floors), r.percent_of_floor = median(percents);
  const double best_floor = static_cast<double>(r.bytes) / *std::ranges::max_element(rates) / 1e6;
  r.percent_of_floor_best = 100 * best_floor / *std::ranges::min_element(times);
  r.ms = median(times), r.ms_min = *std::ranges::min_element(times), r.ms_max = *std::ranges::max_element(times);

  const std::vector<float> all(static_cast<size_t>(rows * experts_), 1.0f / static_cast<float>(experts_));
  times.clear();
  for (int i = 0; i < std::min(repeats, 3); ++i) {
    const double begin = now_s();
    LLADA_TRY_STATUS(run(all, rows, static_cast<int16_t>(experts_)));
    times.push_back((now_s() - begin) * 1e3);
  }
  r.dense_ms = median(times);
  return r;
}

}  // namespace llada::bench
