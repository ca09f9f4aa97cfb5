// No kernel touches a byte outside its arrays: every array ends where an unreadable page begins, so a stray
// load or store stops the program. This works where no sanitizer can (under an emulator), and sees through
// vector intrinsics.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel_test_data.h"

namespace llada::kernels {
namespace {

using namespace testing;

// `bytes` bytes that end at an unreadable page, less what the alignment of the first byte takes.
class TimedCall {
 public:
  explicit TimedCall(int64_t bytes, int64_t alignment = 4) : bytes_(bytes) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t usable = (bytes + page - 1) / page * page;
    mapped_ = static_cast<size_t>(usable + page);
    base_ = static_cast<std::byte*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + usable, static_cast<size_t>(page), PROT_NONE), 0);
    data_ = base_ + (usable - bytes) / alignment * alignment;
  }
  TimedCall(const Bytes& bytes, int64_t alignment) : TimedCall(bytes.size(), alignment) {
    std::memcpy(data_, bytes.data(), static_cast<size_t>(bytes.size()));
  }
  explicit TimedCall(const std::vector<float>& values)
      : TimedCall(static_cast<int64_t>(values.size() * sizeof(float))) {
    std::memcpy(data_, values.data(), values.size() * sizeof(float));
  }
  TimedCall(TimedCall&&) = delete;
  ~TimedCall() { munmap(base_, mapped_); }

  std::byte* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  std::vector<float> values() const { return {floats(), floats() + bytes_ / 4}; }

 private:
  int64_t bytes_;
  size_t mapped_ = 0;
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
};

TEST(Bounds, Matmul) {
  for (const KernelTable* table : available())
    for (const DType type : all_types())
      for (const int64_t n : {1, 6, 37, 64})
        for (const int64_t rows : {1, 2, 3, 5, 8, 15}) {
          const Problem p{type, n, traits(type).quantized ? 256 : 24, rows};
          const Bytes stored = make_weights(type, n, p.k, Fill::random, 101);
          const std::vector<float> x = normal_rows(rows, p.k, 102);
          const Weights plain(*table, type, stored, n, p.k);
          const std::vector<float> want = multiply(*table, p, plain.data(), x);

          const TimedCall weights(stored, 2), rows_in(x), y(rows * n * 4);
          const int64_t packed_size = table->packed_bytes(type, n, p.k);
          const TimedCall packed(packed_size, 64);
          if (packed_size > 0) table->pack({weights.data(), type, {{p.k, n, 1, 1}, 2}}, 0, n, packed.data());
          const TimedCall activations(table->integer_path(type) ? table->activation_bytes(rows, p.k) : 0, 64);
          if (table->integer_path(type))
            table->quantize_rows(rows_in.floats(), rows, p.k, 0, rows, type_bit(type), activations.data());
          table->matmul({type, n, p.k, packed_size > 0 ? packed.data() : weights.data(), rows_in.floats(),
                         activations.data(), rows, 0, n, y.floats(), n});
          ASSERT_EQ(y.values(), want) << name_of(*table, p);
        }
}

TEST(Bounds, Attention) {
  for (const KernelTable* table : available())
    for (const DType type : {DType::F32, DType::F16})
      for (const int64_t keys : {1, 5, 16, 67})
        for (const int64_t rows : {1, 3, 6, 33})
          for (const int64_t head_dim : {16, 40, 64}) {
            const TimedCall q(normal_rows(rows, head_dim, 103)), out(rows * head_dim * 4),
                scratch(attention_scratch(keys) * 4);
            const TimedCall k(make_weights(type, keys, head_dim, Fill::random, 104), 2);
            const TimedCall v(make_weights(type, keys, head_dim, Fill::random, 105), 2);
            table->attention({q.floats(), head_dim, k.data(), v.data(), type, keys, head_dim, 0.1f, 0, rows, nullptr,
                              scratch.floats(), out.floats(), head_dim});
            for (const float value : out.values()) ASSERT_LT(std::fabs(value), 1) << table->isa;
          }
}

TEST(Bounds, RowWise) {
  for (const KernelTable* table : available())
    for (const int64_t n : {1, 2, 3, 4, 5, 7, 13, 16, 17, 30, 33, 61, 100}) {
      const TimedCall a(normal_rows(1, n, 106)), b(normal_rows(1, n, 107)), y(n * 4), half(n * 2, 2);
      table->rms_norm(a.floats(), b.floats(), 1e-5f, n, y.floats());
      table->add(a.floats(), n, y.floats());
      table->swiglu(a.floats(), b.floats(), n, y.floats());
      table->geglu(a.floats(), b.floats(), n, y.floats());
      table->soft_cap(y.floats(), n, 0.5f);
      table->store_half(a.floats(), n, reinterpret_cast<uint16_t*>(half.data()));
      const std::vector<float> values = a.values();
      EXPECT_EQ(table->top2(a.floats(), n).best, scalar_table()->top2(values.data(), n).best) << table->isa;
      EXPECT_EQ(table->softmax_stats(a.floats(), n).max, scalar_table()->softmax_stats(values.data(), n).max)
          << table->isa;
    }
}

TEST(Bounds, Rope) {
  for (const KernelTable* table : available())
    for (const bool adjacent : {false, true})
      for (const int64_t rotary : {2, 6, 16, 18, 40}) {
        const TimedCall heads(normal_rows(2, rotary, 108)), cosines(normal_rows(1, rotary / 2, 109)),
            sines(normal_rows(1, rotary / 2, 110));
        std::vector<float> want = heads.values();
        scalar_table()->rope(want.data(), {cosines.floats(), sines.floats(), 2, rotary, rotary, adjacent});
        table->rope(heads.floats(), {cosines.floats(), sines.floats(), 2, rotary, rotary, adjacent});
        for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(heads.values()[i], want[i], 3e-6) << table->isa;
      }
}

}  // namespace
}  // namespace llada::kernels
