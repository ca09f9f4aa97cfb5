// Gaps whose length the engine chooses (<mask:auto>). Before such a text is decoded, a ladder of lengths is tried with
// one plain forward each: greedy, without guidance and biases. The length is taken whose masks' best tokens have the
// highest mean log probability; of equal ones the shortest. Gaps are chosen from left to right: those to the left have
// their chosen length meanwhile, those to the right a short one. Then the text is decoded as one with gaps of these
// lengths.
//
// It is a heuristic: that the confidence of the first forward peaks near the right length is an observation ("Diffusion
// LMs Can Approximate Optimal Infilling Lengths Implicitly", arXiv 2602.00476). Deliberately absent: that paper's
// division by a bias of each length, since its constants are fitted to one model's confidence on code.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace llada {

inline constexpr int64_t kMaxGap = 512;    // tokens
inline constexpr int64_t kAutoGap = 32;    // the most of an automatic gap without a number
inline constexpr int64_t kWaitingGap = 2;  // a gap whose turn has not come

struct InfillGap {
  int64_t position, length;
  bool automatic = false;  // the length is the most that it may come to
  bool operator==(const InfillGap&) const = default;
};

// 1, 2, 3, 4, 6, 8, 12, 16, ... up to `most`, which is the last.
std::vector<int64_t> gap_ladder(int64_t most);

// Where gaps stand once those that are automatic have these lengths, in their order.
std::vector<InfillGap> laid_gaps(std::vector<InfillGap> gaps, std::span<const int64_t> lengths);
// Which of a text's positions stay once these gaps, laid at their longest, have these lengths: each loses its end.
std::vector<int32_t> kept_positions(size_t positions, std::span<const InfillGap> gaps,
                                    std::span<const int64_t> lengths);

// The choice under way: forward by forward, each over candidate(). Pure.
class GapChoice {
 public:
  struct Text {
    std::vector<int32_t> tokens;  // the mask in every gap
    std::vector<int32_t> gaps;    // positions of their tokens
  };
  // A text with all gaps at their longest, the positions of their tokens, and which of them are automatic. Automatic
  // gaps go from left to right, have one token or more, and all their positions are among `positions`.
  GapChoice(std::vector<int32_t> tokens, std::span<const int32_t> positions, std::vector<InfillGap> automatic,
            int32_t mask);

  bool done() const { return gap_ == automatic_.size(); }
  Text candidate() const;  // once done the text to be decoded
  // The masks of the candidate whose predictions are asked for, ascending. Not once done.
  std::vector<int32_t> asked() const;
  // The probabilities of their best tokens, in their order.
  void take(std::span<const double> probabilities);
  // The chosen lengths; before done() the longest for gaps that are not chosen.
  std::vector<int64_t> lengths() const;

 private:
  int64_t length_of(size_t gap) const;

  std::vector<int32_t> tokens_;
  std::vector<bool> open_;  // by position
  std::vector<InfillGap> automatic_;
  std::vector<int64_t> chosen_;
  size_t gap_ = 0;               // the one whose length is being chosen
  std::vector<int64_t> ladder_;  // its lengths
  size_t rung_ = 0;              // index of the length that is tried next
  int64_t best_length_ = 0;      // of the rungs before it
  double best_ = 0;              // its mean log probability
};

}  // namespace llada
