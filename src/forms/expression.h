// A set of texts as an expression over bytes, to which regular expressions, schemas, choices and templates are
// translated. An expression is immutable, and parts may be shared.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada::forms {

struct Automaton;
struct Expression;
using Expr = std::shared_ptr<const Expression>;

struct ByteRange {
  uint8_t first = 0, last = 0;
  bool operator==(const ByteRange&) const = default;
};

struct CodeRange {
  char32_t first = 0, last = 0;
  bool operator==(const CodeRange&) const = default;
};

struct Expression {
  enum class Kind {
    never,      // fits no text
    text,       // these bytes
    bytes,      // one byte of the ranges
    sequence,   // all parts in order; no parts: the empty text
    either,     // one of the parts
    repeat,     // the one part, `least` to `most` times
    members,    // the parts in order with `text` between them; those that are not required may be left out
    without,    // any characters in which `text`, which is ASCII, does not occur
    automaton,  // the texts that `automaton` fits
  };
  Kind kind = Kind::never;
  std::string text = {};
  std::vector<ByteRange> ranges = {};
  std::vector<Expr> parts = {};
  int64_t least = 0, most = -1;     // most -1: without end
  std::vector<bool> required = {};  // of members
  std::shared_ptr<const Automaton> automaton = {};
};

// Bounds the expressions of one form, and so their memory (some 200 bytes a part) and the time to make them. It counts
// parts, bytes of texts, and schemas that are read again behind a reference. Shared parts count once. Beside them it
// counts the steps of reading, of about 5 ns each.
class Budget {
 public:
  static constexpr int64_t kMostSteps = 200'000'000, kFewSteps = 4'000'000;

  explicit Budget(int64_t steps = kMostSteps) : steps_(steps) {}

  // Invalid: nothing is left, then and in all later calls.
  Status spend(size_t cost);
  Status step(int64_t steps);
  Status spend_on(const Expression& fresh);  // the whole tree
  size_t left() const { return left_; }
  int64_t steps_left() const { return steps_; }
  // Takes the steps of another reading of the same form.
  void step_as(const Budget& other) { steps_ = other.steps_; }

  // Where it is not null, readers of schemas put the costliest part there, for the line that refuses a form.
  struct Heaviest {
    int64_t cost = 0;
    std::string path = {};
  };
  Heaviest* heaviest = nullptr;

 private:
  size_t left_ = 250'000;
  int64_t steps_;
};

Expr never();
Expr text(std::string bytes);
Expr sequence(std::vector<Expr> parts);
Expr either(std::vector<Expr> parts);
Expr repeat(Expr part, int64_t least, int64_t most);
Expr members(std::vector<Expr> parts, std::vector<bool> required, std::string between);
Expr without(std::string text);

// How characters are written in the answer.
enum class Letters {
  plain,  // as its UTF-8
  json,   // inside a JSON string: quote, backslash and the five control characters that have a short escape are
          // escaped, other control characters do not occur, all others are UTF-8
};

inline constexpr char32_t kLastCode = 0x10ffff;

// One character of the ranges, which may overlap; surrogates are left out.
Expr one_of(std::vector<CodeRange> ranges, Letters letters);
Expr any_letter(Letters letters);  // the same object in every call

// Sorted, without overlaps and neighbours.
std::vector<CodeRange> merged(std::vector<CodeRange> ranges);
// All characters that are not in the ranges.
std::vector<CodeRange> others(std::vector<CodeRange> ranges);

}  // namespace llada::forms
