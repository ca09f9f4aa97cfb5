// What must not count, whatever its bytes, and what must not get lost. Memory that no row sees (keys behind a row's
// own, digests that were never made, scratch) is filled with NaN, infinities and huge numbers: results stay the same
// bit for bit. A value that is not finite and that a row does see makes its result not finite, in every kernel of every
// table.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "kernel_test_data.h"

namespace llada::kernels::hostile {
namespace {

using namespace testing;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::array kNotFinite = {kNan, -kNan, kInfinity, -kInfinity};
// Bytes of memory nobody wrote: NaN in F32 and F16; NaN in F16 and huge in F32; negative and huge; zero.
constexpr std::array kHostileBytes = {0xff, 0x7f, 0xfe, 0x00};

// Keys and values of one head as they lie in a store: `keys` of them written, the others up to `positions` not.
struct Case {
  DType type;
  int64_t head_dim, keys, positions, rows;
  std::vector<KeyRange> row_keys;  // empty: all rows see all keys
};

class Attention {
 public:
  Attention(const KernelTable& table, const Case& c, int hostile)
      : table_(table),
        c_(c),
        k_(c.positions * c.head_dim * element()),
        v_(k_.size()),
        digest_(c.keys >= kDigestKeys ? table.digest_bytes(c.type, c.positions, c.head_dim) : 0),
        q_(normal_rows(c.rows, c.head_dim, 1)) {
    for (const Bytes* bytes : {&k_, &v_, &digest_})
      std::memset(bytes->data(), hostile, static_cast<size_t>(bytes->size()));
    write(k_, normal_rows(c.keys, c.head_dim, 2));
    write(v_, normal_rows(c.keys, c.head_dim, 3));
    scratch_.resize(static_cast<size_t>(attention_scratch(c.keys)));
    std::memset(scratch_.data(), hostile, scratch_.size() * sizeof(float));
  }

  std::vector<float>& queries() { return q_; }
  void set_key(int64_t position, int64_t d, float x) { put(k_, position * c_.head_dim + d, x); }
  void set_value(int64_t position, int64_t d, float x) { put(v_, position * c_.head_dim + d, x); }

  // `parts`: the digest is made in as many calls as that.
  std::vector<float> run(int64_t parts = 1) {
    std::vector<float> out(q_.size(), kPoison);
    for (int64_t i = 0; i < parts && digest_.size() > 0; ++i)
      table_.digest({k_.data(), v_.data(), c_.type, c_.positions, c_.head_dim, c_.keys * i / parts,
                     c_.keys * (i + 1) / parts, digest_.data()});
    table_.attention({q_.data(), c_.head_dim, k_.data(), v_.data(), c_.type, c_.keys, c_.head_dim,
                      1 / std::sqrt(static_cast<float>(c_.head_dim)), 0, c_.rows,
                      c_.row_keys.empty() ? nullptr : c_.row_keys.data(), scratch_.data(), out.data(), c_.head_dim,
                      digest_.size() > 0 ? digest_.data() : nullptr, c_.positions});
    return out;
  }

 private:
  int64_t element() const { return c_.type == DType::F16 ? 2 : 4; }
  void put(const Bytes& to, int64_t at, float x) const {
    const uint16_t half = float_to_f16(x);
    c_.type == DType::F16 ? std::memcpy(to.data() + 2 * at, &half, 2) : std::memcpy(to.data() + 4 * at, &x, 4);
  }
  void write(const Bytes& to, const std::vector<float>& x) const {
    for (size_t i = 0; i < x.size(); ++i) put(to, static_cast<int64_t>(i), x[i]);
  }

  const KernelTable& table_;
  const Case& c_;
  Bytes k_, v_, digest_;
  std::vector<float> q_, scratch_;
};

std::vector<Case> cases(const KernelTable& table) {
  std::vector<Case> list;
  for (const DType type : {DType::F16, DType::F32})
    for (const int64_t head_dim : {20, 32, 64, 128})
      for (const auto& [keys, rows] : {std::pair<int64_t, int64_t>{1, 1}, {5, 3}, {67, 37}})
        list.push_back({type, head_dim, keys, 70, rows, {}});
  Case few{DType::F32, 32, 70, 70, 21, {}};
  for (int64_t r = 0; r < few.rows; ++r) few.row_keys.push_back(prefix(1 + r * 3));
  list.push_back(few);
  if (table.digest_bytes(DType::F16, 64, 64) == 0) return list;
  // Digests: blocks of 64 keys that are full, nearly empty, and not whole groups of 4.
  for (const int64_t head_dim : {64, 128})
    for (const auto& [keys, rows] :
         {std::pair<int64_t, int64_t>{1024, 1}, {1025, 33}, {1028, 9}, {1087, 17}, {1150, 3}})
      list.push_back({DType::F16, head_dim, keys, 1300, rows, {}});
  Case causal{DType::F16, 64, 1300, 1400, 37, {}};
  for (int64_t r = 0; r < causal.rows; ++r) causal.row_keys.push_back(prefix(r % 3 == 0 ? 1300 - r : 900 + r * 11));
  list.push_back(causal);
  return list;
}

// Where instructions are dear (emulators, sanitizers): a part of what differs in numbers alone.
bool left_out(size_t i) { return std::getenv("LLADA_TEST_QUICK") != nullptr && i % 3 != 0; }

std::string name_of(const KernelTable& table, const Case& c) {
  return fmt::format("{} {} head {} keys {} rows {}", table.isa, traits(c.type).name, c.head_dim, c.keys, c.rows);
}

int64_t seen_by(const Case& c, int64_t row) {
  return c.row_keys.empty() ? c.keys : c.row_keys[static_cast<size_t>(row)].last;
}

TEST(Hostile, MemoryBehindTheKeysHasNoInfluence) {
  for (const KernelTable* table : available())
    for (const Case& c : cases(*table)) {
      const std::vector<float> want = Attention(*table, c, 0).run();
      for (const float x : want) ASSERT_TRUE(std::isfinite(x)) << name_of(*table, c);
      for (const int hostile : kHostileBytes)
        for (const int64_t parts : {1, 3}) {
          if (parts == 3 && left_out(1)) continue;
          ASSERT_EQ(Attention(*table, c, hostile).run(parts), want) << name_of(*table, c) << " bytes " << hostile;
        }
    }
}

// Keys and values that other rows see.
TEST(Hostile, KeysThatARowDoesNotSeeHaveNoInfluence) {
  for (const KernelTable* table : available())
    for (const Case& c : cases(*table)) {
      if (c.row_keys.empty()) continue;
      const std::vector<float> want = Attention(*table, c, 0).run();
      for (const float bad : {kNan, kInfinity, -kInfinity, 60000.0f}) {
        Attention damaged(*table, c, 0xff);
        const int64_t from = std::ranges::max_element(c.row_keys, {}, &KeyRange::last)->last / 2;
        for (int64_t p = from; p < c.keys; ++p)
          damaged.set_key(p, p % c.head_dim, bad), damaged.set_value(p, p % 7, bad);
        const std::vector<float> got = damaged.run();
        for (int64_t r = 0; r < c.rows; ++r) {
          if (seen_by(c, r) > from) continue;
          for (int64_t i = r * c.head_dim; i < (r + 1) * c.head_dim; ++i)
            ASSERT_EQ(got[static_cast<size_t>(i)], want[static_cast<size_t>(i)])
                << name_of(*table, c) << " row " << r << " " << bad;
        }
      }
    }
}

TEST(Hostile, DamageThatARowSeesIsNotHidden) {
  size_t turn = 0;
  for (const KernelTable* table : available())
    for (const Case& c : cases(*table))
      for (const float bad : kNotFinite)
        for (const int which : {0, 1, 2})
          for (const int64_t position : {int64_t{0}, c.keys / 2, c.keys - 1}) {
            ++turn;
            if (left_out(turn) || (c.keys >= kDigestKeys && turn % 5 != 0)) continue;  // of long ones a fifth
            Attention damaged(*table, c, 0);
            const int64_t d = position * 5 % c.head_dim, row = position % c.rows;
            if (which == 0) damaged.set_key(position, d, bad);
            if (which == 1) damaged.set_value(position, d, bad);
            if (which == 2) damaged.queries()[static_cast<size_t>(row * c.head_dim + d)] = bad;
            const std::vector<float> got = damaged.run();
            for (int64_t r = 0; r < c.rows; ++r) {
              const bool hit = which == 2 ? r == row : seen_by(c, r) > position;
              const auto* first = got.data() + r * c.head_dim;
              ASSERT_EQ(std::all_of(first, first + c.head_dim, [](float x) { return std::isfinite(x); }), !hit)
                  << name_of(*table, c) << " row " << r << ", " << bad << " in "
                  << "kvq"[which] << " of position " << position;
            }
          }
}

// A row of the activations, anywhere in a group of values.
TEST(Hostile, DamagedActivationsAreSeenInEveryColumn) {
  for (const KernelTable* table : available())
    for (const DType type : all_types()) {
      const Problem p{type, 37, 512, 5};
      const Bytes stored = make_weights(type, p.n, p.k, Fill::random, 4);
      const Weights weights(*table, type, stored, p.n, p.k);
      std::vector<float> x = normal_rows(p.rows, p.k, 5);
      const std::vector<float> want = multiply(*table, p, weights.data(), x);
      for (const float bad : kNotFinite)
        for (const int64_t at : {0, 1, 7, 8, 15, 16, 31, 33, 100, 255, 256, 300, 511}) {
          if (left_out(static_cast<size_t>(at + (bad > 0)))) continue;
          std::vector<float> damaged = x;
          damaged[static_cast<size_t>(2 * p.k + at)] = bad;
          if (at % 2 == 1)
            damaged[static_cast<size_t>(2 * p.k + at - 1)] = 1e30f;  // a neighbour that the maximum could keep
          const std::vector<float> got = multiply(*table, p, weights.data(), damaged);
          for (int64_t r = 0; r < p.rows; ++r)
            for (int64_t c = 0; c < p.n; ++c) {
              const auto i = static_cast<size_t>(r * p.n + c);
              if (r == 2)
                ASSERT_FALSE(std::isfinite(got[i]))
                    << testing::name_of(*table, p) << " " << bad << " at " << at << " column " << c;
              else
                ASSERT_EQ(got[i], want[i]) << testing::name_of(*table, p) << " row " << r;
            }
        }
    }
}

// Where the F16 numbers lie in a group of a type: its scales, and offsets. Q8_M's are floats, whose upper halves serve.
std::vector<int64_t> scales_of(DType type) {
  switch (type) {
    case DType::F32:
    case DType::F16:
    case DType::BF16:
      return {};
    case DType::Q4_1:
    case DType::Q5_1:
    case DType::Q4_K:
    case DType::Q5_K:
      return {0, 2};
    case DType::Q6_K:
      return {static_cast<int64_t>(offsetof(GroupQ6_K, d))};
    case DType::Q2_K:
      return {80, 82};
    case DType::Q3_K:
      return {108};
    case DType::TQ1_0:
      return {52};
    case DType::TQ2_0:
      return {64};
    case DType::IQ1_M:  // in four parts
    case DType::MXFP4:  // no number that is not finite
    case DType::NVFP4:
      return {};
    case DType::Q8_M:
      return {2, 6};
    default:
      return {0};
  }
}

void expect_damage_in_column(const KernelTable& table, const Problem& p, const Bytes& stored, const Bytes& damaged,
                             int64_t column, const std::string& what) {
  for (const int64_t rows : {int64_t{1}, int64_t{17}, int64_t{5}}) {
    if (left_out(static_cast<size_t>(rows + 1))) continue;
    const Problem some{p.type, p.n, p.k, rows};
    const std::vector<float> x = normal_rows(rows, p.k, 6);
    const std::vector<float> want = multiply(table, some, Weights(table, p.type, stored, p.n, p.k).data(), x);
    const std::vector<float> got = multiply(table, some, Weights(table, p.type, damaged, p.n, p.k).data(), x);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < p.n; ++c) {
        const auto i = static_cast<size_t>(r * p.n + c);
        if (c == column)
          ASSERT_FALSE(std::isfinite(got[i])) << testing::name_of(table, some) << " " << what << " gives " << got[i];
        else  // its neighbours share a tile, whose form may be another one: equal but for rounding
          ASSERT_NEAR(got[i], want[i], 0.01 + 1e-3 * std::fabs(want[i]))
              << testing::name_of(table, some) << " column " << c << " " << what;
      }
  }
}

TEST(Hostile, DamagedWeightsAreSeenInTheirColumn) {
  for (const KernelTable* table : available())
    for (const DType type : all_types()) {
      const Problem p{type, 37, 512, 0};
      const Bytes stored = make_weights(type, p.n, p.k, Fill::random, 7);
      const int64_t row = row_bytes(type, p.k);
      for (const int64_t column : {0, 17, 36})
        for (const float bad : kNotFinite) {
          if (left_out(static_cast<size_t>(column + (bad < 0)))) continue;
          const auto with = [&](int64_t at, const void* bits, size_t size) {
            Bytes damaged(stored.size());
            std::memcpy(damaged.data(), stored.data(), static_cast<size_t>(stored.size()));
            std::memcpy(damaged.data() + at, bits, size);
            expect_damage_in_column(*table, p, stored, damaged, column, fmt::format("{} at byte {}", bad, at));
          };
          const uint16_t half = float_to_f16(bad), brain = float_to_bf16(bad);
          const int64_t last = row / traits(type).bytes - 1;
          for (const int64_t group : {int64_t{0}, last / 3, last})
            for (const int64_t at : scales_of(type))
              with(column * row + group * traits(type).bytes + at, type == DType::Q8_M ? &brain : &half, 2);
          if (type == DType::F32) with(column * row + 77 * 4, &bad, 4);
          if (type == DType::F16) with(column * row + 77 * 2, &half, 2);
          if (type == DType::BF16) with(column * row + 77 * 2, &brain, 2);
          if (HasFatalFailure()) return;
        }
    }
}

TEST(Hostile, DamagedLogitsMakeTheSumNotANumber) {
  for (const KernelTable* table : available())
    for (const int64_t n : {1, 2, 9, 16, 33, 512})
      for (const float bad : kNotFinite)
        for (int64_t at = 0; at < n; at += 1 + n / 9) {
          std::vector<float> logits = normal_rows(1, n, 8);
          logits[static_cast<size_t>(at)] = bad;
          EXPECT_TRUE(std::isnan(table->softmax_stats(logits.data(), n).sum))
              << table->isa << " " << bad << " at " << at << " of " << n;
        }
}

TEST(Hostile, DamagedRowsStayDamaged) {
  for (const KernelTable* table : available())
    for (const int64_t n : {1, 5, 16, 40}) {
      const std::vector<float> ones(static_cast<size_t>(n), 1.0f);
      std::vector<float> y(ones);
      const auto finite = [&] { return std::ranges::all_of(y, [](float x) { return std::isfinite(x); }); };
      for (const float bad : {kNan, kInfinity, -kInfinity, 1e30f})  // the last one's square is not finite
        for (int64_t at = 0; at < n; at += 1 + n / 5) {
          std::vector<float> x = normal_rows(1, n, 9);
          x[static_cast<size_t>(at)] = bad;
          table->rms_norm(x.data(), ones.data(), 1e-5f, n, y.data());
          EXPECT_FALSE(finite()) << table->isa << " norm of " << bad;
          if (bad == 1e30f) continue;
          const std::vector<float> other = normal_rows(1, n, 10);
          table->swiglu(x.data(), other.data(), n, y.data());
          EXPECT_FALSE(finite()) << table->isa << " gate " << bad;
          table->geglu(x.data(), other.data(), n, y.data());
          EXPECT_FALSE(finite()) << table->isa << " gelu of " << bad;
          y = x;
          table->soft_cap(y.data(), n, 30);
          EXPECT_FALSE(finite()) << table->isa << " a bound hides " << bad;
          for (const float gate : {-200.0f, -1.0f, 0.0f, 3.0f}) {
            table->swiglu(std::vector<float>(static_cast<size_t>(n), gate).data(), x.data(), n, y.data());
            EXPECT_FALSE(finite()) << table->isa << " up " << bad << " gate " << gate;
            table->geglu(std::vector<float>(static_cast<size_t>(n), gate).data(), x.data(), n, y.data());
            EXPECT_FALSE(finite()) << table->isa << " up " << bad << " gelu of " << gate;
          }
          y = x;
          table->add(ones.data(), n, y.data());
          EXPECT_FALSE(finite()) << table->isa << " sum with " << bad;
        }
    }
}

}  // namespace
}  // namespace llada::kernels::hostile
