#include "forms/product.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace llada::forms {
namespace {

constexpr int32_t kMostPairs = 20'000;
constexpr int64_t kOfCell = 5;  // steps of a state and a letter

Expr fits(Automaton a) {
  return std::make_shared<const Expression>(
      Expression{.kind = Expression::Kind::automaton, .automaton = std::make_shared<const Automaton>(std::move(a))});
}

// The automaton of an expression that fits some text.
Result<std::shared_ptr<const Automaton>> automaton_of(const Expr& e, Budget& budget) {
  LLADA_TRY(const Expr made, compiled(e, budget));
  return made->automaton;
}

// States of the product are numbered as they are met; -1 of b is where it has left its texts. Those from which nothing
// is complete go when the whole form is compiled.
Result<Expr> product(const Expr& left, const Expr& right, bool inside, Budget& budget) {
  if (left->kind == Expression::Kind::never) return left;
  if (right->kind == Expression::Kind::never) return inside ? right : left;
  LLADA_TRY(const auto first, automaton_of(left, budget));
  LLADA_TRY(const auto second, automaton_of(right, budget));
  const Automaton &a = *first, &b = *second;
  Automaton out;
  std::map<std::pair<uint8_t, uint8_t>, uint8_t> letters;  // of both at once
  std::vector<std::pair<int32_t, int32_t>> of;
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto [at, fresh] =
        letters.try_emplace(std::pair(a.letter[byte], b.letter[byte]), static_cast<uint8_t>(letters.size()));
    if (fresh) of.emplace_back(a.letter[byte], b.letter[byte]);
    out.letter[byte] = at->second;
  }
  out.letters = static_cast<int32_t>(of.size());
  std::unordered_map<int64_t, int32_t> known;
  std::vector<std::pair<int32_t, int32_t>> states;
  const auto state_of = [&](int32_t s, int32_t t) {
    const auto [at, fresh] =
        known.try_emplace(int64_t{s} * (kMostStates + 1) + t + 1, static_cast<int32_t>(states.size()));
    if (fresh) {
      states.emplace_back(s, t);
      const bool in_b = t >= 0 && b.complete[static_cast<size_t>(t)];
      out.complete.push_back(a.complete[static_cast<size_t>(s)] && in_b == inside);
    }
    return at->second;
  };
  out.start = state_of(a.start, b.start);
  for (size_t i = 0; i < states.size(); ++i) {
    if (std::ssize(states) > kMostPairs) return invalid("needs more than {} states", kMostPairs);
    LLADA_TRY_STATUS(budget.step(kOfCell * out.letters));
    const auto [s, t] = states[i];
    for (const auto& [la, lb] : of) {
      const int32_t to = a.next[static_cast<size_t>(s * a.letters + la)];
      const int32_t with = t < 0 ? t : b.next[static_cast<size_t>(t * b.letters + lb)];
      out.next.push_back(to < 0 || (with < 0 && inside) ? Automaton::kDead : state_of(to, with));
    }
  }
  LLADA_TRY_STATUS(budget.spend(states.size()));
  reduce(out);
  return out.complete.empty() ? never() : fits(std::move(out));
}

}  // namespace

Result<Expr> both(const Expr& a, const Expr& b, Budget& budget) { return product(a, b, true, budget); }
Result<Expr> except(const Expr& a, const Expr& b, Budget& budget) { return product(a, b, false, budget); }

Result<Expr> compiled(const Expr& e, Budget& budget) {
  if (e->kind == Expression::Kind::automaton || e->kind == Expression::Kind::never) return e;
  LLADA_TRY(Automaton made, compile(e, 0, &budget));
  return fits(std::move(made));
}

std::optional<int64_t> longest(const Expr& e, Budget& budget) {
  const auto made = automaton_of(e, budget);
  if (!made) return {};
  const Automaton& a = **made;
  const auto states = static_cast<size_t>(a.states()), letters = static_cast<size_t>(a.letters);
  std::vector<int64_t> bytes(states, -1);
  std::vector<char> open(states);
  std::vector<std::pair<size_t, size_t>> stack = {{static_cast<size_t>(a.start), 0}};  // a state, its next letter
  open[stack[0].first] = 1;
  while (!stack.empty()) {
    auto& [s, letter] = stack.back();
    if (letter == letters) {
      int64_t most = 0;
      for (size_t l = 0; l < letters; ++l)
        if (const int32_t t = a.next[s * letters + l]; t >= 0) most = std::max(most, 1 + bytes[static_cast<size_t>(t)]);
      bytes[s] = most, open[s] = 0;
      stack.pop_back();
      continue;
    }
    const int32_t t = a.next[s * letters + letter++];
    if (t < 0 || bytes[static_cast<size_t>(t)] >= 0) continue;
    if (open[static_cast<size_t>(t)]) return {};
    open[static_cast<size_t>(t)] = 1;
    stack.emplace_back(static_cast<size_t>(t), 0);
  }
  return bytes[static_cast<size_t>(a.start)];
}

// A state is what was read: nothing, a sign, a zero in front, or the remainder of the digits so far with how many of
// them stand behind the point.
Result<Expr> multiples(int64_t step, int64_t digits, bool point, Budget& budget) {
  int64_t zeros = 0;  // multiples of a power of ten end with zeros, which take fewer states than remainders
  while (!point && step % 10 == 0) step /= 10, ++zeros;
  const int64_t places = point ? digits : 0;
  if (step > kMostPairs / (places + 2)) return invalid("needs more than {} states", kMostPairs);
  const auto k = static_cast<int32_t>(step);
  Automaton out;
  out.letters = 5 + 10;  // another byte, minus, point; digits from 5 on
  out.letter.fill(0);
  out.letter['-'] = 1, out.letter['.'] = 2;
  for (int d = 0; d < 10; ++d) out.letter[static_cast<size_t>('0' + d)] = static_cast<uint8_t>(5 + d);
  constexpr int32_t kSign = 1, kZero = 2, kWhole = 3;
  const auto states = static_cast<size_t>(kWhole + k * (places + 2));
  const auto behind = [&](int64_t place, int64_t rest) {
    return static_cast<int32_t>(kWhole + k * (1 + place) + rest);
  };
  LLADA_TRY_STATUS(budget.step(kOfCell * static_cast<int64_t>(states) * out.letters));
  out.complete.assign(states, 0);
  out.next.assign(states * static_cast<size_t>(out.letters), Automaton::kDead);
  const auto edge = [&](int32_t from, int letter, int32_t to) {
    out.next[static_cast<size_t>(from) * static_cast<size_t>(out.letters) + static_cast<size_t>(letter)] = to;
  };
  const auto scaled = [&](int64_t rest, int64_t by) {
    for (int64_t i = 0; i < by; ++i) rest = rest * 10 % k;
    return rest;
  };
  edge(0, 1, kSign);
  for (const int32_t from : {0, kSign}) {
    edge(from, 5, kZero);
    for (int d = 1; d < 10; ++d) edge(from, 5 + d, kWhole + d % k);
  }
  out.complete[kZero] = 1;
  if (places > 0) edge(kZero, 2, behind(0, 0));
  for (int64_t rest = 0; rest < k; ++rest) {
    out.complete[static_cast<size_t>(kWhole + rest)] = scaled(rest, places) == 0;
    if (places > 0) edge(static_cast<int32_t>(kWhole + rest), 2, behind(0, rest));
    for (int d = 0; d < 10; ++d) {
      edge(static_cast<int32_t>(kWhole + rest), 5 + d, static_cast<int32_t>(kWhole + (rest * 10 + d) % k));
      for (int64_t place = 0; place < places; ++place)
        edge(behind(place, rest), 5 + d, behind(place + 1, (rest * 10 + d) % k));
    }
    for (int64_t place = 1; place <= places; ++place)
      out.complete[static_cast<size_t>(behind(place, rest))] = scaled(rest, places - place) == 0;
  }
  LLADA_TRY_STATUS(budget.spend(states));
  reduce(out);
  Expr whole = fits(std::move(out));
  if (zeros == 0) return whole;
  return either({text("0"), sequence({std::move(whole), text(std::string(static_cast<size_t>(zeros), '0'))})});
}

}  // namespace llada::forms
