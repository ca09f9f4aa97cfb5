// Slabs: the weights of one layer (or half of it, or one op) laid out together in first-use order, so that a device
// maps them with one call. A program reads its slabs in the same order in every step, on which residency.h and paging.h
// rest.
//
// Deliberately absent: the embedding table, from which rows are picked by the host.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace llada {

inline constexpr int64_t kPageBytes = 4096;  // the unit of mapping; slabs are whole pages

// One weight in the order in which a program first reads it. half: 0 for attention, 1 for the feed-forward
// part of its layer. layer -1: after the last layer, the final norm and the head.
struct WeightUse {
  int32_t weight = -1;
  int64_t bytes = 0;
  int32_t layer = -1;
  int32_t half = 0;
  int32_t op = 0;  // that reads it first
};

struct Slab {
  std::vector<int32_t> weights;  // in first-use order; a cut slab shares the weight at the cut with its other part
  int64_t bytes = 0;             // whole pages
  int32_t layer = -1;
};

enum class SlabGrain { layer, half_layer, op };
std::string_view name(SlabGrain grain);

// Slabs in first-use order, rounded up to pages. `uses` holds every weight once.
std::vector<Slab> group_slabs(std::span<const WeightUse> uses, SlabGrain grain, int64_t page_bytes = kPageBytes);

int64_t total_bytes(std::span<const Slab> slabs);

}  // namespace llada
