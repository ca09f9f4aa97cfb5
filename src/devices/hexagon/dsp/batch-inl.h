// Helpers that the files of Batch share: refs to addresses, rows to workers.
#pragma once
#include "devices/hexagon/dsp/batch.h"

#define DSP_TRY(call) \
  if (const ::dsp::Fault dsp_fault_ = (call)) return dsp_fault_

namespace dsp {

constexpr uint32_t kMaxColumns = 1 << 17;

template <class T>
Fault Batch::at(WireRef ref, uint64_t bytes, Use use, T*& out, uint32_t alignment) {
  const WirePassing* passing = copy_.passing(ref.buffer);
  if (passing != nullptr) {
    uint8_t* there = nullptr;
    const Fault fault = passing_at(*passing, ref.offset, bytes, use, there, alignment);
    out = reinterpret_cast<T*>(there);
    return fault;
  }
  if (ref.buffer >= WIRE_BUFFERS || buffers_.list[ref.buffer].address == nullptr) return {WIRE_BAD_REF, ref.buffer};
  Buffer& buffer = buffers_.list[ref.buffer];
  if (checking_) buffer.used = true;
  if (ref.offset > buffer.bytes || bytes > buffer.bytes - ref.offset) return {WIRE_BAD_REF, ref.buffer};
  if (use != Use::reads && buffer.read_only) return {WIRE_BAD_REF, ref.buffer};
  if (ref.offset % alignment != 0) return {WIRE_BAD_OP, WIRE_CHECK_ALIGNMENT};
  out = reinterpret_cast<T*>(buffer.address + ref.offset);
  return checking_ ? touch({buffer.fd, ref.offset, ref.offset + static_cast<uint32_t>(bytes)}, use) : Fault{};
}

template <class Body>
void Batch::each_row(uint32_t rows, const Body& body) {
  const uint32_t step = rows / (4 * pool_.workers()) + 1;
  pool_.each((rows + step - 1) / step, [&](uint32_t task, uint32_t) {
    for (uint32_t r = task * step; r < rows && r < (task + 1) * step; ++r) body(r);
  });
}

}  // namespace dsp
