// Intersection and difference of two expressions as one expression, by the product of their automata.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "forms/automaton.h"
#include "forms/expression.h"

namespace llada::forms {

// Texts of `a` that are texts of `b`; those that are not. Invalid: too many states. Where there is no text: never().
Result<Expr> both(const Expr& a, const Expr& b, Budget& budget);
Result<Expr> except(const Expr& a, const Expr& b, Budget& budget);

// The same texts as an automaton, so that products with it need not compile it again. Invalid: too many states, or no
// text fits.
Result<Expr> compiled(const Expr& e, Budget& budget);

// Bytes of the longest text; nothing where texts may be of any length or need too many states.
std::optional<int64_t> longest(const Expr& e, Budget& budget);

// Whole numbers (point false) or numbers of at most `digits` digits behind the point that are multiples of
// step / 10^digits, without an exponent. Invalid: too many states.
Result<Expr> multiples(int64_t step, int64_t digits, bool point, Budget& budget);

}  // namespace llada::forms
