#include "devices/hexagon/reserve.h"

#include <algorithm>
#include <set>
#include <utility>

#include "devices/hexagon/wire.h"
#include "devices/value_plan.h"

namespace llada {
namespace {

// Emulated: the program with its stacks takes 9 MiB, the ring 4; mappings are contiguous, so gaps between buffers stay.
constexpr int64_t kProcess = int64_t{32} << 20;
constexpr int64_t kWorkers = 8;  // most threads of the DSP; each has work memory of its own

// Bytes per activation in the widest format (16 bits, a scale and a shift per 32), and of the head's logits.
constexpr double kQuantized = 2.5;
constexpr int64_t kChunk = 512;

int64_t scratch_of_matrices(int64_t rows, int64_t inputs, int64_t matrices) {
  const int64_t padded_rows = rows + 8, padded_inputs = inputs + 64;
  const auto quantized = static_cast<int64_t>(kQuantized * static_cast<double>(padded_rows * padded_inputs));
  return matrices * (quantized + padded_rows * 16 + 128) + kWorkers * (padded_inputs / 8 + 128);
}

// Tiles of 32 keys and 512 values, queries and weights as activations, scores and mixes of 32 rows; and what the matrix
// unit's attention keeps of its queries.
int64_t scratch_of_attention(int64_t heads, int64_t head_dim) {
  const int64_t values = head_dim / 32 * (int64_t{34} << 10), queries = 64 * head_dim + (int64_t{8} << 10);
  const int64_t scores = int64_t{96} << 10;
  constexpr int64_t kUnit = int64_t{268} << 10;
  return kUnit + kWorkers * (values + queries + scores + heads * 32 * (head_dim + 2) * 4 + (int64_t{16} << 10));
}

}  // namespace

HexagonReserve hexagon_reserve(const Program& program, std::span<const WeightInfo> infos, int64_t positions,
                               bool divides) {
  const int64_t rows = program.shape.rows;
  HexagonReserve r{.process = kProcess, .arena = plan_values(program).bytes, .scratch = kFirstScratch};
  // Per row and row set: position, token, range of keys, span, how it is guided, a prediction.
  int64_t staged = rows * 3 * (8 + 8 + 28 + 12 + 32) + 4096, table = 0, trial = 0, crossing = 0;
  staged += rows * 2 * 8 * std::ssize(program.attentions);  // ranges of keys, once more for each window
  std::set<std::pair<RowSet, int16_t>> rotated;             // a table each, as batch.cc stages them
  for (const Op& op : program.ops) {
    const auto dims = [&](size_t i) { return infos[static_cast<size_t>(op.weight[i])].dims; };
    int64_t scratch = 0;
    if (op.kind == OpKind::embed || op.kind == OpKind::route || op.kind == OpKind::experts || op.kind == OpKind::head) {
      int64_t columns = 0;
      for (const auto& ids : {op.in, op.out})
        for (const ValueId id : ids)
          if (id != kNoValue) columns += program.values[static_cast<size_t>(id)].columns;
      crossing = std::max(crossing, rows * columns * 4);
    }
    switch (op.kind) {
      case OpKind::matmul: {
        int64_t columns = dims(0)[0] + 3 * 32;  // with the ends of lines
        for (size_t i = 0; i < 3; ++i)
          if (op.weight[i] != kNoWeight) columns += dims(i)[1];
        if (divides) r.divided = std::max(r.divided, rows * columns * 4 * 5 / 4 + (int64_t{2} << 20));
        scratch = scratch_of_matrices(rows, dims(0)[0],
                                      std::ranges::count_if(op.weight, [](WeightId w) { return w != kNoWeight; }));
        break;
      }
      case OpKind::rope:
        if (rotated.emplace(op.rows, op.attributes).second) table += rows * program.rope(op).rotary * 4;
        break;
      case OpKind::store_kv: {
        const Attention& a = program.attention(op);
        r.kv += 2 * 2 * positions * a.kv_heads * a.head_dim + a.kv_heads * 128;
        trial = rows * a.kv_heads * a.head_dim * 2 * 2;
        break;
      }
      case OpKind::attention: {
        const Attention& a = program.attention(op);
        scratch = scratch_of_attention(a.heads / std::max<int>(a.kv_heads, 1), a.head_dim);
        break;
      }
      case OpKind::head: {
        const auto [inputs, vocabulary] = dims(0);
        const int64_t chunks = (vocabulary + kChunk - 1) / kChunk;
        scratch = scratch_of_matrices(rows, inputs, 1) + kWorkers * (rows * kChunk * 4 + 128) + chunks * rows * 32;
        staged += std::min(rows, kLogitRows) * vocabulary * 4;
        break;
      }
      default:
        break;
    }
    r.scratch = std::max(r.scratch, scratch);
  }
  // Two buffers, which grow by a quarter more than was missing.
  r.staging = (staged + table + trial + crossing) * 5 / 4 + (int64_t{1} << 20);
  return r;
}

}  // namespace llada
