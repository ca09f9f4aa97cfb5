#include "eval/routing_recorder.h"

#include "base/file.h"
#include "json/lines.h"

namespace llada {
namespace {

constexpr size_t kMostRecorded = size_t{256} << 20;  // bytes, the limit of a reader of the file

// A line: a layer of a step. experts[r]: those of row r, with their gates.
struct RecordedRouting {
  int64_t step = 0;
  int32_t layer = 0;  // of those with experts, from 0
  std::vector<int32_t> positions;
  std::vector<std::vector<int32_t>> experts;
  std::vector<std::vector<float>> gates;
};

std::string routing_header(const std::string& model, int32_t layers, int32_t experts, int32_t used) {
  return json_line({{"format", "llada-routing"},
                    {"version", 1},
                    {"model", model},
                    {"layers", layers},
                    {"experts", experts},
                    {"used", used}});
}

std::string routing_line(const RecordedRouting& r) {
  return json_line(
      {{"step", r.step}, {"layer", r.layer}, {"positions", r.positions}, {"experts", r.experts}, {"gates", r.gates}});
}

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
