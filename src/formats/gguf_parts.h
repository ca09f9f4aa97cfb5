// A model in several GGUF files, as llama.cpp's converter and llama-gguf-split write it: NAME-00001-of-0000N.gguf and
// so on, each a GGUF file with some of the tensors. The first has the model's metadata. Every part says which one it is
// (split.no, from 0), how many there are (split.count) and how many tensors they have together (split.tensors.count).
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/gguf.h"
#include "formats/model_record.h"

namespace llada {

// The paths of the parts behind the first, which lie beside it and are named like it. Empty for a model in one file.
// Invalid: a part that is not the first (the error names that one), a name that is not of the form above.
Result<std::vector<std::string>> other_gguf_parts(const GgufFile& file, const std::string& path);

// The first part with the tensors of all; `others` in their order, parsed and checked against `first`.
Result<GgufFile> join_gguf_parts(GgufFile first, std::string_view name, std::span<const NamedBytes> others);

}  // namespace llada
