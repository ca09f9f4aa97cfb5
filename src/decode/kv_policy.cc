#include "decode/kv_policy.h"

#include <numeric>

namespace llada::decode {

bool is_full_forward(KvChoice choice, int64_t refresh, const KvStep& step) {
  return choice == KvChoice::none || step.step == 0 || (refresh > 0 && step.step % refresh == 0);
}

std::vector<int32_t> kv_rows(KvChoice choice, int64_t refresh, const KvStep& step) {
  const bool full = is_full_forward(choice, refresh, step);
  const int64_t begin = full ? 0 : step.block.begin;
  const int64_t end = full || choice == KvChoice::prefix ? step.canvas_size : step.block.end;
  std::vector<int32_t> rows(static_cast<size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), static_cast<int32_t>(begin));
  return rows;
}

}  // namespace llada::decode
