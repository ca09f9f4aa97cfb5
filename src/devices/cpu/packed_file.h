// The file that keeps packed weights, so that a process maps the weights that another one packed. Little-endian:
//
//   matrices   each on a border of kPackedAlign bytes
//   index      instruction set, layout, source, and of each matrix its name, shape, place and checksum
//   end        56 bytes: magic, version, where the index begins, its size, the file's size, the index's hash
//
// The index stands behind the matrices: a file that lost its end, or never got one, is no such file. This part reads
// and writes the index; packed_weights.h checks it against a model.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "tensor/dtype.h"

namespace llada {

inline constexpr uint64_t kPackedAlign = 4096, kPackedEndBytes = 56;

// The stored weights that a packed copy was made of.
struct PackedSource {
  std::string path;       // absolute, for listings
  FileIdentity identity;  // of all files
};

struct PackedMatrix {
  std::string name;  // canonical
  int32_t expert = -1;
  DType type = DType::F32;  // as stored
  int64_t inputs = 0, outputs = 0;
  uint64_t offset = 0, bytes = 0;
  uint64_t checksum = 0;  // of the packed bytes (packed_checksum)
};

uint64_t packed_checksum(std::span<const std::byte> bytes);  // of a matrix or an index

struct PackedIndex {
  std::string isa;      // the kernel table's name
  uint64_t layout = 0;  // layout_fingerprint() of packed_weights.h
  PackedSource source;
  std::vector<PackedMatrix> matrices;  // in the order in which they lie in the file
};

// `file` is the whole file, untrusted; `name` stands for it in errors. The result is safe to use: every matrix lies
// inside the file, on its border, behind the one before it. Errors are invalid input. The matrices are not read.
Result<PackedIndex> parse_packed_file(std::span<const std::byte> file, const std::string& name);

// Parses the index alone, of a file whose matrices end at `index_at`, without its hash.
Result<PackedIndex> parse_packed_index(std::span<const std::byte> bytes, uint64_t index_at, const std::string& name);

// Writes the index and the end of a file whose matrices end at `index_at`.
std::vector<std::byte> packed_index_bytes(const PackedIndex& index, uint64_t index_at);

}  // namespace llada
