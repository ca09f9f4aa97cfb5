// What two readings of one model must agree in, whatever its family.
#pragma once
#include <gtest/gtest.h>

#include "formats/model_config.h"

namespace llada {

inline void expect_same_shape(const ModelConfig& a, const ModelConfig& b) {
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.width, b.width);
  EXPECT_EQ(a.heads, b.heads);
  EXPECT_EQ(a.kv_heads, b.kv_heads);
  EXPECT_EQ(a.head_dim, b.head_dim);
  EXPECT_EQ(a.ffn_width, b.ffn_width);
  EXPECT_EQ(a.vocab, b.vocab);
}

}  // namespace llada
