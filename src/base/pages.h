// Memory for weights, caches and activations, aligned for the widest loads. Large blocks are in huge pages, because a
// matrix read in 4 KiB pages loses 5 to 10 % of the memory bandwidth to address translation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace llada {

struct AlignedFree {
  void operator()(std::byte* data) const noexcept;
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedFree>;

// The system's page size: 4 KiB on most, 16 KiB on newer phones, up to 64 KiB on arm64 servers.
int64_t page_bytes();

// The pages that lie whole in [begin, end): where the first begins and the last ends; no pair (a, b) with a < b where
// there are none.
std::pair<uint64_t, uint64_t> whole_pages(uint64_t begin, uint64_t end, uint64_t page);

// At least `bytes` bytes on a page's border, contents undefined, pages untouched; null when there is no such
// memory. From 2 MiB on the system is asked for huge pages.
AlignedBytes allocate_aligned(int64_t bytes);

// Memory that frees itself however it was made, for data that more than one processor must see.
using SharedBytes = std::shared_ptr<std::byte[]>;

// At least that many bytes, aligned as by allocate_aligned; null when there is no such memory.
using Allocator = std::function<SharedBytes(int64_t bytes)>;
SharedBytes allocate_shared(int64_t bytes);  // of this process alone

// Marks the contents of [data, data + bytes) as undefined: the memory is new, or is used again. Free of cost, unless
// the process has asked for such memory to be filled with a byte. Tests fill it with 0xff, which makes NaN of F32 and
// of F16, so that a read before a write shows. New memory from the functions above is forgotten memory. The byte is set
// before other threads start and stays; -1: contents are left as they are.
void forget(std::byte* data, int64_t bytes);
void fill_forgotten_memory(int byte);

// Gives the whole pages inside [begin, begin + bytes) back to the system: their contents are lost, the
// addresses stay usable. For memory from allocate_aligned() only.
void release_pages(std::byte* begin, int64_t bytes);

}  // namespace llada
