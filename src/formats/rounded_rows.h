// Numbers of a rounded matrix, and its rows as its type. Private to formats/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "formats/rounded_matrix.h"

namespace llada {

// From any address.
template <typename T>
T number_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// The code that stands for 0 in a group of inputs of an output. zeros.data is there.
int64_t zero_of(const RoundedMatrix& matrix, int64_t expert, int64_t output, int64_t group);

// Rows [first, first + count) as matrix.type. False: a scale is not finite, or not in F16.
bool write_rows(const RoundedMatrix& matrix, int64_t first, int64_t count, std::byte* to);

}  // namespace llada
