// A form over a model's tokens: what a token of the vocabulary makes of every state of the automaton.
//
//   set    the tokens that lead from one state to another; equal sets are one, however many states have them
//   class  tokens that are in the same sets, so that the form cannot tell them apart
//   end    the state behind an end token
//   string the states inside one string of JSON that may be of any length: those that lead back to the same state
//
// Where the form leaves one way to go on, byte by byte, the text is cut as the model's tokenizer cuts it, and no other
// tokens fit: a text that the form fixes is fixed tokens. Its end is left open where a token might join it with what
// follows. Special tokens never fit; an end token fits where the text may end, and where it must, it is the token that
// fills what is left. Only states that tokens lead to are looked at.
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

// What ends an answer, and what stands behind it; none: an answer that fits fills its positions.
struct EndTokens {
  std::vector<int32_t> ids = {};
  int32_t fill = -1;
};

// Nodes of the vocabulary's tree that are looked at: two seconds or three; and where a form has another way to be made.
inline constexpr int64_t kMostVisits = 600'000'000, kFewVisits = 150'000'000;
// Edges of all states, and classes of all sets: what one position of a step can cost (Solver::kStepWork).
inline constexpr int64_t kMostEdges = 1'000'000;

class TokenForm {
 public:
  struct Edge {
    int32_t set, to;
  };

  // Invalid: no tokens fit, or the vocabulary makes too much of it.
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

  // The string that a state is inside of, as one of its states; -1: none. Whether a token may end one.
  int32_t string_of(int32_t state) const { return strings_.empty() ? -1 : strings_[static_cast<size_t>(state)]; }
  bool has_quote(int32_t token) const { return quotes_[static_cast<size_t>(token)]; }

  // The bounds that the automaton leaves out; null: none. With them come a short token of every set, and tokens' bytes.
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
