// Loops over rows on the threads of the cpu device.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>

#include "base/threads.h"

namespace llada {

// Splits `rows` among the threads, a few rows at a time.
inline void for_rows(ThreadPool& pool, int64_t rows, const std::function<void(int64_t row)>& body) {
  const int64_t step = std::max<int64_t>(1, rows / (4 * pool.size()));
  pool.run((rows + step - 1) / step, [&](int64_t chunk, int) {
    for (int64_t r = chunk * step; r < std::min(rows, (chunk + 1) * step); ++r) body(r);
  });
}

}  // namespace llada
