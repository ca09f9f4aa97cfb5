// Matrices as other software rounds them: parts from drawn codes, and the values that they stand for by the published
// formula of each scheme. Everything is computed here anew, code by code.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "formats/model_fixture.h"

namespace llada::testing_models {

// A tensor of a safetensors file with its bytes.
struct FilePart {
  std::string name, type;
  std::vector<int64_t> shape;
  std::string bytes;
};
std::string safetensors_of(const std::vector<FilePart>& parts);

struct RoundedFixture {
  std::vector<FilePart> parts;  // names without the module's
  std::vector<float> values;    // [out][in]
};

struct RoundedForm {
  std::string name;
  std::string config;  // members of config.json
  std::function<RoundedFixture(int64_t out, int64_t in)> make;
  DType type;
  double error = 0;  // most, as a share of the largest of 32 values
};
// Every scheme that is read.
std::vector<RoundedForm> rounded_forms();
RoundedForm rounded_form(const std::string& name);

// A folder's files: all matrices of the layers rounded, everything else BF16. `values`: what the model holds then.
struct RoundedFolder {
  std::string config, weights;
  std::vector<FakeTensor> values;
};
RoundedFolder rounded_folder(const ModelConfig& config, const RoundedForm& form,
                             const std::function<void(std::vector<FilePart>&)>& change = {});

// A small model whose tokens are bytes, a mask and an end; the folder's files by name, with its tokenizer.
inline constexpr int32_t kByteMask = 256, kByteEnd = 257;
ModelConfig config_of_bytes(const Family* family);
std::map<std::string, std::string> files_of(const RoundedFolder& folder);

}  // namespace llada::testing_models
