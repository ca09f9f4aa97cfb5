// The host's columns of products that are divided between DSP and host (Batch::Part). The DSP's module in this process
// computes them while a batch runs, from rows that the DSP shows, to a buffer that it joins. Whoever waits looks at
// words of WireFlags.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/error.h"
#include "devices/hexagon/batch.h"
#include "devices/hexagon/host/module.h"
#include "devices/hexagon/map_lane.h"

namespace llada::hexagon {

class HostShare {
 public:
  // share: of each weight's tiles, in [0, 1); the DSP keeps one at least. threads: of the host, this object's own
  // included. on_part: HexagonOptions::on_part.
  HostShare(double share, int threads, std::function<Status()> on_part)
      : share_(share), threads_(threads), on_part_(std::move(on_part)) {}

  double share() const { return share_; }
  // The tiles that are the host's, of a weight with so many outputs.
  int64_t tiles_of(int64_t outputs) const;
  int64_t computed() const { return computed_; }  // parts, so far

  // Begins the parts of a batch that runs next; end() waits until they are done, or given up because the batch is over.
  // flags: WireFlags of that batch.
  void begin(const Batch& batch, uint64_t sequence, const Stagings& staging, std::shared_ptr<Buffer> flags);
  Status end();

 private:
  Status follow(const std::vector<Batch::Part>& parts, uint64_t sequence, const Buffer& shown, const Buffer& to,
                const Buffer& flags);
  bool await(const Buffer& flags, uint32_t done) const;  // false: the batch is over
  Status compute(const Batch::Part& part, const Buffer& shown, const Buffer& to);

  double share_;
  int threads_;
  std::function<Status()> on_part_;
  std::unique_ptr<HostModule> module_;
  std::shared_ptr<Buffer> scratch_;
  std::atomic<bool> over_ = true;
  std::atomic<int64_t> computed_ = 0;
  int64_t ticket_ = 0;  // 0: no batch has begun
  MapLane lane_;        // the last member: its jobs use the others
};

}  // namespace llada::hexagon
