// A batch of ops (devices/hexagon/wire.h) over mapped buffers: every op is checked with all its refs and indices before
// the first one runs, then all run in order. Words: fault = why a batch was refused.
#pragma once
#include <stdint.h>

#include "devices/hexagon/dsp/lock.h"
#include "devices/hexagon/dsp/pool.h"
#include "devices/hexagon/wire.h"

namespace dsp {

struct Buffer {
  uint8_t* address = nullptr;  // null: not mapped (yet)
  uint32_t bytes = 0;
  int32_t fd = -1;
  bool taken = false;  // the number belongs to somebody, who may be about to map or unmap
  bool used = false;   // by the batch that runs
};

// All buffers of a session; others map and unmap while a batch runs.
struct Buffers {
  Lock lock;  // for all of it; a batch holds it while it is checked, and what it uses stays as it is until its end
  Buffer list[WIRE_BUFFERS];
  uint32_t served = 0;  // mappings and unmappings that were done; read without the lock
};

struct Fault {
  uint32_t status = WIRE_OK, detail = 0;
  explicit operator bool() const { return status != WIRE_OK; }
};

class Batch {
 public:
  Batch(Buffers& buffers, Pool& pool) : buffers_(buffers), pool_(pool) {}

  // `bytes` bytes: a WireBatch, its ops and ranges.
  void run(const void* data, uint32_t bytes, WireReply& reply);

 private:
  // Everything about the batch but its work.
  Fault check(const WireBatch& batch, uint32_t& op);
  // One op: its checks and, unless checking_, its work.
  Fault execute(const WireOp& op);
  Fault embed(const WireOp& op);
  Fault select_rows(const WireOp& op);
  Fault norm(const WireOp& op, bool heads);
  Fault matmul(const WireOp& op);
  Fault rope(const WireOp& op);
  Fault store_kv(const WireOp& op);
  Fault attention(const WireOp& op);
  Fault elementwise(const WireOp& op);
  Fault guide(const WireOp& op);
  Fault head(const WireOp& op);

  Fault maintain(const WireRange* ranges, uint32_t count, uint32_t use);

  // The address of `bytes` bytes at `ref`; faults when they are not inside a mapped buffer or not aligned.
  template <class T>
  Fault at(WireRef ref, uint64_t bytes, T*& out, uint32_t alignment = alignof(T)) const;
  Fault value(WireRef ref, uint64_t rows, uint64_t columns, float*& out) const;
  Fault vector(const WireWeight& weight, uint32_t length, const float*& out) const;
  Fault matrix(const WireWeight& weight, uint32_t inputs, const uint8_t*& out) const;
  Fault indices(WireRef ref, uint32_t count, uint32_t limit, const uint32_t*& out) const;
  Fault spans(const WireOp& op, const WireSpan*& out) const;
  Fault cache(const WireOp& op, const WireSpan* spans, uint32_t rows_of_all, uint8_t*& keys, uint8_t*& values,
              uint8_t*& trial) const;
  // The first `bytes` bytes of the scratch; while checking the largest demand is remembered.
  uint8_t* scratch(uint64_t bytes);

  template <class Body>
  void each_row(uint32_t rows, const Body& body);

  // Matrix products of one op: activations quantized once per format, then all tiles.
  struct Product {
    const uint8_t* weights = nullptr;
    uint32_t layout = 0, outputs = 0;
    float* y = nullptr;
    uint32_t stride = 0;
    uint32_t first = 0, last = 0;  // tiles
  };
  uint8_t* quantize(uint32_t layout, const float* x, uint32_t rows, uint32_t inputs, uint8_t* to);
  static void multiply(const Product& product, uint32_t tile, const float* x, const uint8_t* activations, uint32_t rows,
                       uint32_t inputs);

  Buffers& buffers_;
  Pool& pool_;
  bool checking_ = true;
  uint8_t* scratch_ = nullptr;
  uint64_t scratch_needed_ = 0;
};

// Bits of WireInfo.
uint32_t supported_kinds();
uint32_t supported_matrix_layouts();

}  // namespace dsp
