#include "forms/token_form.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/random.h"
#include "forms/regions.h"
#include "text/call_syntax.h"

namespace llada::forms {

namespace {

constexpr int64_t kMostBytes = int64_t{96} << 20;  // while it is made: edges, sets, what regions share
constexpr int64_t kAllocation = 96;                // of a set, of what regions share, beside its own bytes
constexpr int64_t kWorthSharing = 20'000;          // nodes: fewer are walked sooner than a region is looked at
constexpr size_t kForcedBytes = 96;                // looked at ahead

template <class T>
int64_t bytes_of(const std::vector<T>& values) {
  return static_cast<int64_t>(values.capacity() * sizeof(T));
}

}  // namespace

// Makes a TokenForm, state by state as tokens lead to them.
class Lift {
 public:
  Lift(const Automaton& automaton, const Vocabulary& vocabulary, const EndTokens& ends, int64_t most_visits)
      : most_visits_(most_visits),
        a_(automaton),
        v_(vocabulary),
        ends_(ends),
        regions_(automaton),
        list_of_(static_cast<size_t>(automaton.states()), -1),
        stack_(vocabulary.longest() + 1),
        edges_(static_cast<size_t>(automaton.states()) + 1),
        is_end_(static_cast<size_t>(vocabulary.size())) {
    for (const int32_t id : ends.ids) is_end_[static_cast<size_t>(id)] = 1;
    for (int32_t n = 0; n < static_cast<int32_t>(v_.nodes().size());) {
      const Vocabulary::Node& first = v_.nodes()[static_cast<size_t>(n)];
      below_[first.byte] = first.end - n;
      n = first.end;
    }
    std::array<int, 256> bytes{}, last{};  // by letter
    for (int byte = 0; byte < 256; ++byte) ++bytes[a_.letter[byte]], last[a_.letter[byte]] = byte;
    const auto letters = static_cast<size_t>(a_.letters);
    for (size_t at = 0; at < a_.next.size(); at += letters) {
      int alive = 0, letter = 0;
      for (size_t l = 0; l < letters; ++l)
        if (a_.next[at + l] >= 0) ++alive, letter = static_cast<int>(l);
      only_byte_.push_back(alive == 1 && bytes[letter] == 1 ? last[letter] : -1);
    }
  }

  Result<TokenForm> run() {
    const int32_t end = a_.states();
    std::vector<int32_t> order = {a_.start};
    std::vector<char> seen(static_cast<size_t>(a_.states()));
    seen[static_cast<size_t>(a_.start)] = 1;
    for (size_t i = 0; i < order.size(); ++i) {
      const int32_t state = order[i];
      lift(state);
      bytes_ += bytes_of(edges_[static_cast<size_t>(state)]);
      ways_ += std::ssize(edges_[static_cast<size_t>(state)]);
      if (visits_ > most_visits_ || bytes_ > kMostBytes)
        return too_large("the form is too large for this vocabulary of {} tokens", v_.size());
      if (ways_ > kMostEdges)
        return too_large("the form has over {} transitions with this vocabulary of {} tokens, needed a smaller form",
                         kMostEdges, v_.size());
      for (const auto& [set, to] : edges_[static_cast<size_t>(state)])
        if (!std::exchange(seen[static_cast<size_t>(to)], 1)) order.push_back(to);
    }
    if (!ends_.ids.empty()) {
      const int32_t fill = intern({ends_.fill});
      std::vector<int32_t> ids = ends_.ids;
      std::ranges::sort(ids);
      const int32_t any = intern(ids);
      for (const int32_t s : order)
        if (a_.complete[static_cast<size_t>(s)]) {
          auto& edges = edges_[static_cast<size_t>(s)];
          edges.push_back({edges.empty() ? fill : any, end});
        }
      edges_[static_cast<size_t>(end)].push_back({fill, end});
    }
    return finish();
  }

 private:
  using Edge = TokenForm::Edge;
  struct Inner {  // what is alike of regions that are
    struct Exit {
      int32_t node, exit;
    };
    std::vector<Edge> edges;  // to an inner state's number
    std::vector<Exit> exits;
  };

  // Calls visit(node, state) for every node below [begin, end) that the automaton reads from `state` on; visit says
  // whether the walk goes on below it.
  template <class Visit>
  void walk(int32_t state, int32_t begin, int32_t end, Visit visit) {
    const std::span<const Vocabulary::Node> nodes = v_.nodes();
    if (begin >= end) return;
    stack_[nodes[static_cast<size_t>(begin)].depth - size_t{1}] = state;
    for (int32_t n = begin; n < end;) {
      const Vocabulary::Node& node = nodes[static_cast<size_t>(n)];
      ++visits_;
      const int32_t next = a_.step(stack_[node.depth - size_t{1}], node.byte);
      if (next < 0 || !visit(n, next)) {
        n = node.end;
        continue;
      }
      stack_[node.depth] = next;
      ++n;
    }
  }

  // Tokens by the state that they lead to, of the state that is being lifted.
  void add(int32_t node, int32_t to) {
    const std::span<const int32_t> tokens = v_.tokens_at(node);
    if (tokens.empty()) return;
    int32_t& list = list_of_[static_cast<size_t>(to)];
    if (list < 0) {
      list = static_cast<int32_t>(targets_.size());
      targets_.push_back(to);
      if (lists_.size() < targets_.size()) lists_.emplace_back();
    }
    for (const int32_t t : tokens)
      if (!is_end_[static_cast<size_t>(t)]) lists_[static_cast<size_t>(list)].push_back(t);
  }
  std::vector<Edge> take_lists() {
    std::vector<Edge> edges;
    for (size_t i = 0; i < targets_.size(); ++i) {
      list_of_[static_cast<size_t>(targets_[i])] = -1;
      if (!lists_[i].empty()) edges.push_back({intern(lists_[i]), targets_[i]});
      lists_[i].clear();
    }
    targets_.clear();
    return edges;
  }

  int32_t intern(const std::vector<int32_t>& tokens) {
    uint64_t hash = tokens.size();
    for (const int32_t t : tokens) hash = mix64(hash + static_cast<uint64_t>(t) * kRandomStep);
    for (auto [at, last] = known_.equal_range(hash); at != last; ++at)
      if (sets_[static_cast<size_t>(at->second)] == tokens) return at->second;
    const auto set = static_cast<int32_t>(sets_.size());
    bytes_ += bytes_of(tokens) + kAllocation;
    sets_.push_back(tokens);
    known_.emplace(hash, set);
    return set;
  }

  void lift(int32_t state) {
    auto& edges = edges_[static_cast<size_t>(state)];
    if (const auto fixed = fixed_token(state)) {
      edges = {*fixed};
      return;
    }
    const auto all = static_cast<int32_t>(v_.nodes().size());
    if (!regions_.has(state) || nodes_below(state) < kWorthSharing) {
      walk(state, 0, all, [&](int32_t n, int32_t to) { return add(n, to), true; });
      edges = take_lists();
      return;
    }
    Region region = regions_.seen_from(state);
    auto [known, fresh] = alike_.try_emplace(name_of(region.shape));
    Inner& inner = known->second;
    if (fresh) {
      walk_inside(region.shape, inner);
      bytes_ += bytes_of(inner.edges) + bytes_of(inner.exits) + kAllocation;
    }
    for (const auto& [node, exit] : inner.exits) {
      const int32_t to = region.exits[static_cast<size_t>(exit)];
      add(node, to);
      walk(to, node + 1, v_.nodes()[static_cast<size_t>(node)].end,
           [&](int32_t n, int32_t s) { return add(n, s), true; });
    }
    edges = take_lists();
    for (const Edge& edge : inner.edges) edges.push_back({edge.set, region.inside[static_cast<size_t>(edge.to)]});
  }

  // Of a shape, which has up to thousands of numbers: two sums that only equal ones have.
  static std::pair<uint64_t, uint64_t> name_of(std::span<const int32_t> shape) {
    std::pair<uint64_t, uint64_t> name(shape.size(), ~shape.size());
    for (const int32_t n : shape) {
      const auto value = static_cast<uint64_t>(static_cast<uint32_t>(n)) * kRandomStep;
      name = {mix64(name.first + value), mix64(name.second ^ (value + 1))};
    }
    return name;
  }

  // All tokens and beginnings of tokens that a region reads, by its own numbers.
  void walk_inside(const std::vector<int32_t>& shape, Inner& inner) {
    const std::span<const Vocabulary::Node> nodes = v_.nodes();
    const auto letters = static_cast<size_t>(a_.letters);
    stack_[0] = 0;
    for (int32_t n = 0; n < static_cast<int32_t>(nodes.size());) {
      const Vocabulary::Node& node = nodes[static_cast<size_t>(n)];
      ++visits_;
      const int32_t to = shape[static_cast<size_t>(stack_[node.depth - size_t{1}]) * letters + a_.letter[node.byte]];
      if (to <= Region::kFirstExit) inner.exits.push_back({n, Region::kFirstExit - to});
      if (to < 0) {
        n = node.end;
        continue;
      }
      add(n, to);  // inner numbers are below those of states
      stack_[node.depth] = to;
      ++n;
    }
    inner.edges = take_lists();
  }

  int64_t nodes_below(int32_t state) const {
    int64_t sum = 0;
    for (int byte = 0; byte < 256; ++byte)
      if (a_.step(state, static_cast<uint8_t>(byte)) >= 0) sum += below_[static_cast<size_t>(byte)];
    return sum;
  }

  // Where the bytes that follow are fixed and make more than one of the tokenizer's tokens: the first of these.
  std::optional<Edge> fixed_token(int32_t state) {
    if (!v_.encode()) return {};
    std::string bytes;
    std::vector<int32_t> states = {state};
    while (bytes.size() < kForcedBytes && !a_.complete[static_cast<size_t>(states.back())]) {
      const int byte = only_byte_[static_cast<size_t>(states.back())];
      if (byte < 0) break;
      bytes += static_cast<char>(byte);
      states.push_back(a_.step(states.back(), static_cast<uint8_t>(byte)));
    }
    if (bytes.size() < 2 && !(bytes.size() == 1 && ends_text(states.back()))) return {};
    const std::vector<int32_t> ids = v_.encode()(bytes);
    const bool whole = ends_text(states.back());
    if (ids.size() < (whole ? 1u : 2u)) return {};
    const size_t length = v_.length_in(bytes, ids[0]);
    if (length == 0 || (length == bytes.size() && !whole)) return {};
    if (!whole && goes_beyond(bytes, states.back())) return {};
    return Edge{intern({ids[0]}), states[length]};
  }

  // Whether a token has all these bytes and fitting ones behind them: what the tokenizer might cut instead.
  bool goes_beyond(std::string_view bytes, int32_t state) {
    const std::span<const Vocabulary::Node> nodes = v_.nodes();
    int32_t n = 0, end = static_cast<int32_t>(nodes.size());
    for (const char c : bytes) {
      while (n < end && nodes[static_cast<size_t>(n)].byte != static_cast<uint8_t>(c))
        n = nodes[static_cast<size_t>(n)].end;
      if (n >= end) return false;
      end = nodes[static_cast<size_t>(n)].end;
      ++n;
    }
    bool found = false;
    walk(state, n, end, [&](int32_t node, int32_t /*to*/) { return found |= !v_.tokens_at(node).empty(), !found; });
    return found;
  }

  // Nothing may follow.
  bool ends_text(int32_t state) const {
    const auto letters = static_cast<size_t>(a_.letters);
    const auto begin = a_.next.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(state) * letters);
    return a_.complete[static_cast<size_t>(state)] &&
           std::all_of(begin, begin + static_cast<std::ptrdiff_t>(letters), [](int32_t to) { return to < 0; });
  }

  Result<TokenForm> finish() {
    TokenForm out;
    out.start_ = a_.start;
    out.complete_ = a_.complete;
    out.complete_.push_back(1);
    make_classes(out);
    const size_t states = out.complete_.size();
    // Tokens to the nearest complete state, from the complete ones backwards.
    std::vector<std::vector<int32_t>> from(states);
    for (size_t s = 0; s < states; ++s)
      for (const Edge& edge : edges_[s]) from[static_cast<size_t>(edge.to)].push_back(static_cast<int32_t>(s));
    out.least_.assign(states, TokenForm::kNever);
    std::vector<int32_t> queue;
    for (size_t s = 0; s < states; ++s)
      if (out.complete_[s]) out.least_[s] = 0, queue.push_back(static_cast<int32_t>(s));
    for (size_t i = 0; i < queue.size(); ++i)
      for (const int32_t s : from[static_cast<size_t>(queue[i])])
        if (out.least_[static_cast<size_t>(s)] == TokenForm::kNever) {
          out.least_[static_cast<size_t>(s)] = out.least_[static_cast<size_t>(queue[i])] + 1;
          queue.push_back(s);
        }
    if (out.least(out.start_) == TokenForm::kNever) return invalid("no sequence of the model's tokens fits the form");
    for (const auto& edges : edges_) {
      out.first_edge_.push_back(static_cast<int32_t>(out.edges_.size()));
      for (const Edge& edge : edges)
        if (out.least(edge.to) != TokenForm::kNever) out.edges_.push_back(edge);
    }
    out.first_edge_.push_back(static_cast<int32_t>(out.edges_.size()));
    if (std::ssize(out.set_classes_) > kMostEdges)
      return too_large("the form has over {} classes of tokens in its sets, needed a smaller form", kMostEdges);
    if (a_.counted) keep_pieces(out);
    mark_strings(out);
    return out;
  }

  // A state of which letters lead to itself, and the mark that ends a string elsewhere, is inside a string.
  void mark_strings(TokenForm& out) const {
    const auto goes = [&](int32_t s, char byte) { return a_.step(s, static_cast<uint8_t>(byte)); };
    const auto elsewhere = [&](int32_t s, char byte) { return goes(s, byte) >= 0 && goes(s, byte) != s; };
    for (int32_t s = 0; s < a_.states(); ++s) {
      const bool letters = std::ranges::all_of(std::string_view("aZ0 ,"), [&](char c) { return goes(s, c) == s; });
      const bool json = elsewhere(s, '"') && elsewhere(s, '\\') && goes(s, '\n') < 0;
      if (!letters || !(json || elsewhere(s, kGemmaQuote[0]))) continue;
      out.strings_.resize(static_cast<size_t>(a_.states()) + 1, -1);
      std::vector<int32_t> inside = {s};
      out.strings_[static_cast<size_t>(s)] = s;
      for (size_t i = 0; i < inside.size(); ++i)
        for (int byte = 0; byte < 256; ++byte) {
          const int32_t to = a_.step(inside[i], static_cast<uint8_t>(byte));
          const bool ends = inside[i] == s && static_cast<char>(byte) == (json ? '"' : kGemmaQuote[0]);
          if (to >= 0 && !ends && std::exchange(out.strings_[static_cast<size_t>(to)], s) != s) inside.push_back(to);
        }
    }
    if (out.strings_.empty()) return;
    out.quotes_.resize(static_cast<size_t>(v_.size()));
    uint32_t quoted = UINT32_MAX;  // the depth at which the path has a mark
    const std::span<const Vocabulary::Node> nodes = v_.nodes();
    for (int32_t n = 0; n < static_cast<int32_t>(nodes.size()); ++n) {
      const Vocabulary::Node& node = nodes[static_cast<size_t>(n)];
      if (node.depth <= quoted) quoted = UINT32_MAX;
      if (quoted == UINT32_MAX && (node.byte == '"' || node.byte == static_cast<uint8_t>(kGemmaQuote[0])))
        quoted = static_cast<uint32_t>(node.depth);
      if (quoted == UINT32_MAX) continue;
      for (const int32_t t : v_.tokens_at(n)) out.quotes_[static_cast<size_t>(t)] = true;
    }
  }

  void keep_pieces(TokenForm& out) {
    out.counted_ = a_.counted;
    std::vector<std::string> pieces(static_cast<size_t>(v_.size()));
    std::string path;
    const auto nodes = static_cast<int32_t>(v_.nodes().size());
    for (int32_t n = 0; n < nodes; ++n) {
      const Vocabulary::Node& node = v_.nodes()[static_cast<size_t>(n)];
      path.resize(node.depth - size_t{1});
      path += static_cast<char>(node.byte);
      for (const int32_t t : v_.tokens_at(n)) pieces[static_cast<size_t>(t)] = path;
    }
    for (const std::string& piece : pieces) {
      out.piece_begin_.push_back(static_cast<int32_t>(out.pieces_.size()));
      out.pieces_ += piece;
    }
    out.piece_begin_.push_back(static_cast<int32_t>(out.pieces_.size()));
    for (const auto& set : sets_)
      out.short_.push_back(
          *std::ranges::min_element(set, {}, [&](int32_t t) { return pieces[static_cast<size_t>(t)].size(); }));
  }

  // A token's class is named by the sets that it is in: a sum of their random numbers.
  void make_classes(TokenForm& out) {
    std::vector<uint64_t> name(static_cast<size_t>(v_.size()));
    for (size_t set = 0; set < sets_.size(); ++set)
      for (const int32_t t : sets_[set]) name[static_cast<size_t>(t)] += mix64((set + 1) * kRandomStep);
    std::unordered_map<uint64_t, int32_t> class_of;
    std::vector<int32_t> tokens;  // by class
    std::vector<int32_t> of(name.size(), -1);
    for (size_t t = 0; t < name.size(); ++t) {
      if (name[t] == 0) continue;
      const auto [at, fresh] = class_of.try_emplace(name[t], static_cast<int32_t>(tokens.size()));
      if (fresh) tokens.push_back(0);
      ++tokens[static_cast<size_t>(at->second)];
      of[t] = at->second;
    }
    std::vector<int32_t> in(tokens.size(), -1);
    for (size_t set = 0; set < sets_.size(); ++set) {
      out.first_class_.push_back(static_cast<int32_t>(out.set_classes_.size()));
      for (const int32_t t : sets_[set]) {
        const int32_t c = of[static_cast<size_t>(t)];
        if (std::exchange(in[static_cast<size_t>(c)], static_cast<int32_t>(set)) != static_cast<int32_t>(set))
          out.set_classes_.push_back(c);
      }
      std::sort(out.set_classes_.begin() + out.first_class_.back(), out.set_classes_.end());
      out.only_.push_back(sets_[set].size() == 1 ? sets_[set][0] : -1);
    }
    out.first_class_.push_back(static_cast<int32_t>(out.set_classes_.size()));
    out.classes_ = TokenClasses(std::move(of), static_cast<int32_t>(tokens.size()));
  }

  const int64_t most_visits_;
  const Automaton& a_;
  const Vocabulary& v_;
  const EndTokens& ends_;
  Regions regions_;
  std::map<std::pair<uint64_t, uint64_t>, Inner> alike_;  // by the region's shape
  std::vector<int32_t> list_of_, targets_;
  std::vector<std::vector<int32_t>> lists_;
  std::vector<int32_t> stack_;
  std::vector<std::vector<Edge>> edges_;
  std::vector<char> is_end_;          // by token
  std::array<int64_t, 256> below_{};  // nodes of the tree by their first byte
  std::vector<int> only_byte_;        // by state: the one that may follow; -1: more, or none
  std::vector<std::vector<int32_t>> sets_;
  std::unordered_multimap<uint64_t, int32_t> known_;
  int64_t visits_ = 0, bytes_ = 0, ways_ = 0;
};

Result<TokenForm> TokenForm::create(const Automaton& automaton, const Vocabulary& vocabulary, const EndTokens& ends,
                                    int64_t most_visits) {
  for (const int32_t id : ends.ids)
    if (id < 0 || id >= vocabulary.size()) return invalid("end token {} is outside the vocabulary", id);
  return Lift(automaton, vocabulary, ends, most_visits).run();
}

int32_t TokenForm::step(int32_t state, int32_t token) const {
  if (token < 0 || token >= classes_.tokens()) return -1;
  const int32_t c = classes_.class_of()[static_cast<size_t>(token)];
  if (c < 0) return -1;
  for (const Edge& edge : edges(state))
    if (std::ranges::binary_search(classes_of(edge.set), c)) return edge.to;
  return -1;
}

int64_t TokenForm::bytes() const {
  const size_t words = least_.size() + first_edge_.size() + first_class_.size() + set_classes_.size() + only_.size() +
                       2 * edges_.size() + strings_.size() + quotes_.size() / 32;
  return static_cast<int64_t>(words * sizeof(int32_t) + complete_.size()) + classes_.bytes() +
         static_cast<int64_t>((short_.size() + piece_begin_.size()) * sizeof(int32_t) + pieces_.size()) +
         (counted_ ? counted_->bytes() : 0);
}

}  // namespace llada::forms
