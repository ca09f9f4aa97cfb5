// A batch of ops (devices/hexagon/wire.h) over mapped buffers. Batch, ops, ranges and every list that an op indexes
// with are copied into memory of this module first (batch_copy.h). Shared memory may change at any time, by the host or
// by an op of the batch itself. So nothing is checked in one place and used from another. Every op is checked with all
// its refs and indices before the first one runs, then all run in order. Words: fault = why a batch was refused.
#pragma once
#include <stdint.h>

#include "devices/hexagon/dsp/batch_copy.h"
#include "devices/hexagon/dsp/head.h"
#include "devices/hexagon/dsp/lock.h"
#include "devices/hexagon/dsp/os.h"
#include "devices/hexagon/dsp/pool.h"
#include "devices/hexagon/wire.h"

namespace dsp {

struct Buffer {
  uint8_t* address = nullptr;  // null: not mapped (yet)
  uint32_t bytes = 0;
  int32_t fd = -1;
  bool taken = false;  // the number belongs to somebody, who may be about to map or unmap
  bool used = false;   // by the batch that runs
  bool read_only = false;
};

// All buffers of a session; others map and unmap while a batch runs.
struct Buffers {
  // for all members; a batch holds it while it is checked, and the mappings that it uses stay as they are until its end
  Lock lock;
  Buffer list[WIRE_BUFFERS];
  uint32_t served = 0;  // mappings and unmappings that were done; read without the lock
  uint32_t asked = 0;   // those that were done or refused; futex word
};

struct Fault {
  uint32_t status = WIRE_OK, detail = 0;
  explicit operator bool() const { return status != WIRE_OK; }
};

// How an op uses the bytes of a ref. replaces: writes, and the bytes may be the very ones of in[0].
enum class Use : uint8_t { reads, writes, replaces };

class Batch {
 public:
  // copy: this batch's alone while it runs.
  Batch(Buffers& buffers, Pool& pool, BatchCopy& copy) : buffers_(buffers), pool_(pool), copy_(copy) {}

  // `bytes` bytes: a WireBatch, its ops and ranges.
  void run(const void* data, uint32_t bytes, WireReply& reply);

 private:
  // Checks all ops of the batch; op: the one at fault.
  Fault check(uint32_t& op);
  // The op's outputs lie apart from whatever else it touches.
  Fault check_aliases(uint32_t op);
  // No op writes where a list was copied from. op: the one that does.
  Fault check_lists(uint32_t& op) const;
  // One op: its checks and, unless checking_, its work.
  Fault execute(const WireOp& op);
  Fault select_rows(const WireOp& op);
  Fault norm(const WireOp& op, bool heads);
  Fault matmul(const WireOp& op);
  Fault rope(const WireOp& op);
  Fault store_kv(const WireOp& op);
  Fault attention(const WireOp& op);
  Fault elementwise(const WireOp& op);
  Fault guide(const WireOp& op);
  Fault head(const WireOp& op);
  Fault show(const WireOp& op);
  Fault join(const WireOp& op);

  Fault maintain(uint32_t use);
  void clean(const uint8_t* bytes, uint32_t count);

  // The address of `bytes` bytes at `ref`; faults when they are not inside a mapped buffer or not aligned, or inside
  // the scratch, or written where only reading is allowed. While checking, the places that the op touches are noted.
  template <class T>
  Fault at(WireRef ref, uint64_t bytes, Use use, T*& out, uint32_t alignment = alignof(T));
  // The same in a buffer that comes and goes, for which it waits when the op runs; null while checking.
  Fault passing_at(const WirePassing& passing, uint32_t offset, uint64_t bytes, Use use, uint8_t*& out,
                   uint32_t alignment);
  Fault touch(const Place& place, Use use);
  void done(uint32_t op);  // marks the op and those before it as done
  Fault value(WireRef ref, uint64_t rows, uint64_t columns, Use use, float*& out, uint32_t alignment = 128);
  // The same that is written, with `pitch` columns from one row to the next (WireOp).
  Fault pitched(WireRef ref, uint32_t rows, uint32_t columns, uint32_t pitch, float*& out);
  Fault vector(const WireWeight& weight, uint32_t length, const float*& out);
  Fault matrix(const WireWeight& weight, uint32_t inputs, const uint8_t*& out);
  // Private copies of the lists that the op indexes with.
  Fault list(WireRef ref, uint64_t bytes, const CopiedList*& out);
  Fault indices(WireRef ref, uint32_t count, uint32_t limit, const uint32_t*& out);
  Fault spans(const WireOp& op, const WireSpan*& out);
  Fault key_ranges(const WireOp& op, const WireKeys*& out);
  Fault cache(const WireOp& op, const WireSpan* spans, uint32_t rows_of_all, Use use, uint8_t*& keys, uint8_t*& values,
              uint8_t*& trial);
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
    uint32_t tile_bytes = 0;
  };
  uint8_t* quantize(uint32_t layout, const float* x, uint32_t rows, uint32_t inputs, uint8_t* to);
  static void multiply(const Product& product, uint32_t tile, const float* x, const uint8_t* activations, uint32_t rows,
                       uint32_t inputs);

  struct UnitPlan {
    // Offsets and sizes in the matrix unit's memory; row_tiles: of 32 rows that lie there at a
    // time; waiting: tiles of weights that do.
    uint32_t blocks, stripes, row_tiles, slot, waiting, ring, results, tables;
    // False: inputs do not fit, whatever the rows.
    bool lay(const Matrix& unit, uint32_t rows, uint32_t inputs);
  };
  void put_unit_tables(const UnitPlan& plan);
  // At most plan.row_tiles of rows; exponents: room for theirs.
  void put_unit_rows(const UnitPlan& plan, const float* x, uint32_t rows, uint32_t inputs, int32_t* exponents);
  // All tiles of the products, numbered through; exponents: room for those of the rows. False: the unit was not given.
  bool multiply_by_unit(const UnitPlan& plan, const Product* products, uint32_t tiles, const float* x, uint32_t rows,
                        uint32_t inputs, int32_t* exponents);
  // The same with rows that were put there; results go to rows from first_row on.
  bool multiply_rows_by_unit(const UnitPlan& plan, const Product* products, uint32_t tiles, uint32_t first_row,
                             uint32_t rows, const int32_t* exponents);
  // Some ops, by turns, have products of the unit computed again; choice: a number of the turn, which ones.
  bool sampled() const;
  uint32_t choice() const;
  // Whether sums of some ops, by turns, agree with those that are computed again.
  bool unit_agrees(const Product* products, uint32_t tiles, const float* x, uint32_t rows, uint32_t inputs);

  struct Head {
    const float* x;
    uint32_t rows, inputs, chunks;
    Product product;  // all tokens
    float* logits;    // of all tokens, or null
    TokenList not_in_sum, not_chosen;
    uint8_t* chunk_memory;  // for kMaxWorkers chunks of all rows
    uint32_t chunk_bytes;
    WirePrediction* partial;  // chunks x rows
    WirePrediction* predictions;
    float* chunk(uint32_t i) const { return reinterpret_cast<float*>(chunk_memory + i * chunk_bytes); }
  };
  // A row's logits of a chunk, which are overwritten.
  static WirePrediction reduce(const Head& head, float* logits, uint32_t row, uint32_t chunk);
  Fault head_by_unit(const UnitPlan& plan, const Head& head, int32_t* exponents);

  Buffers& buffers_;
  Pool& pool_;
  BatchCopy& copy_;
  Matrix unit_;  // empty: the batch does not ask for it
  bool checking_ = true;
  uint32_t op_ = 0;     // that is checked or runs
  uint32_t lines_ = 0;  // cleaned for ranges
  WireFlags* flags_ = nullptr;
  Place scratch_place_;  // empty: there is none, or it is this that is looked up
  struct Touched {
    Place place;
    Use use;
  };
  static constexpr uint32_t kMostTouched = 12;  // by an op: matmul has 7 refs, attention 6
  Touched touched_[kMostTouched];
  uint32_t touched_count_ = 0;
  uint8_t* scratch_ = nullptr;
  uint64_t scratch_needed_ = 0;
};

// Bits of WireInfo.
uint32_t supported_kinds();
uint32_t supported_matrix_layouts();
uint32_t supported_units();

}  // namespace dsp
