// Files of packed weights. The first byte chooses: a whole file, or an index whose hash nobody asks for, so that the
// fuzzer gets behind it.
#include <cstdint>
#include <cstdlib>

#include "devices/cpu/packed_file.h"

using namespace llada;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  constexpr uint64_t kIndexAt = uint64_t{1} << 40;
  const bool whole = data[0] == 'w';
  const auto index = whole ? parse_packed_file(bytes, "fuzz") : parse_packed_index(bytes, kIndexAt, "fuzz");
  if (!index) return 0;
  uint64_t end = 0;
  for (const PackedMatrix& m : index->matrices) {
    if (m.offset < end || m.offset % kPackedAlign != 0) std::abort();
    end = m.offset + m.bytes;
    if (end < m.offset || end > (whole ? bytes.size() : kIndexAt)) std::abort();
    (void)traits(m.type).name;
  }
  // What was read is written again byte for byte.
  const auto again = packed_index_bytes(*index, kIndexAt);
  if (!whole && !std::equal(bytes.begin(), bytes.end(), again.begin())) std::abort();
  return 0;
}
