#include "lab/hexagon/unit_trial.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>

#include "base/fnv.h"
#include "devices/hexagon/pack.h"
#include "lab/hexagon/one_op.h"
#include "tensor/half.h"
#include "tensor/quantize.h"

namespace llada::hexagon {
namespace {

constexpr uint32_t kTrialScratch = 8 << 20;
constexpr int64_t kTile = 32;

// Whole numbers from -most to most that no pattern of places repeats.
float whole(int64_t i, int64_t j, int64_t most) {
  const auto mixed = static_cast<uint64_t>(i * 1000003 + j + 1) * 0x9e3779b97f4a7c15u;
  return static_cast<float>(static_cast<int64_t>((mixed >> 33) % static_cast<uint64_t>(2 * most + 1)) - most);
}
// About normal: the sum of four of them.
float spread(int64_t i, int64_t j) {
  float sum = 0;
  for (int64_t part = 0; part < 4; ++part) sum += whole(4 * i + part, j, 1000);
  return sum / 1000;
}

// To 11 digits, ties to even: what one rounding to FP16 leaves of a sum.
double rounded(double sum) {
  int exponent = 0;
  std::frexp(sum, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(sum, 11 - exponent)), exponent - 11);
}

using Element = std::function<float(int64_t, int64_t)>;  // of output or row, and input

int64_t aligned(int64_t bytes) { return (bytes + 127) / 128 * 128; }

// Empty where results of the matrix unit are as near to the vector unit's as the latter's roundings allow, which are
// half a percent of a product of inputs that are about normal.
std::string difference(const std::string& what, const std::vector<float>& got, const std::vector<float>& want) {
  double off = 0, all = 0, worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double apart = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    off += apart * apart, all += static_cast<double>(want[i]) * static_cast<double>(want[i]);
    worst = std::max(worst, std::isfinite(apart) ? std::abs(apart) : INFINITY);
  }
  const double size = std::sqrt(all / static_cast<double>(got.size())), apart = std::sqrt(off / all);
  constexpr double kMost = 0.02, kWorst = 0.12;  // four times of half a percent; six times of that
  if (apart <= kMost && worst <= kWorst * size) return {};
  return fmt::format("{} differ from the vector unit's by {:.3g} % of their size, at most by {:.3g} %", what,
                     apart * 100, worst / size * 100);
}

// A weight, rows, and their product in one buffer of a session.
class UnitProduct {
 public:
  static Result<UnitProduct> make(const std::shared_ptr<Library>& library, const std::shared_ptr<Session>& session,
                                  DType type, int64_t outputs, int64_t inputs, int64_t rows, const Element& weight,
                                  const Element& row, double deadline_s) {
    UnitProduct p;
    p.session_ = session, p.outputs_ = outputs, p.inputs_ = inputs, p.deadline_s_ = deadline_s;
    const auto layout = layout_for(type);
    std::vector<std::byte> stored(static_cast<size_t>(outputs * row_bytes(type, inputs)));
    std::vector<float> values(static_cast<size_t>(inputs));
    p.weights_.resize(static_cast<size_t>(outputs * inputs));
    for (int64_t n = 0; n < outputs; ++n) {
      for (int64_t k = 0; k < inputs; ++k) values[static_cast<size_t>(k)] = weight(n, k);
      std::byte* const to = stored.data() + n * row_bytes(type, inputs);
      quantize_row(type, values.data(), to, inputs);
      dequantize_row(type, to, p.weights_.data() + n * inputs, inputs);
    }
    TensorView view{stored.data(), type, {}};
    view.shape.dims = {inputs, outputs, 1, 1};
    view.shape.rank = 2;
    p.layout_ = *layout;
    p.x_ = aligned(layout_bytes(*layout, outputs, inputs));
    p.y_ = p.x_ + aligned(rows * inputs * 4);
    p.predictions_ = p.y_ + aligned(rows * outputs * 4);
    const int64_t scratch = p.predictions_ + aligned(rows * int64_t{sizeof(WirePrediction)});
    p.scratch_ = static_cast<uint32_t>(scratch);
    LLADA_TRY(p.buffer_, buffer_of(library, scratch + kTrialScratch));
    static_cast<void>(pack(*layout, view, 0, outputs, p.buffer_->data()));
    auto* x = reinterpret_cast<float*>(p.buffer_->data() + p.x_);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t k = 0; k < inputs; ++k) x[r * inputs + k] = row(r, k);
    LLADA_TRY(p.number_, session->map(p.buffer_));
    return p;
  }

  // Microseconds of the DSP's clock. The results before are gone, so that none of them can be read for new ones. kind:
  // a product alone, or the head, whose logits are the results.
  Result<double> run(int64_t rows, uint32_t units, WireKind kind = WIRE_MATMUL) {
    std::fill_n(reinterpret_cast<float*>(buffer_->data() + y_), rows * outputs_, NAN);
    WireOp op = empty_op(kind, static_cast<uint32_t>(rows), static_cast<uint32_t>(inputs_));
    op.in[0] = {number_, static_cast<uint32_t>(x_)};
    (kind == WIRE_HEAD ? op.logits : op.out[0]) = {number_, static_cast<uint32_t>(y_)};
    if (kind == WIRE_HEAD) op.predictions = {number_, static_cast<uint32_t>(predictions_)};
    op.weight[0] = {{number_, 0}, layout_, static_cast<uint32_t>(inputs_), static_cast<uint32_t>(outputs_)};
    LLADA_TRY(const WireReply reply, run_op(*session_, op, number_, *buffer_,
                                            {.scratch = {number_, scratch_},
                                             .scratch_bytes = kTrialScratch,
                                             .units = units,
                                             .deadline_s = deadline_s_}));
    return static_cast<double>(reply.microseconds[kind]);
  }
  float result(int64_t r, int64_t n) const {
    return reinterpret_cast<const float*>(buffer_->data() + y_)[r * outputs_ + n];
  }
  std::vector<float> results(int64_t rows) const {
    const auto* y = reinterpret_cast<const float*>(buffer_->data() + y_);
    return {y, y + rows * outputs_};
  }
  float weight(int64_t n, int64_t k) const { return weights_[static_cast<size_t>(n * inputs_ + k)]; }

 private:
  std::shared_ptr<Session> session_;
  std::shared_ptr<Buffer> buffer_;
  std::vector<float> weights_;  // as the file's type has them
  uint32_t number_ = 0, layout_ = 0, scratch_ = 0;
  int64_t outputs_ = 0, inputs_ = 0, x_ = 0, y_ = 0, predictions_ = 0;
  double deadline_s_ = 0;
};

// Rows of four heads that see keys of a store, two heads each of its two.
class UnitAttention {
 public:
  static Result<UnitAttention> make(const std::shared_ptr<Library>& library, const std::shared_ptr<Session>& session,
                                    int64_t head_dim, int64_t keys, int64_t rows, double deadline_s) {
    UnitAttention a;
    a.session_ = session, a.head_dim_ = head_dim, a.keys_ = keys, a.deadline_s_ = deadline_s;
    const int64_t store = aligned(kStored * keys * head_dim * 2), q = rows * kHeads * head_dim * 4;
    a.q_ = 2 * store, a.out_ = a.q_ + q, a.span_ = a.out_ + q;
    a.ranges_ = a.span_ + aligned(sizeof(WireSpan));
    a.scratch_ = a.ranges_ + aligned(rows * int64_t{sizeof(WireKeys)});
    LLADA_TRY(a.buffer_, buffer_of(library, a.scratch_ + kTrialScratch));
    auto* stored = reinterpret_cast<uint16_t*>(a.buffer_->data());
    for (int64_t i = 0; i < store; ++i) stored[i] = float_to_f16(spread(i / head_dim, i % head_dim));
    for (int64_t i = 0; i < q / 4; ++i) a.at<float>(a.q_)[i] = 2 * spread(i / head_dim + 90000, i % head_dim);
    // Some rows see fewer keys than others, from another one on.
    for (int64_t r = 0; r < rows; ++r)
      a.at<WireKeys>(a.ranges_)[r] = {static_cast<uint32_t>(r % 5 * 7), static_cast<uint32_t>(keys - r % 3 * 11)};
    LLADA_TRY(a.number_, session->map(a.buffer_));
    return a;
  }

  Result<std::vector<float>> run(int64_t rows, uint32_t units) {
    const int64_t elements = rows * kHeads * head_dim_, store = q_ / 2;
    std::fill_n(at<float>(out_), elements, NAN);
    *at<WireSpan>(span_) = {0, static_cast<uint32_t>(rows), 0, 0, 0, 0};
    WireOp op = empty_op(WIRE_ATTENTION, static_cast<uint32_t>(rows), 0);
    op.in[0] = ref(q_), op.out[0] = ref(out_), op.spans = ref(span_), op.span_count = 1, op.index = ref(ranges_);
    op.heads = kHeads, op.head_dim = static_cast<uint16_t>(head_dim_);
    op.parameter = 1 / std::sqrt(static_cast<float>(head_dim_));
    const auto stride = static_cast<uint32_t>(keys_ * head_dim_ * 2);
    op.kv = {ref(0),
             ref(store),
             kStored * stride,
             stride,
             1,
             static_cast<uint32_t>(keys_),
             kStored,
             static_cast<uint32_t>(head_dim_),
             1,
             op.kv.trial};
    LLADA_TRY(
        [[maybe_unused]] const WireReply reply,
        run_op(*session_, op, number_, *buffer_,
               {.scratch = ref(scratch_), .scratch_bytes = kTrialScratch, .units = units, .deadline_s = deadline_s_}));
    return std::vector<float>(at<float>(out_), at<float>(out_) + elements);
  }

 private:
  static constexpr uint32_t kHeads = 4, kStored = 2;
  template <class T>
  T* at(int64_t offset) const {
    return reinterpret_cast<T*>(buffer_->data() + offset);
  }
  WireRef ref(int64_t offset) const { return {number_, static_cast<uint32_t>(offset)}; }

  std::shared_ptr<Session> session_;
  std::shared_ptr<Buffer> buffer_;
  uint32_t number_ = 0;
  int64_t head_dim_ = 0, keys_ = 0, q_ = 0, out_ = 0, span_ = 0, ranges_ = 0, scratch_ = 0;
  double deadline_s_ = 0;
};

class Trial {
 public:
  Trial(std::shared_ptr<Library> library, std::shared_ptr<Session> session, const UnitTrialSize& size)
      : library_(std::move(library)), session_(std::move(session)), size_(size) {}

  Result<UnitTrial> run() {
    for (auto part : {&Trial::integers, &Trial::weights, &Trial::products, &Trial::head, &Trial::attention,
                      &Trial::repetitions, &Trial::times}) {
      LLADA_TRY(trial_.why, (this->*part)());
      if (!trial_.why.empty()) return trial_;
    }
    trial_.passed = true;
    return trial_;
  }

 private:
  Result<UnitProduct> product(DType type, int64_t outputs, int64_t inputs, int64_t rows, const Element& weight,
                              const Element& row) {
    return UnitProduct::make(library_, session_, type, outputs, inputs, rows, weight, row, size_.deadline_s);
  }

  // One tile, one stripe of tiles, several stripes. Sums of whole numbers stay far below 2^28.
  Result<std::string> integers() {
    for (const int64_t inputs : {kTile, 32 * kTile, std::max(size_.inputs, 33 * kTile)}) {
      // A 127 in each group is its largest number, so that the scale of Q8_0 is 1.
      const auto weight = [](int64_t n, int64_t k) { return k % 32 == 0 ? 127.0f : whole(n, k, 127); };
      const auto row = [](int64_t r, int64_t k) { return whole(r + 5000, k, 127); };
      LLADA_TRY(auto p, product(DType::Q8_0, kTile, inputs, kTile, weight, row));
      LLADA_TRY([[maybe_unused]] const double us, p.run(kTile, WIRE_UNIT_MATRIX));
      for (int64_t r = 0; r < kTile; ++r)
        for (int64_t n = 0; n < kTile; ++n) {
          double sum = 0;
          for (int64_t k = 0; k < inputs; ++k) sum += static_cast<double>(weight(n, k) * row(r, k));
          if (static_cast<double>(p.result(r, n)) != rounded(sum))
            return fmt::format("the sum of {} whole numbers in row {}, output {} is {:g}, needed {:g}", inputs, r, n,
                               p.result(r, n), rounded(sum));
        }
    }
    return std::string();
  }

  // A row with a single 1 gives a column of the weights as they were widened: 11 digits of what was packed.
  Result<std::string> weights() {
    for (const DType type : {DType::Q4_0, DType::Q8_0, DType::F16}) {
      LLADA_TRY(auto p,
                product(type, kTile, kTile, kTile, spread, [](int64_t r, int64_t k) { return r == k ? 1.0f : 0.0f; }));
      LLADA_TRY([[maybe_unused]] const double us, p.run(kTile, WIRE_UNIT_MATRIX));
      for (int64_t n = 0; n < kTile; ++n)
        for (int64_t k = 0; k < kTile; ++k) {
          constexpr double kPacked = 4 * 0x1p-14;  // of weights up to 4
          const auto want = static_cast<double>(p.weight(n, k)), got = static_cast<double>(p.result(k, n));
          if (!(std::abs(got - want) <= std::abs(want) * 0x1p-10 + kPacked))
            return fmt::format("a weight of {} in input {}, output {} is {:g}, needed {:g}", traits(type).name, k, n,
                               got, want);
        }
    }
    return std::string();
  }

  Result<std::string> products() {
    for (const DType type : {DType::Q4_0, DType::Q8_0, DType::F16, DType::BF16}) {
      LLADA_TRY(auto p, product(type, std::min<int64_t>(size_.outputs, 1024), size_.inputs, size_.rows, spread,
                                [](int64_t r, int64_t k) { return spread(r + 5000, k); }));
      for (const int64_t rows : {int64_t{1}, int64_t{9}, int64_t{32}, int64_t{33}, size_.rows}) {
        if (rows > size_.rows) continue;
        LLADA_TRY([[maybe_unused]] const double integers, p.run(rows, 0));
        const std::vector<float> want = p.results(rows);
        LLADA_TRY([[maybe_unused]] const double us, p.run(rows, WIRE_UNIT_MATRIX));
        const std::vector<float> got = p.results(rows);
        if (std::string why = difference(fmt::format("{} rows of {}", rows, traits(type).name), got, want);
            !why.empty())
          return why;
      }
    }
    return std::string();
  }

  // More tokens than a turn has, and the logits of all.
  Result<std::string> head() {
    const int64_t rows = size_.attention_rows;
    LLADA_TRY(auto p, product(DType::Q4_0, 9 * 512 + kTile, std::min<int64_t>(size_.inputs, 256), rows, spread,
                              [](int64_t r, int64_t k) { return spread(r + 5000, k); }));
    LLADA_TRY([[maybe_unused]] const double integers, p.run(rows, 0, WIRE_HEAD));
    const std::vector<float> want = p.results(rows);
    LLADA_TRY([[maybe_unused]] const double us, p.run(rows, WIRE_UNIT_MATRIX, WIRE_HEAD));
    return difference(fmt::format("logits of {} rows", rows), p.results(rows), want);
  }

  // Every head size; few keys, and those of more than a chunk.
  Result<std::string> attention() {
    const int64_t rows = size_.attention_rows;
    for (const int64_t head_dim : {32, 64, 128})
      for (const int64_t keys : {int64_t{70}, size_.keys}) {
        LLADA_TRY(auto a, UnitAttention::make(library_, session_, head_dim, keys, rows, size_.deadline_s));
        LLADA_TRY(const std::vector<float> want, a.run(rows, 0));
        LLADA_TRY(const std::vector<float> got, a.run(rows, WIRE_UNIT_MATRIX));
        const std::string what = fmt::format("{} rows of attention to {} keys, heads of {},", rows, keys, head_dim);
        if (std::string why = difference(what, got, want); !why.empty()) return why;
        for (int i = 1; i < size_.repetitions / 8 && head_dim == 64 && keys == size_.keys; ++i) {
          LLADA_TRY(const std::vector<float> again, a.run(rows, WIRE_UNIT_MATRIX));
          if (std::memcmp(again.data(), got.data(), got.size() * 4) != 0)
            return fmt::format("repetition {} of {} has other bits than those before", i + 1, what);
        }
      }
    return std::string();
  }

  Result<std::string> repetitions() {
    LLADA_TRY(auto p, product(DType::Q4_0, std::min<int64_t>(size_.outputs, 1024), size_.inputs, size_.rows, spread,
                              [](int64_t r, int64_t k) { return spread(r + 5000, k); }));
    for (int i = 0; i < size_.repetitions; ++i) {
      LLADA_TRY([[maybe_unused]] const double us, p.run(size_.rows, WIRE_UNIT_MATRIX));
      const std::vector<float> y = p.results(size_.rows);
      Fnv hash;
      hash.add_words(std::as_bytes(std::span(y)));
      if (i > 0 && hash.hash() != trial_.hash)
        return fmt::format("repetition {} of one product has other bits than those before", i + 1);
      trial_.hash = hash.hash();
    }
    return std::string();
  }

  Result<std::string> times() {
    LLADA_TRY(auto p, product(DType::Q4_0, size_.outputs, size_.inputs, size_.rows, spread,
                              [](int64_t r, int64_t k) { return spread(r + 5000, k); }));
    for (const int64_t rows : {int64_t{1}, int64_t{9}, int64_t{32}, size_.rows}) {
      if (rows > size_.rows) continue;
      UnitTrial::Time time{.rows = rows};
      for (const uint32_t units : {0u, uint32_t{WIRE_UNIT_MATRIX}}) {
        double& best = units != 0 ? time.matrix_us : time.vector_us;
        for (int i = 0; i < size_.timed; ++i) {
          LLADA_TRY(const double us, p.run(rows, units));
          best = i == 0 ? us : std::min(best, us);
        }
      }
      trial_.times.push_back(time);
    }
    return std::string();
  }

  std::shared_ptr<Library> library_;
  std::shared_ptr<Session> session_;
  UnitTrialSize size_;
  UnitTrial trial_;
};

}  // namespace

Result<UnitTrial> try_unit(const std::shared_ptr<Library>& library, const std::shared_ptr<Session>& session,
                           const UnitTrialSize& size) {
  return Trial(library, session, size).run();
}

}  // namespace llada::hexagon
