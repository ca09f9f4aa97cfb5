// The experts of a mixture, where an accelerator holds only some of them: the costs to compute and to move one, and the
// plan of a layer's step for each. Plain data between sched, which decides, and devices, which do it.
//
// Words:
//   resident  in the accelerator's memory and kept there
//   move      a transfer of one expert from host memory to the accelerator
//   piece     an expert's gate, up or down matrix. Pieces arrive in that order, so that the gate product starts before
//             the down matrix is there
//   slice     an equal share of an expert's hidden values: those rows of gate and up, and those columns of down. The
//             results of an expert's slices are added up, so a slice is computed, kept and moved like an expert. Where
//             experts are sliced, "expert" means slice in all that follows, and slice s of expert e has the number
//             e * slices + s
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

namespace llada {

// Hidden values that a slice has a multiple of. Where products are of integers, kernels quantize up to 256 values
// together, and a slice that began within such a block would be quantized otherwise than the whole.
inline int64_t slice_group(bool quantized) { return quantized ? 256 : 32; }

// Seconds and bytes of one expert; all experts of a model are of one size. The bandwidth of host memory is a term of
// its own: the host's reads and the link's share it.
struct ExpertCosts {
  double host_first_s = 0;      // further seconds for the first expert of a layer: cold caches, waking threads
  double host_expert_s = 0;     // start of one expert
  double host_bytes_per_s = 1;  // reading its weights
  double host_row_s = 0;        // one row of it
  bool host_overlap = true;     // weights stream while it computes

  double device_expert_s = 0;     // start of its kernels
  double device_member_s = 0;     // the same where it joins another's start, see one_start()
  double device_bytes_per_s = 1;  // reading its weights from where the accelerator has them
  double device_row_s = 0;
  int32_t device_row_tile = 1;        // rows are padded to a multiple
  bool device_shares_memory = false;  // the accelerator reads host memory (a phone)

  std::array<double, 3> piece_bytes = {0, 0, 0};  // gate, up, down
  double piece_s = 0;                             // start of one piece's transfer
  double link_bytes_per_s = 1;
  bool link_reads_memory = true;  // false: nothing is copied (a phone maps pages)
  double memory_bytes_per_s = 0;  // of the host, shared; 0: no limit
  int32_t staging = 8;            // moved experts that can be on their way or in use without a slot of their own

  int32_t slices = 1;    // of an expert; everything above is of one slice
  bool grouped = false;  // one start of the accelerator's kernels serves all present experts that follow each other

  double expert_bytes() const { return piece_bytes[0] + piece_bytes[1] + piece_bytes[2]; }
  double host_compute_s(int32_t rows) const { return rows * host_row_s; }
  double host_stream_s() const { return expert_bytes() / host_bytes_per_s; }
  // Alone on the memory, without the cold start.
  double host_s(int32_t rows) const {
    const double compute = host_compute_s(rows), stream = host_stream_s();
    return host_expert_s + (host_overlap ? std::max(compute, stream) : compute + stream);
  }
  double device_compute_s(int32_t rows) const {
    return std::ceil(static_cast<double>(rows) / device_row_tile) * device_row_tile * device_row_s;
  }
  double device_s(int32_t rows) const {
    return device_expert_s + std::max(device_compute_s(rows), expert_bytes() / device_bytes_per_s);
  }
  double piece_link_s(int piece) const { return piece_s + piece_bytes[static_cast<size_t>(piece)] / link_bytes_per_s; }
  double move_s() const { return 3 * piece_s + expert_bytes() / link_bytes_per_s; }

  // Whether the second of two that follow each other on a unit needs no start of its own: slices of one expert are
  // one product over a longer range.
  bool same_expert(int32_t a, int32_t b) const { return slices > 1 && a / slices == b / slices; }
  // The same for two that the accelerator has in its memory: kernels take a list.
  bool one_start(int32_t a, int32_t b) const { return grouped || same_expert(a, b); }
  // The time that joining a start saves, where it can happen at all.
  double host_joined_s() const { return slices > 1 ? host_expert_s : 0; }
  double device_joined_s() const { return grouped || slices > 1 ? device_expert_s - device_member_s : 0; }

  // Costs of a slice, of `count` to an expert that these are the costs of.
  ExpertCosts sliced(int32_t count) const {
    ExpertCosts c = *this;
    c.slices = slices * count;
    c.staging = staging * count;
    for (double& bytes : c.piece_bytes) bytes /= count;
    c.host_row_s /= count;
    c.device_row_s /= count;
    return c;
  }
};

struct ExpertWork {
  int32_t expert = 0, rows = 0;
  bool on_device = false;
};

struct ExpertId {
  int32_t layer = 0, expert = 0;
  bool operator==(const ExpertId&) const = default;
  auto operator<=>(const ExpertId&) const = default;
};

// Places that an accelerator has for experts.
struct ExpertWindow {
  int32_t layers = 0, experts = 0;
  int64_t slots = 0;   // resident experts of all layers together
  int32_t buffer = 4;  // experts that can be moved ahead on a guess beside them
};

enum class MoveTo : uint8_t {
  slot,     // resident
  staging,  // for this layer only, through a slot that the next staged expert takes
  buffer,   // moved ahead on a guess, without replacing a resident
};

struct ExpertMove {
  ExpertId id;
  std::optional<ExpertId> replaces = {};  // the resident expert that makes room; none: a free slot
  MoveTo to = MoveTo::slot;
  bool background = false;  // only while the link has nothing else to do
};

// One layer of one step. Each unit takes its experts of `work` in order, the link takes `moves` in order.
struct ExpertsPlan {
  int32_t layer = 0;
  int32_t slices = 1;  // of an expert; with more than one, ids are those of slices
  std::vector<ExpertWork> work;
  std::vector<ExpertMove> moves;
  std::vector<ExpertId> cancelled;  // background moves not wanted any more; a piece under way still ends
  // After the work: buffered experts that take a slot, and those that leave the buffer.
  std::vector<ExpertMove> kept;
  std::vector<ExpertId> released;
  bool moves_first = false;  // nothing computes before the moves are done (copies that are waited for)
  double predicted_s = 0;    // the planner's makespan
};

// A move that the link has not finished.
struct ExpertArrival {
  ExpertId id;
  bool started = false;
  double ready_s = 0;  // from now, if its pieces are moved first
};
// Totals of this run of steps so far; wall clock.
struct ExpertTraffic {
  int64_t moved_bytes = 0;
  double copy_s = 0;  // copies into pinned memory, before the link
  double wait_s = 0;  // in which the caller waited for these or for the link
};
struct ExpertLink {
  double free_s = 0;                    // from now, until the piece under way has arrived
  std::vector<ExpertArrival> arriving;  // not there yet, in the order in which they were asked for
  ExpertTraffic traffic;
};

}  // namespace llada
