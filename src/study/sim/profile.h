// A profile: the known facts about a phone's processors, as the timing model of study/sim needs them. Every number
// carries its source and a trust mark, so that a printed result can name its sources. The least certain numbers also
// carry a range, and the results are given over it.
//
// Trust marks: H a primary source was read; M one measurement by someone; L a summary, a data sheet or
// memory; I inference or arithmetic of this project.
//
// The text form is JSON (profiles/*.json, docs/lab/npu.md); parsing is strict: nothing unknown, nothing missing,
// nothing out of range.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/measured_dsp.h"
#include "graph/program.h"
#include "tensor/dtype.h"

namespace llada {

struct Number {
  double value = 0;
  std::optional<double> low, high;  // where the truth may lie
  char trust = 'I';
  std::string source;
};

// One processor of the chip. The price of an op is in cost.h.
struct UnitProfile {
  Number matmul_gflops;    // sustained, weights unpacked on the fly
  Number stream_gb_per_s;  // weights, from DRAM
  Number attention_gflops;
  Number elementwise_gb_per_s;  // activations read and written by every op that is not a matrix product
  Number activation_bytes;      // per value
  Number row_tile;              // rows are padded to a multiple of this
  Number op_us;                 // start of one kernel; a matmul op is one kernel per weight
  Number batch_us;              // hand-over of one batch of kernels
  Number batch_kernels;         // at most this many in a batch
  Number watts;                 // while working
  bool overlap = false;         // weights stream while the unit computes; otherwise one after the other
  std::vector<OpKind> ops;      // ops that it can run
  std::vector<DType> types;     // of matrices
};

struct MapVariant {
  std::string name;
  Number us_per_call, us_per_mb;  // MB = 10^6 bytes
};

// The costs of experts that the accelerator does not hold; the rest of their price is the units' own.
struct ExpertProfile {
  bool own_memory = false;  // the accelerator computes from memory of its own (a card), not from DRAM
  bool copied = false;      // an expert comes by copying over the link; otherwise by mapping (the map prices)
  Number link_gb_per_s;     // of copies from pinned memory
  Number piece_us;          // start of one copy; an expert is three
  Number host_first_us;     // beside the rest, for the first expert of a layer on the host
  Number host_expert_us;    // start of one expert on the host
  bool grouped = false;     // kernels take a list of experts: those that are there share a start
  Number device_expert_us;  // start of one expert's kernels on the accelerator
  Number device_member_us;  // of one that joins a start
};

// Products whose columns are divided between accelerator and host (study/sim/divided.h).
struct DivideProfile {
  Number host_rate;          // of the host's products in the accelerator's arithmetic, as a share of its matmul_gflops
  Number meet_us;            // from a word that one unit writes back to the other one's going on behind it
  Number exchange_gb_per_s;  // rows that cross, copied and kept in order between the caches
};

struct Profile {
  std::string name, description;
  UnitProfile npu, cpu;
  Number ddr_gb_per_s;               // shared by all lanes
  std::optional<Number> window_gib;  // addressable weights and activations of one session; none: unlimited
  Number reserve_gib;                // of the window, for activations, K/V and code
  Number sessions,
      session_hop_us;  // windows that can be open at once, and the price of going from one to another
  std::vector<MapVariant> map_variants;
  std::string map_default;
  Number copy_gb_per_s;  // copying weights into a slot that stays mapped, bytes written
  Number map_watts, dma_watts, idle_watts;
  bool head_on_npu = false;      // where the LM head runs
  bool logits_all_rows = false;  // logits of every computed row, not only of undecided ones
  std::string rival;             // an autoregressive model of the size on the same chip; empty: none
  Number rival_tokens_per_s;
  std::optional<ExpertProfile> experts;  // none: experts are computed where the units' op lists say
  std::optional<DivideProfile> divide;   // none: the units share no memory, or the accelerator maps none
  std::optional<MeasuredDsp> dsp;        // none: nobody has measured one
  std::vector<std::string> uncertain;    // paths of the three least certain numbers: "npu.matmul_gflops"

  const MapVariant& map(std::string_view variant) const;  // "" or an unknown name: the default
};

// `origin` names the file in errors.
Result<Profile> parse_profile(std::string_view json, std::string_view origin);

// A built-in profile by name, or the file at that path (anything with a '/' or ending in ".json").
Result<Profile> load_profile(const std::string& name_or_path);
std::vector<Profile> builtin_profiles();

// The text form, which parse_profile() reads back.
std::string profile_text(const Profile& profile);

// Every number with its path, in the order of the text form.
struct NamedNumber {
  std::string path, unit;
  const Number* number;
};
std::vector<NamedNumber> numbers(const Profile& profile);

// The profile with one number changed; the path must be one of numbers().
Profile with_number(Profile profile, std::string_view path, double value);

}  // namespace llada
