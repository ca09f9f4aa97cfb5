#include "study/routing_recorder.h"

#include <utility>

#include "base/file.h"
#include "engine/expert_setup.h"
#include "study/moe_routing.h"

namespace llada {
namespace {

constexpr size_t kMostRecorded = size_t{256} << 20;  // bytes, what read_routing() takes

}  // namespace

Result<std::unique_ptr<RoutingRecorder>> RoutingRecorder::create(const std::string& path, const ModelFile& file) {
  LLADA_TRY(const ExpertSplitOptions split, listen_to_experts(file));
  LLADA_TRY_STATUS(AtomicFile::create(path));  // a file that could not be written later is refused first
  std::unique_ptr<RoutingRecorder> recorder(new RoutingRecorder);
  recorder->path_ = path;
  recorder->text_ =
      routing_header(file.path(), split.layers, split.experts, static_cast<int32_t>(file.config().experts_used));
  return recorder;
}

Status RoutingRecorder::record(const RoutedLayer& routed) {
  if (routed.layer == 0) ++step_;
  RecordedRouting r{.step = step_, .layer = routed.layer, .positions = {}, .experts = {}, .gates = {}};
  r.positions.assign(routed.positions.begin(), routed.positions.end());
  const auto experts = static_cast<size_t>(routed.experts);
  for (size_t row = 0; row * experts < routed.gates.size(); ++row) {
    r.experts.emplace_back();
    r.gates.emplace_back();
    for (size_t e = 0; e < experts; ++e) {
      const float gate = routed.gates[row * experts + e];
      if (gate == 0) continue;
      r.experts.back().push_back(static_cast<int32_t>(e));
      r.gates.back().push_back(gate);
    }
  }
  text_ += routing_line(r);
  if (text_.size() > kMostRecorded) return failed("{}: the recorded routing is over {} bytes", path_, kMostRecorded);
  return {};
}

Status RoutingRecorder::commit() { return write_file(path_, text_); }

}  // namespace llada
