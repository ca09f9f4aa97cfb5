#include "base/pages.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/os.h"

namespace llada {
namespace {

std::atomic<int> forgotten_byte{-1};

}  // namespace

void fill_forgotten_memory(int byte) { forgotten_byte.store(byte, std::memory_order_relaxed); }

void forget(std::byte* data, int64_t bytes) {
  const int byte = forgotten_byte.load(std::memory_order_relaxed);
  if (byte >= 0 && bytes > 0) std::memset(data, byte, static_cast<size_t>(bytes));
}

int64_t page_bytes() { return os::page_bytes(); }

void AlignedFree::operator()(std::byte* data) const noexcept { os::free_allocated(data); }

std::pair<uint64_t, uint64_t> whole_pages(uint64_t begin, uint64_t end, uint64_t page) {
  return {(begin + page - 1) / page * page, end / page * page};
}

AlignedBytes allocate_aligned(int64_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const auto page = static_cast<size_t>(page_bytes());
  const auto wanted = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  const size_t align = wanted >= kHugePage ? kHugePage : page;
  // The size is rounded to small pages only: the tail of a huge page that nobody touches would cost memory.
  const size_t size = (wanted + page - 1) / page * page;
  std::byte* const data = os::allocate(align, size);
  if (data == nullptr) return nullptr;
  if (align == kHugePage) os::advise(data, size, os::Advice::large_pages);
  forget(data, static_cast<int64_t>(size));
  return AlignedBytes(data);
}

SharedBytes allocate_shared(int64_t bytes) { return allocate_aligned(bytes); }

void release_pages(std::byte* begin, int64_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(begin);
  const auto [first, last] = whole_pages(at, at + static_cast<uintptr_t>(bytes), static_cast<uintptr_t>(page_bytes()));
  if (first < last) os::release(begin + (first - at), last - first);
}

}  // namespace llada
