#include "forms/nfa.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "forms/automaton.h"

namespace llada::forms {
namespace {

using Kind = Expression::Kind;

// How many states an expression makes where all repeats stand as often as they may, and how deeply repeats that are
// loops stand in each other. Parts that stand at several places count each time, up to kHuge.
class Sizes {
 public:
  explicit Sizes(int level) : level_(level) {}

  struct Size {
    int64_t states = 1;
    int deep = 0;
    bool fresh = false;  // a loop of this level and not of the one before
  };

  const Size& of(const Expression& e) {
    if (const auto known = sizes_.find(&e); known != sizes_.end()) return known->second;
    Size size;
    size.states = 1 + static_cast<int64_t>(e.text.size()) + (e.automaton ? e.automaton->states() : 0);
    for (const Expr& part : e.parts) {
      const Size& inner = of(*part);
      size.states = std::min(kHuge, size.states + inner.states + static_cast<int64_t>(e.text.size()));
      size.deep = std::max(size.deep, inner.deep);
      size.fresh |= inner.fresh;
    }
    if (e.kind == Kind::repeat && e.most >= 0) {
      const int64_t added = std::min(kHuge, size.states * std::max<int64_t>(1, e.most - e.least));
      const bool loop = added > kLoopsAbove[level_] && size.deep < static_cast<int>(Counted::kDeepest);
      if (loop && added <= kLoopsAbove[std::max(level_ - 1, 0)]) size.fresh = true;
      const int64_t copies = e.least + (loop ? 1 : e.most - e.least);
      size.states = std::min(kHuge, size.states * std::max<int64_t>(1, copies));
      if (loop) ++size.deep, loops_.push_back(&e);
    } else if (e.kind == Kind::repeat) {
      size.states = std::min(kHuge, size.states * (e.least + 1));
    }
    return sizes_.emplace(&e, size).first->second;
  }
  int64_t parts() const { return std::ssize(sizes_); }
  std::vector<const Expression*> take_loops() {
    std::ranges::sort(loops_);
    return std::move(loops_);
  }

 private:
  const int level_;
  std::unordered_map<const Expression*, Size> sizes_;
  std::vector<const Expression*> loops_;
};

class Builder {
 public:
  Builder(Nfa& nfa, std::vector<const Expression*> loops, int32_t most)
      : nfa_(nfa), loops_(std::move(loops)), most_(most) {}

  // From the end to the beginning: the state from which `e` and then what `next` leads to is read.
  int32_t build(const Expr& e, int32_t next) {
    ++built_;
    full |= empty();
    if (full) return 0;
    // What only one place names has no second beginning, and may live shorter than its address would be kept.
    if (e.use_count() == 1 || e->kind == Kind::text) return part(*e, next);
    const std::pair key(e.get(), next);
    if (const auto known = shared_.find(key); known != shared_.end()) return known->second;
    const int32_t begin = part(*e, next);
    shared_.emplace(key, begin);
    return begin;
  }

  bool full = false;
  bool empty() const { return built_ > 4 * int64_t{most_}; }  // very many expressions, of few states

 private:
  int32_t add(Nfa::State state) {
    if (std::ssize(nfa_.states) >= most_) {
      full = true;
      return 0;
    }
    nfa_.states.push_back(std::move(state));
    return static_cast<int32_t>(nfa_.states.size()) - 1;
  }
  int32_t add_byte(char byte, int32_t next) {
    const auto b = static_cast<uint8_t>(byte);
    return add({.edges = {{{b, b}, next}}});
  }

  int32_t part(const Expression& e, int32_t next) {
    switch (e.kind) {
      case Kind::never:
        return add({});
      case Kind::text:
        for (size_t i = e.text.size(); i-- > 0 && !full;) next = add_byte(e.text[i], next);
        return next;
      case Kind::bytes: {
        Nfa::State state;
        for (const ByteRange& r : e.ranges) state.edges.push_back({r, next});
        return add(std::move(state));
      }
      case Kind::sequence:
        for (size_t i = e.parts.size(); i-- > 0;) next = build(e.parts[i], next);
        return next;
      case Kind::either: {
        Nfa::State state;
        for (const Expr& each : e.parts) state.free.push_back(build(each, next));
        return add(std::move(state));
      }
      case Kind::repeat:
        return repeat(e, next);
      case Kind::without:
        return without(e.text, next);
      case Kind::members:
        return members(e, next);
      case Kind::automaton:
        return automaton(*e.automaton, next);
    }
    return next;
  }

  int32_t repeat(const Expression& e, int32_t next) {
    int32_t from = next;
    if (e.most < 0 || std::ranges::binary_search(loops_, &e)) {
      const bool bounded = e.most >= 0;
      if (bounded) next = add({.free = {next}, .count = Nfa::Count::end});
      from = add({.free = {next}});
      int32_t body = build(e.parts[0], from);
      if (bounded) {
        nfa_.counts = true;
        body = add({.free = {body}, .count = Nfa::Count::next, .most = static_cast<int32_t>(e.most - e.least)});
      }
      if (!full) nfa_.states[static_cast<size_t>(from)].free.push_back(body);
      if (bounded) from = add({.free = {from}, .count = Nfa::Count::begin});
    } else {
      for (int64_t i = e.least; i < e.most && !full; ++i) from = add({.free = {build(e.parts[0], from), next}});
    }
    for (int64_t i = 0; i < e.least && !full; ++i) from = build(e.parts[0], from);
    return from;
  }

  // One state for each beginning of the text that was read last (Knuth, Morris and Pratt's); what would complete it is
  // not read.
  int32_t without(std::string_view text, int32_t next) {
    const auto first = static_cast<int32_t>(nfa_.states.size());
    for (size_t i = 0; i < text.size(); ++i) add({.free = {next}});
    const int32_t other = build(one_of({{0x80, kLastCode}}, Letters::plain), first);
    for (size_t read = 0; read < text.size() && !full; ++read) {
      Nfa::State& state = nfa_.states[static_cast<size_t>(first) + read];
      state.free.push_back(other);
      for (int byte = 0; byte < 0x80; ++byte) {
        const std::string now = std::string(text.substr(0, read)) + static_cast<char>(byte);
        size_t kept = now.size();
        while (!now.ends_with(text.substr(0, kept))) --kept;
        const auto b = static_cast<uint8_t>(byte);
        const int32_t to = first + static_cast<int32_t>(kept);
        if (kept == text.size()) continue;
        if (!state.edges.empty() && state.edges.back().to == to && state.edges.back().range.last + 1 == b)
          state.edges.back().range.last = b;
        else
          state.edges.push_back({{b, b}, to});
      }
    }
    return first;
  }

  // The states as they are, those that are complete with a way out.
  int32_t automaton(const Automaton& a, int32_t next) {
    const auto first = static_cast<int32_t>(nfa_.states.size());
    for (int32_t s = 0; s < a.states() && !full; ++s) {
      Nfa::State state;
      for (size_t byte = 0; byte < 256; ++byte) {
        const int32_t to = a.step(s, static_cast<uint8_t>(byte));
        if (to < 0) continue;
        const auto b = static_cast<uint8_t>(byte);
        if (!state.edges.empty() && state.edges.back().to == first + to && state.edges.back().range.last + 1 == b)
          state.edges.back().range.last = b;
        else
          state.edges.push_back({{b, b}, first + to});
      }
      if (a.complete[static_cast<size_t>(s)]) state.free.push_back(next);
      add(std::move(state));
    }
    return first + a.start;
  }

  int32_t members(const Expression& e, int32_t next) {
    int32_t first = next, later = next;  // before the first member that is written, behind one
    for (size_t i = e.parts.size(); i-- > 0 && !full;) {
      const int32_t begin = build(e.parts[i], later);
      int32_t separated = begin;
      for (size_t k = e.text.size(); k-- > 0;) separated = add_byte(e.text[k], separated);
      const auto joined = [&](int32_t written, int32_t left_out) {
        return e.required[i] ? written : add({.free = {written, left_out}});
      };
      first = joined(begin, first);
      later = joined(separated, later);
    }
    return first;
  }

  Nfa& nfa_;
  const std::vector<const Expression*> loops_;  // sorted
  const int32_t most_;
  int64_t built_ = 0;  // expressions
  // Where a part that stands at several places begins, by it and what follows it: a list names its item twice, before
  // the same states, so that nested lists would double at every level.
  std::map<std::pair<const Expression*, int32_t>, int32_t> shared_;
};

}  // namespace

Result<Nfa> Nfa::of(const Expr& expression, int level, int32_t most) {
  Nfa nfa;
  Sizes sizes(level);
  sizes.of(*expression);
  Builder builder(nfa, sizes.take_loops(), most);
  nfa.states.emplace_back();
  nfa.start = builder.build(expression, nfa.end);
  if (builder.empty()) return too_large("the form is too large");
  if (builder.full) return too_large("the form needs more than {} states", most);
  return nfa;
}

int64_t unshared_size(const Expr& expression, int64_t* parts) {
  Sizes sizes(kLastLevel);
  const int64_t states = sizes.of(*expression).states;
  if (parts != nullptr) *parts = sizes.parts();
  return states;
}

bool has_loops_at(const Expr& expression, int level) {
  return level <= kLastLevel && Sizes(level).of(*expression).fresh;
}

Counted::Counted(const Nfa& nfa) : start_(nfa.start), end_(nfa.end) {
  for (const Nfa::State& state : nfa.states) {
    states_.push_back(
        {static_cast<int32_t>(edges_.size()), static_cast<int32_t>(free_.size()), state.most, state.count});
    edges_.insert(edges_.end(), state.edges.begin(), state.edges.end());
    free_.insert(free_.end(), state.free.begin(), state.free.end());
  }
  states_.push_back({static_cast<int32_t>(edges_.size()), static_cast<int32_t>(free_.size()), 0, Nfa::Count::none});
}

// The way and what follows from it without a byte. A way that has no less counts than another one in its state is no
// gain, which also ends loops without a byte.
void Counted::add(Way way, Ways& found, int64_t& steps) const {
  constexpr size_t kMostWays = 512;
  Ways open = {way};
  while (!open.empty()) {
    way = open.back();
    open.pop_back();
    const State& state = states_[static_cast<size_t>(way.state)];
    if (state.count == Nfa::Count::begin) way.counts[static_cast<size_t>(way.open++)] = 0;
    if (state.count == Nfa::Count::end) way.counts[static_cast<size_t>(--way.open)] = 0;
    if (state.count == Nfa::Count::next && ++way.counts[static_cast<size_t>(way.open) - 1] > state.most) continue;
    steps += 1 + std::ssize(found);
    const auto no_less = [](const Way& more, const Way& less) {
      return more.state == less.state && std::ranges::equal(less.counts, more.counts, std::less_equal{});
    };
    if (std::ranges::any_of(found, [&](const Way& other) { return no_less(way, other); })) continue;
    std::erase_if(found, [&](const Way& other) { return no_less(other, way); });
    if (found.size() >= kMostWays) continue;
    found.push_back(way);
    const int32_t last = states_[static_cast<size_t>(way.state) + 1].free;
    for (int32_t i = last; i-- > state.free;) {
      open.push_back(way);
      open.back().state = free_[static_cast<size_t>(i)];
    }
  }
}

Counted::Ways Counted::begin() const {
  Ways ways;
  int64_t steps = 0;
  add({.state = start_}, ways, steps);
  return ways;
}

bool Counted::read(Ways& ways, std::string_view text, int64_t& steps) const {
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    Ways next;
    for (const Way& way : ways) {
      const auto s = static_cast<size_t>(way.state);
      for (int32_t i = states_[s].edges; i < states_[s + 1].edges; ++i) {
        const Nfa::Edge& edge = edges_[static_cast<size_t>(i)];
        if (byte < edge.range.first || byte > edge.range.last) continue;
        Way further = way;
        further.state = edge.to;
        add(further, next, steps);
      }
    }
    ways = std::move(next);
    if (ways.empty()) return false;
  }
  return true;
}

bool Counted::complete(const Ways& ways) const {
  return std::ranges::any_of(ways, [&](const Way& way) { return way.state == end_; });
}

int64_t Counted::bytes() const {
  return static_cast<int64_t>(states_.capacity() * sizeof(State) + edges_.capacity() * sizeof(Nfa::Edge) +
                              free_.capacity() * sizeof(int32_t));
}

}  // namespace llada::forms
