// Byte-pair merging in rank order. Words: pair = two neighbouring tokens; merge = the token that replaces a
// pair; rank = a merge's place in the model's list, lowest first. The rule is that of Sennrich et al. 2016 as
// today's tokenizers run it: while any pair has a merge, apply the lowest rank, the leftmost one of equals,
// one at a time. O(n log n) for a word of n bytes. Deliberately absent: dropout, unknown tokens, word
// suffixes; a cache of words (measured cost is the regex, not this).
#pragma once
#include <cstdint>
#include <vector>

namespace llada {

struct MergeRule {
  int32_t left = 0, right = 0, result = 0;
  uint32_t rank = 0;
};

// Immutable lookup (left, right) -> rule: rules grouped by left and sorted by right, so a hostile list has no
// bad case.
class MergeTable {
 public:
  MergeTable() = default;

  // Ids in the rules are in [0, vocab_size).
  MergeTable(std::vector<MergeRule> rules, int32_t vocab_size);

  const MergeRule* find(int32_t left, int32_t right) const;

  // The later of two rules for one pair, or null: such a list has no well-defined rank.
  const MergeRule* first_duplicate() const;

 private:
  std::vector<MergeRule> rules_;
  std::vector<uint32_t> begin_;  // vocab_size + 1 entries
};

inline constexpr int64_t kMaxWord = int64_t{1} << 30;  // tokens in one call of BpeMerger::merge

// Scratch memory of one thread; reuse saves the allocations.
class BpeMerger {
 public:
  // Merges `word` (at most kMaxWord tokens, normally one per byte) and appends the result to `out`.
  void merge(const MergeTable& table, const std::vector<int32_t>& word, std::vector<int32_t>& out);

 private:
  struct Symbol {
    int32_t id, previous, next;  // next: -1 at the end; id: -1 once merged into its left neighbour
  };
  void push(const MergeTable& table, int32_t left);
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> queue_;  // min-heap of rank << 32 | position: rank first, then leftmost
};

}  // namespace llada
