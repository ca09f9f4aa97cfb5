// Facts that only a DSP can tell, measured through one session: the experiments of tools/hexagon_probe.cc and of
// `llada-study doctor --device hexagon` (docs/lab/hexagon-dsp.md gives the decision behind each). Times are wall clock;
// under the emulator they mean nothing.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "devices/hexagon/session.h"

namespace llada::hexagon {

// A matrix of Q4_0 weights and activations of small integers: sums are known exactly.
class Product {
 public:
  static constexpr int64_t kRows = 32, kInputs = 4096;
  static Result<Product> make(const std::shared_ptr<Library>& library, const std::shared_ptr<Session>& session,
                              int64_t outputs);

  struct Run {
    double call_us = 0, dsp_us = 0;  // of the call, and of the DSP's own clock
    uint64_t cycles = 0;             // of the core's clock; 0: not counted
    uint64_t packets = 0;            // of all threads; 0: not counted
  };
  // threads 0: all. rows: at most kRows.
  Result<Run> run(uint32_t threads, int64_t rows = kRows);

  // The op of run(), in its buffer, and where its scratch lies there.
  struct Work {
    WireOp op;
    std::shared_ptr<Buffer> buffer;
    uint32_t scratch, scratch_bytes;
  };
  Work work(int64_t rows = kRows) const;

  struct Check {
    double worst_error = 0;                          // of all sums
    uint64_t hash = 0;                               // of the sums' bits: equal on every machine if the arithmetic is
    bool right() const { return worst_error < 64; }  // 4096 products up to 1016, each off by 2^-15 of it
  };
  Check check() const;  // of the last run with all rows

  double macs(int64_t rows = kRows) const { return static_cast<double>(rows * kInputs * outputs_); }
  int64_t weight_bytes() const { return weight_bytes_; }

 private:
  std::shared_ptr<Session> session_;
  std::shared_ptr<Buffer> buffer_;
  uint32_t number_ = 0, scratch_ = 0;
  int64_t outputs_ = 0, weight_bytes_ = 0;
};

// Instruction packets of one product of 32 x 4096 x 4096 by the module for v67, as the emulator counts them. Cycles on
// a phone, where packets cannot be counted, are compared with this number.
inline constexpr double kProductPackets = 3.2e6;

// As much as the session maps, in buffers of `step` bytes and then of a quarter of it, until one is refused; everything
// is unmapped again. A sixteenth buffer of 256 MiB would begin beyond 32 bits.
struct Space {
  int64_t bytes = 0;
  double longest_map_us = 0;
  std::string refusal;     // empty: no end was found
  bool of_memory = false;  // the phone had no more memory to give, so the DSP may map more
};
Result<Space> measure_space(const std::shared_ptr<Library>& library, Session& session, int64_t step);

struct MapPrice {
  double us_per_call = 0, us_per_mb = 0;  // MB = 10^6 bytes
};
// From buffers of 1 MiB and of `large` bytes; busy: the DSP's work meanwhile, over and over, or null.
Result<MapPrice> measure_maps(const std::shared_ptr<Library>& library, Session& session, int64_t large, Product* busy);

// Whether either side sees what the other wrote, with the maintenance of caches that a batch asks for and without any.
struct Coherency {
  bool asked = false;                             // right where both directions are asked for
  bool host_to_dsp = false, dsp_to_host = false;  // right without asking
};
Result<Coherency> measure_coherency(const std::shared_ptr<Library>& library, Session& session);

// One value of one op over a fresh buffer: whether the DSP sees a buffer at all. Microseconds of the mapping.
struct OneOp {
  double map_us = 0, value = 0, needed = 0;
};
Result<OneOp> run_one_op(const std::shared_ptr<Library>& library, Session& session);

// Median of `count` calls that do nothing.
Result<double> measure_call_us(Session& session, int count);

}  // namespace llada::hexagon
