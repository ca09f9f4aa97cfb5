#include "text/bpe.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "base/check.h"

namespace llada {

MergeTable::MergeTable(std::vector<MergeRule> rules, int32_t vocab_size) : rules_(std::move(rules)) {
  std::sort(rules_.begin(), rules_.end(), [](const MergeRule& a, const MergeRule& b) {
    return std::tie(a.left, a.right, a.rank) < std::tie(b.left, b.right, b.rank);
  });
  begin_.assign(static_cast<size_t>(vocab_size) + 1, 0);
  for (const MergeRule& rule : rules_) ++begin_[rule.left + 1];
  for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
}

const MergeRule* MergeTable::find(int32_t left, int32_t right) const {
  const auto first = rules_.begin() + begin_[left], last = rules_.begin() + begin_[left + 1];
  const auto it =
      std::lower_bound(first, last, right, [](const MergeRule& rule, int32_t id) { return rule.right < id; });
  return it != last && it->right == right ? &*it : nullptr;
}

const MergeRule* MergeTable::first_duplicate() const {
  for (size_t i = 1; i < rules_.size(); ++i)
    if (rules_[i].left == rules_[i - 1].left && rules_[i].right == rules_[i - 1].right) return &rules_[i];
  return nullptr;
}

void BpeMerger::push(const MergeTable& table, int32_t left) {
  if (left < 0 || symbols_[left].next < 0) return;
  const MergeRule* rule = table.find(symbols_[left].id, symbols_[symbols_[left].next].id);
  if (rule == nullptr) return;
  queue_.push_back(uint64_t{rule->rank} << 32 | static_cast<uint32_t>(left));
  std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
}

void BpeMerger::merge(const MergeTable& table, const std::vector<int32_t>& word, std::vector<int32_t>& out) {
  const auto count = static_cast<int64_t>(word.size());
  LLADA_CHECK(count <= kMaxWord);
  symbols_.clear();
  queue_.clear();
  for (int32_t i = 0; i < count; ++i) symbols_.push_back({word[i], i - 1, i + 1 < count ? i + 1 : -1});
  for (int32_t i = 0; i + 1 < count; ++i) push(table, i);
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    const auto rank = static_cast<uint32_t>(queue_.back() >> 32);
    const auto at = static_cast<int32_t>(queue_.back() & 0xFFFFFFFFu);
    queue_.pop_back();
    Symbol& left = symbols_[at];
    if (left.id < 0 || left.next < 0) continue;
    const MergeRule* rule = table.find(left.id, symbols_[left.next].id);
    if (rule == nullptr || rule->rank != rank) continue;  // one of the two has changed since it was queued
    Symbol& right = symbols_[left.next];
    left.id = rule->result;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols_[left.next].previous = at;
    push(table, left.previous);
    push(table, at);
  }
  for (int32_t i = 0; i >= 0 && i < count; i = symbols_[i].next) out.push_back(symbols_[i].id);
}

}  // namespace llada
