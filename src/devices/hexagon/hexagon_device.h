// A Hexagon DSP as a device: the accelerator is the DSP behind libcdsprpc (library.h), the host is a device that it is
// given. Each has an arena of its own, at the same offsets. Values that the other one reads are copied, so that a batch
// names all data that has to be kept in order between their caches. K/V is the DSP's until the host asks. Runs on the
// accelerator become batches, one invoke each; weights lie in slabs that are mapped and unmapped in the DSP's 32-bit
// address space.
//
// Products may be divided: the host computes the last columns of each while the DSP computes the others (host_share.h).
//
// Where the host replaces the DSP it runs the DSP's own code on the packed slabs, with the same bits (host_twin.h). It
// does so in a run on the host, in a side pass, and as the fallback. Ops without code for the DSP, and steps of more
// rows than a batch takes, always run on the given host device.
//
// A matrix unit is used where its self-test has passed (unit_record.h). It then has the products of all rows of all
// steps, however few, so that a row does not know its batch. The host stays with integers: for ops that it replaces,
// side passes, steps of more than kHexagonRows rows. A unit that is lost, or whose sampled sum is wrong, is not asked
// again: one line, and the step is computed once more by integers (narrow()).
//
// Every failure of the DSP is an error of the call that met it, in bounded time. Failures are: its process ends, a call
// does not return, a reply is invalid, a mapping is refused. The device starts a new session when slabs are defined
// next. After a refused mapping the window shrinks to the bytes mapped by then (Window::narrow).
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "devices/device.h"

namespace llada {

// Who multiplies matrices: the vector unit's integers, the matrix unit, or the latter where its test has passed.
enum class HexagonUnit : uint8_t { vector, matrix, automatic };

struct HexagonOptions {
  std::string library = {};                   // libcdsprpc; empty: searched for (hexagon/library.h)
  std::string module = {};                    // module that the DSP has loaded before; empty: one of Library::modules()
  int sessions = 1;                           // windows, each a process on the DSP; fewer where there are no more
  std::optional<int64_t> window_bytes = {};   // for weights, of one session
  int64_t reserve_bytes = int64_t{64} << 20;  // of a session's address space, for everything else (reserve.h)
  std::optional<int64_t> space_bytes = {};    // address space of an emulated session; absent: window and reserve
  double deadline_s = 10;                     // of a call, beside the time that a batch's work may take
  bool head_on_dsp = true;
  HexagonUnit unit = HexagonUnit::automatic;
  std::string cache = {};  // folder for findings about the DSP; empty: none are kept
  int threads = 0;         // of the DSP; 0: all
  // The host's part of each product's columns, in [0, 1): it computes them while the DSP does the others, to the same
  // bits. 0: none. Where the matrix unit is used, none either.
  double host_share = 0;
  std::function<Status()> on_part = {};  // before each part of a product that the host computes; an error ends the run
  std::function<void(const std::string&)> warn = {};  // a line for everything that differs from the request
};

// Rows of a step that the DSP takes; a step with more is the host's.
inline constexpr int64_t kHexagonRows = 1024;
// The assumed address space of a session that is not known yet; refused mappings lower it. Phones are said to give 2.9
// to 3.8 GiB.
inline constexpr int64_t kHexagonSpace = int64_t{7} << 29;

struct HexagonCounters {
  int64_t batches = 0, dsp_ops = 0, host_ops = 0;  // host_ops: of runs placed on the accelerator
  int64_t maps = 0, unmaps = 0, mapped_bytes = 0;  // slabs; bytes summed over maps
  int64_t maps_beside = 0;  // mappings and unmappings that the DSP served while one of its batches ran
  int64_t host_parts = 0;   // of divided products, that the host has computed
  int64_t packets = 0;      // instruction packets, counted by the emulator
  int64_t lines = 0;        // cache lines of 32 bytes that the DSP maintained for the host
  int64_t sessions_opened = 0;
  int64_t arena_bytes = 0, staging_bytes = 0, scratch_bytes = 0;  // of buffers beside weights, as they are now
};

class HexagonDevice : public Device, public Window {
 public:
  // Opens the sessions now instead of at the first use. An error says what is missing.
  virtual Status start() = 0;
  virtual void set_window(int64_t weight_bytes) = 0;  // before the first use
  virtual HexagonCounters counters() const = 0;
  // The fallback: a device that computes on the host's processors, over the same packed weights and with the same bits.
  virtual Result<std::unique_ptr<Device>> on_host(int threads) const = 0;
};

// weights[i] belongs to infos[i] and must stay readable as long as the device or one that shares with it lives. host: a
// device over the same weights that runs any op and can be a HostUnit.
Result<std::unique_ptr<HexagonDevice>> make_hexagon_device(const HexagonOptions& options,
                                                           std::span<const WeightInfo> infos,
                                                           std::span<const TensorView> weights,
                                                           std::unique_ptr<Device> host, const WeightHooks& hooks = {});

// A line about the DSP of this machine; opens a session for it.
Result<std::string> describe_hexagon(const HexagonOptions& options);

}  // namespace llada
