// The first byte chooses: a safetensors file, a model with its config.json (2 bytes of length, the text, the weights),
// a config.json, or an index. Seeds: fuzz_seeds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "formats/hf_config.h"
#include "formats/made_weights.h"
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
  } else if (data[0] == 'm') {
    uint16_t length = 0;
    if (bytes.size() < sizeof length) return 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    if (length > bytes.size() - sizeof length) return 0;
    const auto config = read_hf_config(text.substr(sizeof length, length), {}, "fuzz");
    if (!config) return 0;
    const NamedBytes shard{bytes.subspan(sizeof length + length), "fuzz"};
    const auto model = read_hf_model(*config, {&shard, 1}, "fuzz");
    if (!model) return 0;
    for (const ModelTensor& tensor : model->tensors) {
      if (model->made != nullptr && model->made->holds(tensor.view)) {
        (void)model->made->make(tensor.view, nullptr);
        continue;
      }
      const auto first = static_cast<uint64_t>(tensor.view.data - shard.bytes.data());
      if (first > shard.bytes.size() || static_cast<uint64_t>(tensor.view.bytes()) > shard.bytes.size() - first)
        std::abort();
    }
  } else {
    const auto file = parse_safetensors(bytes, "fuzz");
    if (!file) return 0;
    for (const SafetensorsTensor& tensor : file->tensors)
      if (tensor.offset > bytes.size() || static_cast<uint64_t>(tensor.view.bytes()) > bytes.size() - tensor.offset)
        std::abort();
  }
  return 0;
}
