#include "study/paging.h"

#include <algorithm>

namespace llada {

std::string_view name(PagingRule rule) {
  switch (rule) {
    case PagingRule::lru:
      return "lru";
    case PagingRule::drop_all:
      return "drop-all";
    case PagingRule::belady:
      return "belady";
  }
  return "";
}

Result<Pager> Pager::create(PagingRule rule, std::vector<int64_t> slab_bytes, int64_t window_bytes) {
  for (const int64_t bytes : slab_bytes)
    if (window_bytes >= 0 && bytes > window_bytes)
      return invalid("window: found {} bytes for weights, needed {} for the largest slab", window_bytes, bytes);
  return Pager(rule, std::move(slab_bytes), window_bytes);
}

int32_t Pager::victim(int32_t now) const {
  if (rule_ != PagingRule::belady) return order_.front();
  const auto n = static_cast<int32_t>(bytes_.size());
  return *std::ranges::max_element(order_, {}, [&](int32_t slab) { return (slab - now + n) % n; });
}

DemandPager::Touch Pager::touch(int32_t slab) {
  const auto i = static_cast<size_t>(slab);
  Touch result;
  if (mapped_[i]) {
    if (rule_ == PagingRule::lru) std::erase(order_, slab), order_.push_back(slab);
    return result;
  }
  result.map = true;
  const bool overflow = window_ >= 0 && used_ + bytes_[i] > window_;
  while (!order_.empty() &&
         ((window_ >= 0 && used_ + bytes_[i] > window_) || (overflow && rule_ == PagingRule::drop_all))) {
    const int32_t out = victim(slab);
    std::erase(order_, out);
    mapped_[static_cast<size_t>(out)] = false;
    used_ -= bytes_[static_cast<size_t>(out)];
    result.evict.push_back(out);
  }
  mapped_[i] = true;
  used_ += bytes_[i];
  order_.push_back(slab);
  return result;
}

MemoryOptions NamedMemory::options() const {
  MemoryOptions options{.policy = policy};
  if (rule)
    options.pager = [rule = *rule](std::vector<int64_t> bytes, int64_t window) -> Result<std::unique_ptr<DemandPager>> {
      LLADA_TRY(Pager pager, Pager::create(rule, std::move(bytes), window));
      return std::make_unique<Pager>(std::move(pager));
    };
  return options;
}

Result<MemoryOptions> memory_from_name(std::string_view text) {
  std::vector<std::string_view> names;
  for (const NamedMemory& memory : kMemories) {
    if (memory.name == text) return memory.options();
    names.push_back(memory.name);
  }
  return invalid("memory policy: found '{}', needed one of {}", text, fmt::join(names, ", "));
}

}  // namespace llada
