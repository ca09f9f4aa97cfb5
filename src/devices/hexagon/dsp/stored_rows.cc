#include "devices/hexagon/dsp/float_math.h"
#include "devices/hexagon/dsp/rows.h"
#include "devices/hexagon/wire.h"

namespace dsp {
namespace {

uint16_t half_at(const uint8_t* bytes) { return static_cast<uint16_t>(bytes[0] | bytes[1] << 8); }
constexpr uint32_t kQ8 = 34, kQ4 = 18, kGroup = 32;  // bytes of a stored group, its elements

}  // namespace

uint32_t stored_row_bytes(uint32_t layout, uint32_t n) {
  switch (layout) {
    case WIRE_STORED_F32:
      return 4 * n;
    case WIRE_STORED_F16:
    case WIRE_STORED_BF16:
      return 2 * n;
    case WIRE_STORED_Q8_0:
      return n / kGroup * kQ8;
    default:
      return n / kGroup * kQ4;
  }
}

void stored_row(uint32_t layout, const uint8_t* table, uint32_t index, uint32_t n, float* y) {
  const uint8_t* row = table + static_cast<uint64_t>(index) * stored_row_bytes(layout, n);
  switch (layout) {
    case WIRE_STORED_F32:
      for (uint32_t i = 0; i < n; ++i) y[i] = reinterpret_cast<const float*>(row)[i];
      return;
    case WIRE_STORED_F16:
      for (uint32_t i = 0; i < n; ++i) y[i] = half_to_float(half_at(row + 2 * i));
      return;
    case WIRE_STORED_BF16:
      for (uint32_t i = 0; i < n; ++i) y[i] = float_of(static_cast<uint32_t>(half_at(row + 2 * i)) << 16);
      return;
    case WIRE_STORED_Q8_0:
      for (uint32_t i = 0; i < n; ++i) {
        const uint8_t* group = row + i / kGroup * kQ8;
        y[i] = half_to_float(half_at(group)) * static_cast<float>(static_cast<int8_t>(group[2 + i % kGroup]));
      }
      return;
    default:
      for (uint32_t i = 0; i < n; ++i) {
        const uint8_t* group = row + i / kGroup * kQ4;
        const uint32_t at = i % kGroup;
        const int32_t q = at < 16 ? group[2 + at] & 0xf : group[2 + at - 16] >> 4;
        y[i] = half_to_float(half_at(group)) * static_cast<float>(q - 8);
      }
  }
}

}  // namespace dsp
