#include "forms/automaton.h"

#include <algorithm>
#include <bitset>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "forms/nfa.h"

namespace llada::forms {
namespace {

constexpr int64_t kMostWork = 30'000'000;  // steps of the subset construction: a tenth of a second or two

// Bytes between two borders of ranges act alike.
void set_letters(const Nfa& nfa, Automaton& out) {
  std::bitset<257> border;
  border.set(0);
  for (const Nfa::State& state : nfa.states)
    for (const Nfa::Edge& edge : state.edges) border.set(edge.range.first), border.set(edge.range.last + size_t{1});
  int32_t letter = -1;
  for (size_t byte = 0; byte < 256; ++byte) {
    letter += border[byte];
    out.letter[byte] = static_cast<uint8_t>(letter);
  }
  out.letters = letter + 1;
}

struct HashOf {
  size_t operator()(const std::vector<int32_t>& states) const {
    uint64_t hash = 0xcbf29ce484222325;
    for (const int32_t s : states) hash = (hash ^ static_cast<uint64_t>(s)) * 0x100000001b3;
    return static_cast<size_t>(hash);
  }
};

// work: gets the steps that were taken, `most` and some at most.
Status take_subsets(const Nfa& nfa, int32_t start, int32_t end, Automaton& out, int64_t most, int64_t& work) {
  std::vector<int32_t> seen(nfa.states.size(), -1), stack;
  int32_t round = 0;
  // Of a closure, the states that read a byte, and the end.
  const auto closure = [&](const std::vector<int32_t>& from) {
    std::vector<int32_t> found;
    ++round;
    for (const int32_t s : from)
      if (std::exchange(seen[static_cast<size_t>(s)], round) != round) stack.push_back(s);
    while (!stack.empty()) {
      const int32_t s = stack.back();
      stack.pop_back();
      ++work;
      const Nfa::State& state = nfa.states[static_cast<size_t>(s)];
      if (!state.edges.empty() || s == end) found.push_back(s);
      for (const int32_t t : state.free)
        if (std::exchange(seen[static_cast<size_t>(t)], round) != round) stack.push_back(t);
    }
    std::ranges::sort(found);
    return found;
  };
  std::unordered_map<std::vector<int32_t>, int32_t, HashOf> known;
  std::vector<const std::vector<int32_t>*> subsets;
  const auto state_of = [&](std::vector<int32_t> subset) {
    const auto [at, fresh] = known.try_emplace(std::move(subset), static_cast<int32_t>(known.size()));
    if (fresh) {
      subsets.push_back(&at->first);
      out.complete.push_back(std::ranges::binary_search(at->first, end));
    }
    return at->second;
  };
  out.start = state_of(closure({start}));
  std::vector<std::vector<int32_t>> targets(static_cast<size_t>(out.letters));
  // The same targets often have the same closure: a UTF-8 class has many letters.
  for (size_t i = 0; i < subsets.size(); ++i) {
    if (std::ssize(subsets) > kMostStates) return too_large("the form needs more than {} states", kMostStates);
    if (work > most) return too_large("the form is too large");
    for (auto& list : targets) list.clear();
    for (const int32_t s : *subsets[i])
      for (const Nfa::Edge& edge : nfa.states[static_cast<size_t>(s)].edges)
        for (int l = out.letter[edge.range.first]; l <= out.letter[edge.range.last]; ++l)
          targets[static_cast<size_t>(l)].push_back(edge.to), ++work;
    const std::vector<int32_t>* before = nullptr;
    int32_t state = Automaton::kDead;
    for (const auto& list : targets) {
      if (before == nullptr || list != *before) state = list.empty() ? Automaton::kDead : state_of(closure(list));
      before = &list;
      out.next.push_back(state);
    }
  }
  return {};
}

// Drops states from which nothing is complete, and those that are not reached.
void trim(Automaton& a) {
  const auto states = static_cast<size_t>(a.states()), letters = static_cast<size_t>(a.letters);
  std::vector<std::vector<int32_t>> from(states);
  for (size_t s = 0; s < states; ++s)
    for (size_t l = 0; l < letters; ++l)
      if (const int32_t t = a.next[s * letters + l];
          t >= 0 &&
          (from[static_cast<size_t>(t)].empty() || from[static_cast<size_t>(t)].back() != static_cast<int32_t>(s)))
        from[static_cast<size_t>(t)].push_back(static_cast<int32_t>(s));
  std::vector<char> alive = a.complete;
  std::vector<int32_t> stack;
  for (size_t s = 0; s < states; ++s)
    if (alive[s]) stack.push_back(static_cast<int32_t>(s));
  while (!stack.empty()) {
    const int32_t s = stack.back();
    stack.pop_back();
    for (const int32_t t : from[static_cast<size_t>(s)])
      if (!std::exchange(alive[static_cast<size_t>(t)], 1)) stack.push_back(t);
  }
  for (int32_t& t : a.next)
    if (t >= 0 && !alive[static_cast<size_t>(t)]) t = Automaton::kDead;
  std::vector<int32_t> order, number(states, -1);
  if (alive[static_cast<size_t>(a.start)]) order.push_back(a.start), number[static_cast<size_t>(a.start)] = 0;
  for (size_t i = 0; i < order.size(); ++i)
    for (size_t l = 0; l < letters; ++l)
      if (const int32_t t = a.next[static_cast<size_t>(order[i]) * letters + l];
          t >= 0 && number[static_cast<size_t>(t)] < 0)
        number[static_cast<size_t>(t)] = static_cast<int32_t>(order.size()), order.push_back(t);
  Automaton out;
  out.letter = a.letter, out.letters = a.letters;
  for (const int32_t s : order) {
    out.complete.push_back(a.complete[static_cast<size_t>(s)]);
    for (size_t l = 0; l < letters; ++l) {
      const int32_t t = a.next[static_cast<size_t>(s) * letters + l];
      out.next.push_back(t < 0 ? t : number[static_cast<size_t>(t)]);
    }
  }
  a = std::move(out);
}

// Hopcroft's refinement. A missing edge leads nowhere, which is a state of its own that nothing is complete in; since
// every other state can be completed, it needs no place in the partition.
class Partition {
 public:
  explicit Partition(const Automaton& a)
      : a_(a), order_(static_cast<size_t>(a.states())), place_(order_), block_(order_) {
    std::iota(order_.begin(), order_.end(), 0);
    const auto middle =
        std::ranges::stable_partition(order_, [&](int32_t s) { return a.complete[static_cast<size_t>(s)]; });
    const auto split = static_cast<int32_t>(middle.begin() - order_.begin());
    if (split > 0) begin_.push_back(0), end_.push_back(split);
    if (split < a.states()) begin_.push_back(split), end_.push_back(a.states());
    for (size_t i = 0; i < order_.size(); ++i) {
      place_[static_cast<size_t>(order_[i])] = static_cast<int32_t>(i);
      block_[static_cast<size_t>(order_[i])] = static_cast<int32_t>(i) < split || split == 0 ? 0 : 1;
    }
    hit_.assign(begin_.size(), 0);
  }

  std::vector<int32_t> refine() {
    make_inverse();
    std::vector<std::pair<int32_t, int32_t>> work;  // block, letter
    for (int32_t b = 0; b < std::ssize(begin_); ++b)
      for (int32_t l = 0; l < a_.letters; ++l) work.emplace_back(b, l);
    std::vector<int32_t> sources, touched;
    while (!work.empty()) {
      const auto [splitter, letter] = work.back();
      work.pop_back();
      sources.clear(), touched.clear();
      for (int32_t i = begin_[static_cast<size_t>(splitter)]; i < end_[static_cast<size_t>(splitter)]; ++i) {
        const size_t cell = static_cast<size_t>(order_[static_cast<size_t>(i)]) * static_cast<size_t>(a_.letters) +
                            static_cast<size_t>(letter);
        for (int32_t k = first_[cell]; k < first_[cell + 1]; ++k) sources.push_back(source_[static_cast<size_t>(k)]);
      }
      for (const int32_t s : sources) {
        const int32_t b = block_[static_cast<size_t>(s)];
        if (hit_[static_cast<size_t>(b)]++ == 0) touched.push_back(b);
        swap_to(s, begin_[static_cast<size_t>(b)] + hit_[static_cast<size_t>(b)] - 1);
      }
      for (const int32_t b : touched) {
        const auto i = static_cast<size_t>(b);
        const int32_t count = std::exchange(hit_[i], 0), middle = begin_[i] + count;
        if (middle == end_[i]) continue;
        const auto fresh = static_cast<int32_t>(begin_.size());
        const bool front = count <= end_[i] - middle;  // the smaller part becomes the new block, and splits others
        begin_.push_back(front ? begin_[i] : middle), end_.push_back(front ? middle : end_[i]);
        hit_.push_back(0);
        (front ? begin_[i] : end_[i]) = middle;
        for (int32_t k = begin_.back(); k < end_.back(); ++k)
          block_[static_cast<size_t>(order_[static_cast<size_t>(k)])] = fresh;
        for (int32_t l = 0; l < a_.letters; ++l) work.emplace_back(fresh, l);
      }
    }
    return block_;
  }

 private:
  void make_inverse() {
    const auto letters = static_cast<size_t>(a_.letters);
    first_.assign(order_.size() * letters + 1, 0);
    const auto each = [&](auto visit) {
      for (size_t cell = 0; cell < a_.next.size(); ++cell)
        if (a_.next[cell] >= 0)
          visit(static_cast<size_t>(a_.next[cell]) * letters + cell % letters, static_cast<int32_t>(cell / letters));
    };
    each([&](size_t to, int32_t) { ++first_[to + 1]; });
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    source_.resize(static_cast<size_t>(first_.back()));
    std::vector<int32_t> at(first_.begin(), first_.end() - 1);
    each([&](size_t to, int32_t from) { source_[static_cast<size_t>(at[to]++)] = from; });
  }

  void swap_to(int32_t state, int32_t place) {
    const int32_t other = order_[static_cast<size_t>(place)], old = place_[static_cast<size_t>(state)];
    std::swap(order_[static_cast<size_t>(place)], order_[static_cast<size_t>(old)]);
    place_[static_cast<size_t>(state)] = place, place_[static_cast<size_t>(other)] = old;
  }

  const Automaton& a_;
  std::vector<int32_t> order_, place_, block_;  // states by block; where each is; whose it is
  std::vector<int32_t> begin_, end_, hit_;      // by block
  std::vector<int32_t> first_, source_;         // edges by target and letter
};

void minimise(Automaton& a) {
  const std::vector<int32_t> block = Partition(a).refine();
  const auto letters = static_cast<size_t>(a.letters);
  const int32_t count = 1 + *std::ranges::max_element(block);
  Automaton out;
  out.letter = a.letter, out.letters = a.letters;
  out.next.assign(static_cast<size_t>(count) * letters, Automaton::kDead);
  out.complete.resize(static_cast<size_t>(count));
  out.start = block[static_cast<size_t>(a.start)];
  for (size_t s = 0; s < block.size(); ++s) {
    const auto b = static_cast<size_t>(block[s]);
    out.complete[b] = a.complete[s];
    for (size_t l = 0; l < letters; ++l)
      if (const int32_t t = a.next[s * letters + l]; t >= 0) out.next[b * letters + l] = block[static_cast<size_t>(t)];
  }
  a = std::move(out);
}

}  // namespace

bool Automaton::fits(std::string_view text) const {
  int32_t state = start;
  for (const char c : text) {
    state = step(state, static_cast<uint8_t>(c));
    if (state < 0) return false;
  }
  if (!complete[static_cast<size_t>(state)] || !counted) return complete[static_cast<size_t>(state)];
  Counted::Ways ways = counted->begin();
  int64_t steps = 0;
  return counted->read(ways, text, steps) && counted->complete(ways);
}

void reduce(Automaton& a) {
  trim(a);
  if (a.complete.empty()) return;
  minimise(a);
  trim(a);  // numbers the states in the order in which they are reached
}

bool has_parts(const Expr& expression, int32_t most) { return Nfa::of(expression, kLastLevel, most).has_value(); }

Result<Automaton> compile(const Expr& expression, int level, Budget* budget) {
  const auto pay = [&](int64_t steps) { return budget != nullptr ? budget->step(steps) : Status(); };
  const auto made = Nfa::of(expression, level);
  constexpr int64_t kOfState = 8, kOfCell = 5;
  LLADA_TRY_STATUS(pay(kOfState * (made ? std::ssize(made->states) : kMostParts)));
  if (!made) return std::unexpected(made.error());
  const Nfa& nfa = *made;
  Automaton automaton;
  set_letters(nfa, automaton);
  int64_t work = 0;
  const Status taken = take_subsets(nfa, nfa.start, nfa.end, automaton,
                                    budget != nullptr ? std::min(kMostWork, budget->steps_left()) : kMostWork, work);
  LLADA_TRY_STATUS(pay(work + kOfCell * std::ssize(automaton.next)));
  LLADA_TRY_STATUS(taken);
  reduce(automaton);
  if (automaton.complete.empty()) return invalid("no text fits the form");
  if (nfa.counts) automaton.counted = std::make_shared<const Counted>(nfa);
  return automaton;
}

}  // namespace llada::forms
