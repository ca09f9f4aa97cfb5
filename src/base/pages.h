// Memory for weights, caches and activations: aligned for the widest loads, and in huge pages where it is
// large, because a matrix read in 4 KiB pages loses 5 to 10 % of the memory bandwidth to address translation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

namespace llada {

struct AlignedFree {
  void operator()(std::byte* data) const { std::free(data); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedFree>;

// Of the system's pages: 4 KiB on most, 16 KiB on newer phones, up to 64 KiB on arm64 servers.
int64_t page_bytes();

// The pages that lie whole in [begin, end): where the first begins and the last ends; no pair (a, b) with a < b where
// there are none.
std::pair<uint64_t, uint64_t> whole_pages(uint64_t begin, uint64_t end, uint64_t page);

// At least `bytes` bytes on a page's border, contents undefined, pages untouched; null when there is no such
// memory. From 2 MiB on the system is asked for huge pages.
AlignedBytes allocate_aligned(int64_t bytes);

// Memory that frees itself however it was made, for what more than one processor must see.
using SharedBytes = std::shared_ptr<std::byte[]>;

// At least that many bytes, aligned as by allocate_aligned; null when there is no such memory.
using Allocator = std::function<SharedBytes(int64_t bytes)>;
SharedBytes allocate_shared(int64_t bytes);  // of this process alone

// Says that what [data, data + bytes) holds is nobody's any more: it is new, or used again. Costs nothing, unless the
// process has asked for such memory to be filled with a byte: tests do, with one that makes NaN of F32 and of F16
// (0xff), so that whatever is read before it is written shows. New memory from the functions above is forgotten memory.
// The byte is set before other threads start and stays; -1: contents are left as they are.
void forget(std::byte* data, int64_t bytes);
void fill_forgotten_memory(int byte);

// Gives the whole pages inside [begin, begin + bytes) back to the system: their contents are lost, the
// addresses stay usable. For memory from allocate_aligned() only.
void release_pages(std::byte* begin, int64_t bytes);

}  // namespace llada
