// Weights that other software has rounded, in safetensors: which scheme a folder has. config.json says it in
// `quantization` (MLX) or `quantization_config`, also below `text_config`; some writers keep it in
// hf_quant_config.json. Shapes and types of a matrix's parts say the rest (rounded_matrix.h), so most schemes need
// little of this. Schemes that are not read are refused by name: bitsandbytes, HQQ, AQLM, formats of one kernel alone.
// Private to formats/.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "json/fields.h"

namespace llada {

enum class RoundedBy { mlx, gptq, awq, compressed_tensors, fp8, modelopt };

struct RoundedScheme {
  // MLX, by module. bits 0: the module is not rounded.
  struct Mlx {
    std::string mode = "affine";  // affine, mxfp4, mxfp8, nvfp4
    int64_t bits = 4, group = 64;
  };

  RoundedBy by = RoundedBy::mlx;
  std::string name;                                      // for people: "gptq, 4 bits"
  Mlx mlx = {};                                          // of modules that have no entry of their own
  std::map<std::string, Mlx, std::less<>> modules = {};  // by the module's path
  int64_t bits = 0;                                      // gptq, awq
  bool zeros_less_one = false;                           // gptq: zeros are stored less one
};

// Null: config.json and hf_quant_config.json, whose text `more` is or which is missing (empty), name none.
Result<std::shared_ptr<const RoundedScheme>> read_rounded_scheme(const Json& config, std::string_view more,
                                                                 std::string_view file);

}  // namespace llada
