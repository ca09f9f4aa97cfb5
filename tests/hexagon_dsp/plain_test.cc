// The vector unit's kernels against their definitions in plain C++ (src/devices/hexagon/dsp/*_plain.cc and
// plain::quantize_row), compiled for this machine: bit for bit, over random and adversarial numbers. How far the
// definitions lie from exact arithmetic is the other tests' subject.
#include <cmath>
#include <cstring>
#include <functional>

#include "devices/hexagon/dsp/activations.h"
#include "devices/hexagon/dsp/fixed_math.h"
#include "devices/hexagon/dsp/head.h"
#include "devices/hexagon/dsp/rows_plain.h"
#include "hexagon_dsp/dsp_test.h"
#include "kernels/kernel_test_data.h"
#include "tensor/half.h"

namespace llada::hexagon {
namespace {

using kernels::testing::Random;

// Mantissas are random or such as round badly, signs are random, a sixteenth is zero.
float number(Random& random, uint32_t lowest_field, uint32_t fields) {
  constexpr uint32_t kMantissas[] = {0, 1, 0x7fffff, 0x400000, 0x3fffff, 0x400001, 0x7e0000, 0x7dffff};
  const auto pick = static_cast<size_t>(random.below(16));
  const uint32_t sign = static_cast<uint32_t>(random.below(2)) << 31;
  const auto field = lowest_field + static_cast<uint32_t>(random.below(fields));
  const uint32_t mantissa = pick < 8 ? kMantissas[pick] : static_cast<uint32_t>(random.below(1 << 23));
  return dsp::float_of(random.below(16) == 0 ? sign : sign | field << 23 | mantissa);
}
// Rows of `columns`: like activations; exponents far apart; close ones, which cancel; numbers of every kind in the
// first row's middle, so that whole stretches stay ordinary.
std::vector<float> nasty(int64_t rows, int64_t columns, uint64_t seed) {
  Random random(seed);
  std::vector<float> x;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      x.push_back(r % 3 == 0   ? static_cast<float>(random.normal()) * 3
                  : r % 3 == 1 ? number(random, 97, 60)
                               : number(random, 126, 4));
  for (int64_t c = columns / 2; c < columns / 2 + 40 && c < columns; ++c)
    x[static_cast<size_t>(c)] = number(random, 0, 256);
  return x;
}

uint32_t bits(float x) { return std::isnan(x) ? 0x7fc00000u : dsp::bits_of(x); }  // which NaN is nobody's business

class HexagonPlain : public DspTest {
 protected:
  static constexpr int64_t kRows = 6, kColumns = 1061;

  void expect_bits(WireRef got, const std::vector<float>& want, const std::string& what) {
    const auto values = get<float>(got, std::ssize(want));
    size_t wrong = 0, first = 0;
    for (size_t i = want.size(); i-- > 0;)
      if (bits(values[i]) != bits(want[i])) ++wrong, first = i;
    EXPECT_EQ(wrong, 0u) << what << ": element " << first << " is " << values[first] << ", not " << want[first];
  }
  using Rows = std::vector<float>;
  // One op over kRows rows; plain(row, y): y of a row, which begins as in[0]'s.
  void compare(WireOp op, const Rows& x, const std::function<void(int64_t, float*)>& plain, const std::string& what) {
    ASSERT_EQ(run(op).status, WIRE_OK) << what;
    Rows want = x;
    const int64_t columns = std::ssize(x) / kRows;
    for (int64_t r = 0; r < kRows; ++r) plain(r, want.data() + r * columns);
    expect_bits(op.out[0].buffer == WIRE_NO_BUFFER ? op.in[0] : op.out[0], want, what);
  }
};

TEST_F(HexagonPlain, SumsProductsNormsAndSwiglu) {
  for (const uint64_t seed : {1, 2, 3}) {
    used_ = 0;
    const auto x = nasty(kRows, kColumns, seed), y = nasty(kRows, kColumns, 10 + seed),
               weight = nasty(1, kColumns, 20 + seed);
    const auto row = [&](const Rows& of, int64_t r) { return of.data() + r * kColumns; };
    WireOp op = make_op(WIRE_ADD, kRows, kColumns);
    op.in[0] = put(x), op.in[1] = put(y);
    compare(
        op, x, [&](int64_t r, float* out) { dsp::plain::add(row(y, r), kColumns, out); }, "add");
    op = make_op(WIRE_SWIGLU, kRows, kColumns);
    op.in[0] = put(x), op.in[1] = put(y), op.out[0] = op.in[0];
    compare(
        op, x, [&](int64_t r, float* out) { dsp::plain::swiglu(out, row(y, r), kColumns, out); }, "swiglu");
    op = make_op(WIRE_RMS_NORM, kRows, kColumns);
    op.in[0] = put(x), op.out[0] = reserve(kRows * kColumns * 4), op.weight[0] = put_vector(weight);
    for (const float epsilon : {1e-5f, 0.0f}) {
      op.parameter = epsilon;
      compare(
          op, x, [&](int64_t, float* out) { dsp::plain::rms_norm(out, weight.data(), epsilon, kColumns, out); },
          "rms_norm");
    }
    op = make_op(WIRE_GUIDE, kRows, kColumns);
    op.in[0] = put(x), op.out[0] = reserve(kRows * kColumns * 4), op.source_rows = kRows;
    std::vector<WireGuide> guides;
    for (uint32_t r = 0; r < kRows; ++r) guides.push_back({r, r + 1 < kRows ? r + 1 : 0, 1.7f});
    op.index = put(guides);
    compare(
        op, x,
        [&](int64_t r, float* out) { dsp::plain::guide(row(x, r), row(x, (r + 1) % kRows), 1.7f, kColumns, out); },
        "guide");
  }
}

TEST_F(HexagonPlain, NormsOfSmallAndLargeRows) {
  // Powers of two move a row's mean through all of float's range and beyond.
  const auto weight = nasty(1, kColumns, 4);
  for (const int exponent : {-149, -130, -100, -60, -30, 20, 62, 64, 100, 125}) {
    used_ = 0;
    auto x = kernels::testing::normal_rows(kRows, kColumns, 5);
    for (float& v : x) v = std::ldexp(v, exponent);
    WireOp op = make_op(WIRE_RMS_NORM, kRows, kColumns);
    op.in[0] = put(x), op.out[0] = reserve(kRows * kColumns * 4), op.weight[0] = put_vector(weight);
    for (const float epsilon : {1e-6f, 0.0f}) {
      op.parameter = epsilon;
      compare(
          op, x, [&](int64_t, float* out) { dsp::plain::rms_norm(out, weight.data(), epsilon, kColumns, out); },
          std::to_string(exponent));
    }
  }
}

TEST_F(HexagonPlain, Rotation) {
  constexpr uint32_t kHeads = 3;
  for (const uint32_t dim : {64u, 128u, 96u})
    for (const bool adjacent : {false, true}) {
      used_ = 0;
      const uint32_t columns = kHeads * dim, rotary = dim == 96 ? 64 : dim;
      const auto x = nasty(kRows, columns, dim), table = nasty(kRows, rotary, dim + 1);
      WireOp op = make_op(WIRE_ROPE, kRows, columns);
      op.in[0] = put(x), op.heads = kHeads, op.head_dim = static_cast<uint16_t>(dim);
      op.rotary = static_cast<uint16_t>(rotary), op.rope_adjacent = adjacent, op.table = put(table);
      compare(
          op, x,
          [&](int64_t r, float* out) {
            dsp::plain::rope(out, table.data() + r * rotary, kHeads, dim, rotary, adjacent);
          },
          std::to_string(dim));
    }
}

TEST_F(HexagonPlain, HalvesAreThoseOfTheirType) {
  constexpr uint32_t kHeads = 40;
  for (const uint32_t dim : {32u, 128u, 80u}) {
    used_ = 0;
    const uint32_t columns = kHeads * dim;
    Random random(dim);
    std::vector<float> x(kRows * columns);
    // Around the range of halves, and everything else.
    for (float& v : x) v = random.below(4) == 0 ? number(random, 0, 256) : number(random, 98, 48);
    WireOp op = make_op(WIRE_STORE_KV, kRows, columns);
    op.in[0] = put(x), op.in[1] = put(x);
    std::vector<int32_t> positions;
    for (int32_t r = 0; r < kRows; ++r) positions.push_back(r);
    op.index = put(positions), op.spans = put_spans({{0, kRows, 0, 0, 0, 0, 0}}), op.span_count = 1;
    op.kv.head_stride = kRows * dim * 2, op.kv.sequence_stride = op.kv.head_stride * kHeads;
    op.kv.sequences = 1, op.kv.positions = kRows, op.kv.heads = kHeads, op.kv.head_dim = dim, op.kv.half = 1;
    op.kv.keys = reserve(op.kv.sequence_stride), op.kv.values = reserve(op.kv.sequence_stride);
    ASSERT_EQ(run(op).status, WIRE_OK);
    const auto keys = get<uint16_t>(op.kv.keys, op.kv.sequence_stride / 2);
    for (uint32_t r = 0; r < kRows; ++r)
      for (uint32_t h = 0; h < kHeads; ++h)
        for (uint32_t i = 0; i < dim; ++i)
          ASSERT_EQ(keys[(h * kRows + r) * dim + i], float_to_f16(x[r * columns + h * dim + i]))
              << x[r * columns + h * dim + i];
  }
}

// Rows of blocks whose inputs lie on and beside the middle between two integers, of all magnitudes.
std::vector<float> middles(int64_t rows, int64_t inputs, uint64_t seed) {
  Random random(seed);
  std::vector<float> x;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t b = 0; b < inputs / 32; ++b) {
      const float most = std::fabs(number(random, r == 2 ? 3 : 110, r == 2 ? 250 : 20));
      for (int64_t i = 0; i < 32; ++i) {
        float v = i == 7 ? most : most / 127.0f * (static_cast<float>(random.below(127)) + 0.5f);
        for (int64_t n = random.below(4); n > 0 && i != 7; --n) v = std::nextafter(v, n % 2 == 0 ? most : 0.0f);
        if (v > most) v = most;
        x.push_back(random.below(2) == 0 ? v : -v);
      }
    }
  for (int64_t i = 0; i < 32 && inputs > 96; ++i) x[static_cast<size_t>(64 + i)] = 0;
  return x;
}

TEST_F(HexagonPlain, RoundedActivations) {
  constexpr int64_t kMany = 13;
  for (const DType type : {DType::Q4_0, DType::Q8_0, DType::F16})
    for (const int64_t inputs : {32, 96, 160, 1024, 2144})
      for (const uint64_t seed : {1, 2}) {
        used_ = 0;
        auto x = seed == 1 ? middles(kMany, inputs, static_cast<uint64_t>(inputs)) : nasty(kMany, inputs, 9);
        if (seed == 2 && inputs > 1024) x[static_cast<size_t>(5 * inputs + 3)] = NAN;
        const auto stored = kernels::testing::make_weights(type, 32, inputs, kernels::testing::Fill::random, 5);
        WireOp op = make_op(WIRE_MATMUL, kMany, static_cast<uint32_t>(inputs));
        op.in[0] = put(x), op.weight[0] = put_weight(kernels::testing::view(type, stored, 32, inputs));
        op.out[0] = reserve(kMany * 32 * 4);
        ASSERT_EQ(run(op).status, WIRE_OK);
        // The op's scratch begins with its rounded rows, in groups as the vector unit has them.
        const auto format = type == DType::Q4_0   ? dsp::Format::q4
                            : type == DType::Q8_0 ? dsp::Format::q8
                                                  : dsp::Format::f16;
        const auto n = static_cast<uint32_t>(inputs);
        const uint32_t most = format == dsp::Format::q4 ? 8 : 4, bytes = dsp::group_bytes(format, most, n);
        std::vector<uint32_t> work(dsp::blocks_of(n));
        for (uint32_t first = 0; first < kMany; first += most) {
          const auto* group = reinterpret_cast<const uint8_t*>(scratch_->data()) + first / most * bytes;
          const uint32_t capacity = most == 8 && kMany - first > 4 ? 8 : 4;
          std::vector<uint8_t> want(group, group + dsp::group_bytes(format, capacity, n));
          for (uint32_t r = 0; r < capacity && first + r < kMany; ++r) {
            auto before = want;
            dsp::plain::quantize_row(format, x.data() + (first + r) * inputs, n, r, capacity, work.data(), want.data());
            ASSERT_EQ(before == want, true) << traits(type).name << " " << inputs << " row " << first + r;
          }
        }
      }
}

TEST_F(HexagonPlain, TheHeadsChunks) {
  constexpr int64_t kVocabulary = 1300;
  Random random(3);
  const float scales[] = {1, 30, 1e-3f, 1e5f, 1e-30f, 1e30f, 8, 8, 8};
  for (size_t kind = 0; kind < std::size(scales); ++kind) {
    used_ = 0;
    std::vector<float> logits(kVocabulary);
    for (float& l : logits) l = static_cast<float>(random.normal()) * scales[kind];
    if (kind == 1) logits[700] = 300;  // confident
    if (kind == 6)
      for (float& l : logits) l = std::round(l);  // ties
    if (kind == 7)
      for (size_t i = 0; i < logits.size(); i += 3) logits[i] = i % 2 == 0 ? -INFINITY : -0.0f;
    if (kind == 8) logits[40] = -NAN, logits[600] = INFINITY;
    WireOp op = make_op(WIRE_HEAD, 1, 1);
    op.in[0] = put(std::vector<float>{1});
    op.weight[0] = {put(logits), WIRE_STORED_F32, 1, kVocabulary};
    op.predictions = reserve(sizeof(WirePrediction)), op.logits = reserve(kVocabulary * 4);
    const std::vector<int32_t> out = {5, 700, 600}, never = {701, 1299, 5, 0};
    op.out_of_softmax = put(out), op.never_sampled = put(never);
    for (const bool lists : {false, true}) {
      op.out_of_softmax_count = lists ? 3 : 0, op.never_sampled_count = lists ? 4 : 0;
      ASSERT_EQ(run(op).status, WIRE_OK);
      auto row = get<float>(op.logits, kVocabulary);
      WirePrediction want = dsp::no_prediction();
      for (uint32_t begin = 0; begin < kVocabulary; begin += dsp::kChunk)
        dsp::merge(want,
                   dsp::reduce_chunk(row.data() + begin, begin, std::min(dsp::kChunk, uint32_t{kVocabulary} - begin),
                                     {out.data(), op.out_of_softmax_count}, {never.data(), op.never_sampled_count},
                                     dsp::kPlainChunk));
      const auto got = get<WirePrediction>(op.predictions, 1)[0];
      EXPECT_EQ(got.best, want.best) << kind;
      EXPECT_EQ(got.second, want.second) << kind;
      for (const auto field : {&WirePrediction::best_logit, &WirePrediction::second_logit, &WirePrediction::max,
                               &WirePrediction::rest, &WirePrediction::weighted})
        EXPECT_EQ(bits(got.*field), bits(want.*field)) << kind << ": " << got.*field << " for " << want.*field;
    }
  }
}

// A batch's workers are woken once, however many ops it has: then they look for work.
TEST_F(HexagonPlain, WorkersStayAwakeWithinABatch) {
  polls_ = 1u << 30;  // on a busy machine too
  const auto x = nasty(kRows, 64, 1);
  std::vector<WireOp> ops(60, make_op(WIRE_ADD, kRows, 64));
  for (WireOp& op : ops) op.in[0] = put(x), op.in[1] = put(x);
  for (int i = 0; i < 3; ++i) {
    const WireReply reply = run(ops);
    ASSERT_EQ(reply.status, WIRE_OK);
    EXPECT_LE(reply.wakes, 1u) << "of the workers, which sleep between batches";
  }
}

}  // namespace
}  // namespace llada::hexagon
