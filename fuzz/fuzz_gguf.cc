// GGUF bytes through the parser and both readers. Seeds: fuzz_seeds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "formats/gguf.h"
#include "formats/gguf_model.h"

using namespace llada;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = GgufFile::parse(bytes, "fuzz");
  if (!file) return 0;
  (void)read_gguf_tokenizer(*file, size, "fuzz");
  const auto model = read_gguf_model(*file, size, "fuzz");
  if (!model) return 0;
  for (const ModelTensor& tensor : model->tensors) {
    const auto first = static_cast<uint64_t>(tensor.view.data - bytes.data());
    if (first > size || static_cast<uint64_t>(tensor.view.bytes()) > size - first) std::abort();
  }
  return 0;
}
