// What the products of the DSP's tiles are tested with.
#pragma once
#include <algorithm>
#include <cstdint>
#include <ostream>
#include <vector>

#include "kernels/kernel_test_data.h"

namespace llada::hexagon {

struct ProductCase {
  DType type;
  int64_t outputs, inputs, rows;
  kernels::testing::Fill fill = kernels::testing::Fill::wide;
};
inline void PrintTo(const ProductCase& c, std::ostream* out) {
  *out << traits(c.type).name << "_" << c.outputs << "x" << c.inputs << "_rows" << c.rows << "_fill"
       << static_cast<int>(c.fill);
}

// Rows of every nature: ordinary, an outlier in one block, nearly nothing beside much, all zero, alternating extremes.
inline std::vector<float> nasty_rows(int64_t rows, int64_t inputs, uint64_t seed) {
  auto x = kernels::testing::normal_rows(rows, inputs, seed);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = x.data() + r * inputs;
    switch (r % 7) {
      case 1:
        row[inputs / 2] = 4000;
        break;
      case 2:
        for (int64_t i = 0; i < inputs; ++i) row[i] *= i < 32 ? 1e-30f : i < 64 ? 1e9f : 1e-4f;
        break;
      case 3:
        std::fill_n(row, inputs, 0.0f);
        break;
      case 4:
        for (int64_t i = 0; i < inputs; ++i) row[i] = i % 2 == 0 ? 1.0f : -1.0f;
        break;
      case 5:
        std::fill_n(row, inputs, 0.75f);
        break;
      case 6:
        for (int64_t i = 0; i < inputs; ++i) row[i] *= 1e-38f;
        break;
      default:
        break;
    }
  }
  return x;
}

}  // namespace llada::hexagon
