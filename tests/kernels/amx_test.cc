// Products by tiles have the bits of those by AVX-512 VNNI, by the processor's tiles where it has them and by emulated
// ones: every type with kernels there, blocks whose numbers stay floats, steep rows, rows that are not finite, parts of
// row tiles, column tiles and blocks.
#include <gtest/gtest.h>

#ifdef __x86_64__
#include "amx_emulated.h"
#include "kernel_test_data.h"
#include "kernels/amx.h"
#include "kernels/computed.h"

namespace llada::kernels {
namespace {

using namespace testing;

std::vector<float> by(void (*matmul)(const MatmulArgs&), const Problem& p, const Bytes& packed,
                      const Bytes& activations, int64_t n0) {
  std::vector<float> y(static_cast<size_t>(p.rows * p.n), kPoison);
  matmul({p.type, p.n, p.k, packed.data(), nullptr, activations.data(), p.rows, n0, p.n, y.data(), p.n});
  return y;
}

TEST(Amx, ProductsHaveTheBitsOfThoseWithoutTiles) {
  if (avx512vnni_table() == nullptr || !__builtin_cpu_supports("gfni") || !__builtin_cpu_supports("avx512vbmi"))
    GTEST_SKIP() << "this processor has no AVX-512 VNNI with VBMI and GFNI";
  const KernelTable& plain = *avx512vnni_table();
  for (const DType type : {DType::Q4_0, DType::Q4_1, DType::Q8_0, DType::Q8_M, DType::Q4_K})
    for (const Fill fill : {Fill::random, Fill::wide, Fill::high, Fill::alternate})
      for (const auto& [n, k, rows] : {std::tuple{19, 96, 9}, {16, 2304, 27}, {80, 544, 24}, {48, 320, 140}}) {
        if (type == DType::Q4_K && k % 256 != 0) continue;
        const Problem p{type, n, k, rows};
        const Bytes stored = make_weights(type, n, k, fill, 31);
        Bytes packed(plain.packed_bytes(type, n, k));
        plain.pack(view(type, stored, n, k), 0, n, packed.data());
        std::vector<float> x = normal_rows(rows, k, 32);
        for (int64_t i = 0; i < k; ++i) x[static_cast<size_t>(3 * k + i)] = 0.9f;  // steep
        x[static_cast<size_t>(5 * k + 7)] = std::numeric_limits<float>::infinity();
        Bytes activations(amx::activation_bytes(rows, k));
        std::memset(activations.data(), 0x5a, static_cast<size_t>(activations.size()));
        amx::quantize_rows(x.data(), rows, k, 0, rows, type_bit(type), activations.data());
        for (const int64_t n0 : {int64_t{0}, n / 32 * int64_t{16}}) {
          const std::vector<float> want = by(plain.matmul, p, packed, activations, n0);
          const size_t bytes = want.size() * 4;
          const auto emulated = by(amx_emulated::matmul, p, packed, activations, n0);
          EXPECT_EQ(std::memcmp(emulated.data(), want.data(), bytes), 0) << name_of(plain, p) << " emulated";
          EXPECT_EQ(amx_emulated::misuse(), nullptr);
          if (amx_table() == nullptr) continue;
          const auto got = by(amx::matmul, p, packed, activations, n0);
          EXPECT_EQ(std::memcmp(got.data(), want.data(), bytes), 0) << name_of(*amx_table(), p);
        }
      }
}

}  // namespace
}  // namespace llada::kernels
#endif
