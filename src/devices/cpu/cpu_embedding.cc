#include "devices/cpu/cpu_embedding.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "tensor/quantize.h"

namespace llada {
namespace {

constexpr int64_t kTile = 16;  // rows for which a row of the table is dequantized once

// The rest of one row's list.
struct Rest {
  const int32_t *token, *end;
  const float* probability;
};

std::vector<Rest> lists_of(const StepInputs& in) {
  std::vector<Rest> lists(in.tokens.size(), Rest{});
  std::vector<size_t> rows(in.streams.size(), 0);  // that a stream has had
  for (const RowSpan& span : in.spans)
    for (int32_t r = span.begin; r < span.begin + span.count; ++r) {
      const size_t row = rows[static_cast<size_t>(span.stream)]++;
      const SoftTokens* soft = in.streams[static_cast<size_t>(span.stream)].soft;
      if (soft == nullptr) continue;
      lists[static_cast<size_t>(r)] = {soft->tokens.data() + soft->begin[row],
                                       soft->tokens.data() + soft->begin[row + 1],
                                       soft->probabilities.data() + soft->begin[row]};
    }
  return lists;
}

}  // namespace

void embed_soft_tokens(ThreadPool& pool, const TensorView& table, const StepInputs& inputs, float* out) {
  std::vector<Rest> lists = lists_of(inputs);
  const int64_t width = table.shape.columns(), rows = std::ssize(lists);
  std::fill_n(out, rows * width, 0.0f);
  pool.run((rows + kTile - 1) / kTile, [&](int64_t tile, int) {
    const int64_t first = tile * kTile, last = std::min(rows, first + kTile);
    std::vector<float> row(static_cast<size_t>(width));
    for (;;) {
      int32_t next = std::numeric_limits<int32_t>::max();
      for (int64_t r = first; r < last; ++r)
        if (const Rest& rest = lists[static_cast<size_t>(r)]; rest.token != rest.end)
          next = std::min(next, *rest.token);
      if (next == std::numeric_limits<int32_t>::max()) return;
      dequantize_row(table.type, table.row(next), row.data(), width);
      for (int64_t r = first; r < last; ++r) {
        Rest& rest = lists[static_cast<size_t>(r)];
        if (rest.token == rest.end || *rest.token != next) continue;
        const float p = *rest.probability++;
        ++rest.token;
        float* sum = out + r * width;
        for (int64_t i = 0; i < width; ++i) sum[i] += p * row[static_cast<size_t>(i)];
      }
    }
  });
}

}  // namespace llada
