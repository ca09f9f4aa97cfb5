// The last values by key, a small number of them: values that cost something to make and are asked for again and again.
// A search walks the list, so this is for dozens of values, not thousands. For one thread.
#pragma once
#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <utility>

#include "base/check.h"

namespace llada {

// Key: compared with ==, and kept: a key that is a shared pointer keeps its address from being used again.
template <class Key, class Value>
class Recent {
 public:
  // most: at least 1.
  explicit Recent(size_t most) : most_(most) { LLADA_CHECK(most > 0); }

  // The key's value, which becomes the most recently used; null where it is not kept. Whoever holds a value may
  // use it, whether it is still kept here or not.
  std::shared_ptr<const Value> find(const Key& key) {
    const auto found = std::ranges::find(kept_, key, &Entry::key);
    if (found == kept_.end()) return nullptr;
    kept_.splice(kept_.begin(), kept_, found);
    return found->value;
  }

  // Keeps a value as the most recently used, in the place of another of this key; beyond the most, the least recently
  // used one leaves.
  std::shared_ptr<const Value> keep(Key key, Value value) {
    kept_.remove_if([&](const Entry& e) { return e.key == key; });
    kept_.push_front({std::move(key), std::make_shared<const Value>(std::move(value))});
    if (kept_.size() > most_) kept_.pop_back();
    return kept_.front().value;
  }

  void clear() { kept_.clear(); }
  size_t size() const { return kept_.size(); }

 private:
  struct Entry {
    Key key;
    std::shared_ptr<const Value> value;
  };
  size_t most_;
  std::list<Entry> kept_;  // most recently used first
};

}  // namespace llada
