// Baselines of the plan in memory/residency.h: slabs are mapped on demand, and a rule says which one is evicted.
// Belady's rule, which evicts the slab whose next use is farthest in the future, is the best that demand paging can do.
#pragma once
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "sched/memory_runtime.h"

namespace llada {

enum class PagingRule {
  lru,       // the slab whose last use is longest ago goes
  drop_all,  // on overflow everything goes
  belady,    // the slab whose next use in the cycle is farthest goes
};
std::string_view name(PagingRule rule);

// The mapped set under one rule. Slabs 0..n-1 are touched in a cycle (Belady's rule relies on it).
class Pager final : public DemandPager {
 public:
  // Every slab must fit the window alone (invalid input otherwise); a window < 0 is unlimited.
  static Result<Pager> create(PagingRule rule, std::vector<int64_t> slab_bytes, int64_t window_bytes);

  Touch touch(int32_t slab) override;

 private:
  Pager(PagingRule rule, std::vector<int64_t> bytes, int64_t window)
      : rule_(rule), bytes_(std::move(bytes)), window_(window), mapped_(bytes_.size(), false) {}
  int32_t victim(int32_t now) const;

  PagingRule rule_;
  std::vector<int64_t> bytes_;
  int64_t window_, used_ = 0;
  std::vector<bool> mapped_;
  std::deque<int32_t> order_;  // lru: by last use, else by mapping; oldest first
};

// Every policy of memory by name, in the order in which tables show them.
struct NamedMemory {
  std::string_view name;
  MemoryPolicy policy = MemoryPolicy::plan;
  std::optional<PagingRule> rule = {};  // in place of the policy
  MemoryOptions options() const;
};
inline constexpr NamedMemory kMemories[] = {{"plan"},
                                            {"copy", MemoryPolicy::copy},
                                            {"lru", {}, PagingRule::lru},
                                            {"drop-all", {}, PagingRule::drop_all},
                                            {"belady", {}, PagingRule::belady},
                                            {"sessions", MemoryPolicy::sessions}};
Result<MemoryOptions> memory_from_name(std::string_view text);

}  // namespace llada
