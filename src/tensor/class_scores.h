// Reduces a row of logits to a few numbers for each class of tokens, which is all that an answer with a form needs of a
// position. A class is tokens that a form cannot tell apart. The vocabulary is read in stretches, so that no device
// keeps a row of logits.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace llada {

inline constexpr double kImpossible = -std::numeric_limits<double>::infinity();

struct ClassScore {
  int32_t token = -1;                // the best, with noise at a temperature; -1: none may be sampled
  float logit = 0;                   // its logit without noise
  int32_t top = -1, runner_up = -1;  // the two best by the clean logits
  float best = 0, second = 0;        // their logits
  double mass = kImpossible;         // log of the sum of exp(logit) over the class
  double heated = kImpossible;       // the same of logit / temperature
  double mean = 0;                   // of the logits, weighted by their share of the mass
  bool operator==(const ClassScore&) const = default;
};

struct RowScores {
  std::vector<ClassScore> classes;
  bool operator==(const RowScores&) const = default;
};

// Tokens of a vocabulary in classes, and the order in which rows are read: in every stretch class by class, ascending.
class TokenClasses {
 public:
  static constexpr int32_t kStretch = 32'768;  // tokens
  struct Run {                                 // tokens of one class in one stretch
    int32_t of, begin, end;                    // the class; in places()
  };

  TokenClasses() = default;
  // class_of: by token, its class below `count`; -1: none.
  TokenClasses(std::vector<int32_t> class_of, int32_t count);

  int32_t count() const { return count_; }
  std::span<const int32_t> class_of() const { return class_of_; }  // by token
  int64_t tokens() const { return std::ssize(class_of_); }
  std::span<const Run> runs(int64_t stretch) const {
    const auto s = static_cast<size_t>(stretch);
    return std::span(runs_).subspan(first_run_[s], first_run_[s + 1] - first_run_[s]);
  }
  std::span<const uint16_t> places() const { return places_; }  // tokens, counted from the beginning of their stretch
  int64_t bytes() const;

 private:
  int32_t count_ = 0;
  std::vector<int32_t> class_of_;
  std::vector<size_t> first_run_;  // by stretch, and the end
  std::vector<Run> runs_;
  std::vector<uint16_t> places_;
};

// How rows are read. With a temperature, noise chooses the token of a class, and `heated` weighs the classes.
// confidence_heat divides all logits first, for rules on the distribution after the temperature (Dream's).
struct ClassReading {
  const TokenClasses* classes = nullptr;  // null: nothing is read
  double temperature = 0;
  double confidence_heat = 1;
};

// Reads one row, in stretches of TokenClasses::kStretch tokens from the first on.
class RowReader {
 public:
  // key: of the row's random numbers (base/random.h).
  RowReader(const ClassReading& reading, uint64_t key);

  // Reads the logits of the next stretch; ignores one that is shorter than the classes ask for.
  void read(std::span<const float> logits);
  void read_all(std::span<const float> logits);
  RowScores take();

 private:
  struct Sums {  // relative to the best logit of the class so far
    double noised = kImpossible, sum = 0, weighted = 0, heated = 0;
  };
  void read_run(const TokenClasses::Run& run, const float* logits);
  void sum_up(Sums& sums, const float* values, size_t count, float best) const;

  const TokenClasses* classes_;
  double temperature_;
  float heat_;
  bool noisy_;
  uint64_t key_;
  int64_t stretch_ = 0;
  RowScores row_;
  std::vector<Sums> sums_;     // by class
  std::vector<float> values_;  // of a run
};

}  // namespace llada
