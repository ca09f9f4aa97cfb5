#include "base/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace llada {
namespace {

std::atomic<int> forgotten_byte{-1};

}  // namespace

void fill_forgotten_memory(int byte) { forgotten_byte.store(byte, std::memory_order_relaxed); }

void forget(std::byte* data, int64_t bytes) {
  const int byte = forgotten_byte.load(std::memory_order_relaxed);
  if (byte >= 0 && bytes > 0) std::memset(data, byte, static_cast<size_t>(bytes));
}

AlignedBytes allocate_aligned(int64_t bytes) {
  constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;
  const auto wanted = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  const size_t align = wanted >= kHugePage ? kHugePage : kPage;
  // The size is rounded to small pages only: the tail of a huge page that nobody touches would cost memory.
  const size_t size = (wanted + kPage - 1) / kPage * kPage;
  void* data = nullptr;
  if (::posix_memalign(&data, align, size) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
  if (align == kHugePage) ::madvise(data, size, MADV_HUGEPAGE);
#endif
  forget(static_cast<std::byte*>(data), static_cast<int64_t>(size));
  return AlignedBytes(static_cast<std::byte*>(data));
}

SharedBytes allocate_shared(int64_t bytes) { return allocate_aligned(bytes); }

void release_pages(std::byte* begin, int64_t bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = (at + page - 1) / page * page, last = (at + static_cast<uintptr_t>(bytes)) / page * page;
  if (first < last) ::madvise(begin + (first - at), last - first, MADV_DONTNEED);
}

}  // namespace llada
