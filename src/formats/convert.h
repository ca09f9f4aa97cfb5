// Writes any model that opens as a GGUF file as llama.cpp's converter writes it: with that converter's metadata keys
// and tensor names, stacked experts, vectors and the router in f32. Rows of q and k are permuted for adjacent-pair RoPE
// (arch llada only). A row whose length is no multiple of its type's group gets another type (type_mix.h). Rows are
// converted on all cores, a piece of a tensor at a time, and the bytes do not depend on how many there are.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/tokenizer_spec.h"
#include "formats/model_file.h"
#include "tensor/dtype.h"

namespace llada {

class Imatrix;
struct TypeMix;

struct ConvertOptions {
  DType type = DType::F16;           // of every matrix, where there is no mix; one that can be written
  const TypeMix* mix = nullptr;      // the types of the matrices
  const Imatrix* imatrix = nullptr;  // weighs errors; matrices that it lacks are quantized without
  int threads = 0;                   // 0: one per core
  // Called now and then with the share of the bytes written so far, and a tensor's name or a remark.
  std::function<void(double fraction, std::string_view what)> progress;
  // For GgufWriter::write().
  std::function<Status(const std::string& path)> check = {};
};

// tokenizer: the one to write; null takes the model's own, if it has one. The output appears whole or not at all; an
// existing file at out_path is replaced only at the end. Refused: out_path being one of the model's own files, weights
// that are not finite or overflow the type, an importance matrix of another model. Returns notes: matrices whose rows
// do not fit the mix, matrices without importance.
Result<std::vector<std::string>> convert_to_gguf(const ModelFile& model, const TokenizerSpec* tokenizer,
                                                 const std::string& out_path, const ConvertOptions& options);

// A sentence for each reason why llama.cpp will not open such a file, or will compute or tokenize otherwise than this
// program. Its loaders are stricter than its file format.
std::vector<std::string> llama_cpp_notes(const ModelConfig& config, const TokenizerSpec* tokenizer);

}  // namespace llada
