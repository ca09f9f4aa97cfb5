// The self-test of a matrix unit, through one session that has voted for it. First come sums of integers, which are
// exact whatever the accumulator, then widened weights, read back by rows of one number. Products of all formats,
// the head's logits and attention of all head sizes are held to the vector unit's integers. One attention and one
// product are repeated on all threads, and their bits may not change. Last come times by rows. The first part that
// says no ends it. Who calls it keeps the mark that it began (devices/hexagon/unit_record.h).
#pragma once
#include <string>
#include <vector>

#include "devices/hexagon/session.h"

namespace llada::hexagon {

struct UnitTrialSize {
  int64_t inputs = 4096, outputs = 4096;    // of the products that are timed; multiples of 32
  int64_t rows = 128;                       // at most
  int64_t attention_rows = 33, keys = 600;  // of the head, too; of attention
  int repetitions = 200, timed = 5;
  double deadline_s = 30;  // of each call
};

struct UnitTrial {
  bool passed = false;
  std::string why;    // empty: it passed
  uint64_t hash = 0;  // of the bits of the product that was repeated
  struct Time {
    int64_t rows = 0;
    double matrix_us = 0, vector_us = 0;  // by the DSP's clock
  };
  std::vector<Time> times;
};
// An error: a call failed, so that nothing is known.
Result<UnitTrial> try_unit(const std::shared_ptr<Library>& library, const std::shared_ptr<Session>& session,
                           const UnitTrialSize& size);

}  // namespace llada::hexagon
