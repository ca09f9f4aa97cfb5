// GGUF bytes through the parser and its readers. Behind the letter p: a model in two parts, the first's length in
// 4 bytes before them; behind i: an importance matrix in either form. Seeds: fuzz_seeds.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "formats/gguf.h"
#include "formats/gguf_model.h"
#include "formats/gguf_parts.h"
#include "formats/imatrix.h"

using namespace llada;

namespace {

void check_views(const ModelRecord& model, std::span<const std::byte> bytes) {
  for (const ModelTensor& tensor : model.tensors) {
    const auto first = static_cast<uint64_t>(tensor.view.data - bytes.data());
    if (first > bytes.size() || static_cast<uint64_t>(tensor.view.bytes()) > bytes.size() - first) std::abort();
  }
}

void read_parts(std::span<const std::byte> bytes) {
  uint32_t length = 0;
  if (bytes.size() < sizeof length) return;
  std::memcpy(&length, bytes.data(), sizeof length);
  bytes = bytes.subspan(sizeof length);
  const size_t first = std::min<size_t>(length, bytes.size());
  auto file = GgufFile::parse(bytes.first(first), "fuzz");
  if (!file) return;
  (void)other_gguf_parts(*file, "fuzz-00001-of-00002.gguf");
  const NamedBytes second{bytes.subspan(first), "fuzz"};
  const auto joined = join_gguf_parts(std::move(*file), "fuzz", {&second, 1});
  if (!joined) return;
  if (const auto model = read_gguf_model(*joined, bytes.size(), "fuzz")) check_views(*model, bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  if (size > 0 && data[0] == 'p') {
    read_parts(bytes.subspan(1));
    return 0;
  }
  if (size > 0 && data[0] == 'i') {
    const auto matrix = Imatrix::parse(bytes.subspan(1), "fuzz");
    if (!matrix) return 0;
    for (const Imatrix::Entry& entry : matrix->entries())
      if (matrix->find(entry.name) != &entry || entry.weights.empty()) std::abort();
    return 0;
  }
  const auto file = GgufFile::parse(bytes, "fuzz");
  if (!file) return 0;
  (void)read_gguf_tokenizer(*file, size, "fuzz");
  if (const auto model = read_gguf_model(*file, size, "fuzz")) check_views(*model, bytes);
  return 0;
}
