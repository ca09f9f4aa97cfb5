// A form as an automaton over a model's tokens: which tokens fit in each state, and the states that they lead to.
//
//   set    the tokens that lead from one state to another; equal sets are one, however many states have them
//   class  tokens that are in the same sets, so that the form cannot tell them apart
//   end    the state behind an end token
//   string the states inside one JSON string that may be of any length: those that lead back to the same state
//
// Where the form fixes the next bytes, only the tokens into which the model's tokenizer cuts them fit. The last of
// these bytes stay open where a token might join them with later text. Special tokens never fit. An end token fits
// where the text may end; where it must end, only the fill token does. Only states that tokens reach are made.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "forms/automaton.h"
#include "forms/nfa.h"
#include "forms/vocabulary.h"
#include "tensor/class_scores.h"

namespace llada::forms {

// Without end tokens an answer fills all its positions.
struct EndTokens {
  std::vector<int32_t> ids = {};  // end an answer
  int32_t fill = -1;              // stands behind it
};

// Bounds on visits of the vocabulary's nodes: two or three seconds; less where a form can be made at another level.
inline constexpr int64_t kMostVisits = 600'000'000, kFewVisits = 150'000'000;
// Bound on edges of all states and classes of all sets, which one position of a step may cost (Solver::kStepWork).
inline constexpr int64_t kMostEdges = 1'000'000;

class TokenForm {
 public:
  struct Edge {
    int32_t set, to;
  };

  // Invalid: no tokens fit, or a bound above is reached.
  static Result<TokenForm> create(const Automaton& automaton, const Vocabulary& vocabulary, const EndTokens& ends,
                                  int64_t most_visits = kMostVisits);

  int32_t start() const { return start_; }
  int32_t states() const { return static_cast<int32_t>(complete_.size()); }
  int32_t end() const { return states() - 1; }
  bool complete(int32_t state) const { return complete_[static_cast<size_t>(state)]; }  // of `end` too
  std::span<const Edge> edges(int32_t state) const {
    const auto s = static_cast<size_t>(state);
    return std::span(edges_).subspan(static_cast<size_t>(first_edge_[s]),
                                     static_cast<size_t>(first_edge_[s + 1] - first_edge_[s]));
  }
  // Tokens up to the nearest complete state; kNever where there is none.
  static constexpr int32_t kNever = INT32_MAX;
  int32_t least(int32_t state) const { return least_[static_cast<size_t>(state)]; }

  int32_t sets() const { return static_cast<int32_t>(only_.size()); }
  std::span<const int32_t> classes_of(int32_t set) const {  // ascending
    const auto s = static_cast<size_t>(set);
    return std::span(set_classes_)
        .subspan(static_cast<size_t>(first_class_[s]), static_cast<size_t>(first_class_[s + 1] - first_class_[s]));
  }
  int32_t only_token(int32_t set) const { return only_[static_cast<size_t>(set)]; }  // -1: there are more
  int64_t edges_of_all() const { return std::ssize(edges_); }

  // A state that names the string that this state is inside of; -1: none. has_quote(): whether a token may end a
  // string.
  int32_t string_of(int32_t state) const { return strings_.empty() ? -1 : strings_[static_cast<size_t>(state)]; }
  bool has_quote(int32_t token) const { return quotes_[static_cast<size_t>(token)]; }

  // The bounds of loops, which the automaton does not keep; null: none. Only with them are the two members below there:
  // a short token of every set, and the bytes of a token.
  const Counted* counted() const { return counted_.get(); }
  int32_t short_token(int32_t set) const { return short_[static_cast<size_t>(set)]; }
  std::string_view piece(int32_t token) const {
    const auto t = static_cast<size_t>(token);
    return std::string_view(pieces_).substr(static_cast<size_t>(piece_begin_[t]),
                                            static_cast<size_t>(piece_begin_[t + 1] - piece_begin_[t]));
  }

  const TokenClasses& classes() const { return classes_; }  // a token that is in none never fits
  // Where a token leads; -1: it does not fit there.
  int32_t step(int32_t state, int32_t token) const;
  int64_t bytes() const;

 private:
  friend class Lift;
  int32_t start_ = 0;
  std::vector<char> complete_;
  std::vector<int32_t> least_, first_edge_, first_class_, set_classes_, only_;
  std::vector<int32_t> strings_;  // by state; empty: there are none
  std::vector<bool> quotes_;      // by token, where there are strings
  std::vector<Edge> edges_;
  TokenClasses classes_;
  std::shared_ptr<const Counted> counted_;
  std::vector<int32_t> short_, piece_begin_;
  std::string pieces_;
};

}  // namespace llada::forms
