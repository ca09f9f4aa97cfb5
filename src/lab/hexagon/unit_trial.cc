#include "lab/hexagon/unit_trial.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>

#include "base/fnv.h"
#include "devices/hexagon/pack.h"
#include "lab/hexagon/one_op.h"
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
    const auto aligned = [](int64_t bytes) { return (bytes + 127) / 128 * 128; };
    p.x_ = aligned(layout_bytes(*layout, outputs, inputs));
    p.y_ = p.x_ + aligned(rows * inputs * 4);
    const int64_t scratch = p.y_ + aligned(rows * outputs * 4);
    p.scratch_ = static_cast<uint32_t>(scratch);
    LLADA_TRY(p.buffer_, buffer_of(library, scratch + kTrialScratch));
    static_cast<void>(pack(*layout, view, 0, outputs, p.buffer_->data()));
    auto* x = reinterpret_cast<float*>(p.buffer_->data() + p.x_);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t k = 0; k < inputs; ++k) x[r * inputs + k] = row(r, k);
    LLADA_TRY(p.number_, session->map(p.buffer_));
    return p;
  }

  // Microseconds of the DSP's clock. The results before are gone, so that none of them can be read for new ones.
  Result<double> run(int64_t rows, uint32_t units) {
    std::fill_n(reinterpret_cast<float*>(buffer_->data() + y_), rows * outputs_, NAN);
    WireOp op = empty_op(WIRE_MATMUL, static_cast<uint32_t>(rows), static_cast<uint32_t>(inputs_));
    op.in[0] = {number_, static_cast<uint32_t>(x_)}, op.out[0] = {number_, static_cast<uint32_t>(y_)};
    op.weight[0] = {{number_, 0}, layout_, static_cast<uint32_t>(inputs_), static_cast<uint32_t>(outputs_)};
    LLADA_TRY(const WireReply reply, run_op(*session_, op, number_, *buffer_,
                                            {.scratch = {number_, scratch_},
                                             .scratch_bytes = kTrialScratch,
                                             .units = units,
                                             .deadline_s = deadline_s_}));
    return static_cast<double>(reply.microseconds[WIRE_MATMUL]);
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
  int64_t outputs_ = 0, inputs_ = 0, x_ = 0, y_ = 0;
  double deadline_s_ = 0;
};

class Trial {
 public:
  Trial(std::shared_ptr<Library> library, std::shared_ptr<Session> session, const UnitTrialSize& size)
      : library_(std::move(library)), session_(std::move(session)), size_(size) {}

  Result<UnitTrial> run() {
    for (auto part : {&Trial::integers, &Trial::weights, &Trial::products, &Trial::repetitions, &Trial::times}) {
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

  // Inputs are about normal, so that the vector unit's roundings to 8 bits make half a percent, and none a multiple.
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
        double off = 0, all = 0, worst = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          const double apart = static_cast<double>(got[i]) - static_cast<double>(want[i]);
          off += apart * apart, all += static_cast<double>(want[i]) * static_cast<double>(want[i]);
          worst = std::max(worst, std::isfinite(apart) ? std::abs(apart) : INFINITY);
        }
        const double size = std::sqrt(all / static_cast<double>(got.size()));
        const double apart = std::sqrt(off / all);
        constexpr double kMost = 0.02, kWorst = 0.12;  // four times of half a percent; six times of that
        if (!(apart <= kMost) || !(worst <= kWorst * size))
          return fmt::format(
              "{} rows of {} differ from the vector unit's by {:.3g} % of their size, at most by {:.3g} %", rows,
              traits(type).name, apart * 100, worst / size * 100);
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
