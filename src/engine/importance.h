// An importance matrix of a model (formats/imatrix.h), measured as it denoises a text (importance_sums.h), as a file
// for convert_model() and for llama.cpp's quantizer.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace llada {

class Model;

struct ImportanceRequest {
  std::string text, text_name;  // the name stands in the file
  std::string out_path = {};
  int64_t length = 0;    // tokens of a canvas, 2 or more; the last may be shorter; 0: 512, or the context
  int64_t canvases = 0;  // at most so many; 0: all
  std::optional<double> mask_rate = {};  // 0 to 1, of every canvas; absent: another for each, uniform
  uint64_t seed = 0;                     // of the masks
};
struct ImportanceReport {
  int64_t matrices = 0, canvases = 0, rows = 0, masked = 0;
  std::vector<std::string> unseen;  // matrices of experts of which some were chosen by no row
};

// Asked before each canvas whether to go on; false ends the work without a file.
using ImportanceProgress = std::function<bool(int64_t done, int64_t total)>;

Result<ImportanceReport> measure_importance(const std::shared_ptr<const Model>& model, const ImportanceRequest& request,
                                            const ImportanceProgress& progress);

}  // namespace llada
