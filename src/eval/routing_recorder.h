// Records the decisions of every router of a mixture in a run (`--record-routing`, docs/lab/recording.md).
#pragma once
#include <memory>
#include <string>

#include "base/error.h"
#include "engine/model.h"

namespace llada {

// Writes its records to a file that appears when commit() is called.
class RoutingRecorder {
 public:
  static Result<std::unique_ptr<RoutingRecorder>> create(const std::string& path, const ModelFile& file);
  Status record(const RoutedLayer& routed);
  Status commit();

 private:
  RoutingRecorder() = default;
  std::string path_, text_;
  int64_t step_ = -1;  // counted over the whole file, which may have several answers of one conversation
};

}  // namespace llada
