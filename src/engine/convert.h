// From any model file or folder to a GGUF file of one type, tokenizer included.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/inspect.h"

namespace llada {

struct ConvertReport {
  uint64_t bytes_in = 0;
  ModelSummary out;                // the written file, read back, with the types that tensors got
  std::vector<std::string> notes;  // a source that was rounded already, then ModelConfig::notes
};

// The present work (a tensor's name or a remark) and the share of the bytes written so far, 0 to 1.
using ConvertProgress = std::function<void(double fraction, std::string_view what)>;

// A mix of types (formats/type_mix.h): "q4_k_m". Says in an error which there are.
Status check_conversion_type(std::string_view type);
std::string conversion_types(std::string_view between, std::string_view before_last);

struct ConvertRequest {
  std::string path, out_path;
  std::string type;     // of check_conversion_type()
  std::string imatrix;  // a file; empty: none
};

// The output appears whole or not at all, and an existing file there is replaced only at the end. The written file is
// opened once as a check.
Result<ConvertReport> convert_model(const ConvertRequest& request, const ConvertProgress& progress);

}  // namespace llada
