// The first byte chooses: a safetensors file, a config.json, or an index. Seeds: fuzz_seeds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "formats/hf_config.h"
#include "formats/safetensors.h"

using namespace llada;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'c') {
    (void)read_hf_config(text, {}, "fuzz");
  } else if (data[0] == 'i') {
    const auto names = parse_safetensors_index(text, "fuzz");
    if (!names) return 0;
    for (const std::string& name : *names)
      if (name.find('/') != std::string::npos) std::abort();
  } else {
    const auto tensors = parse_safetensors(bytes, "fuzz");
    if (!tensors) return 0;
    for (const SafetensorsTensor& tensor : *tensors)
      if (tensor.offset > bytes.size() || static_cast<uint64_t>(tensor.view.bytes()) > bytes.size() - tensor.offset)
        std::abort();
  }
  return 0;
}
