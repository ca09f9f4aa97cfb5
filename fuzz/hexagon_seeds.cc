// fuzz_hexagon_seeds FOLDER: writes FOLDER/*, batches as the host's side builds them for one layer of a small model and
// a head, each once to be run alone and once to be scribbled over (fuzz_hexagon.cc).
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "devices/hexagon/wire.h"
#include "hexagon_batches.h"

using namespace llada::fuzz;

namespace {

constexpr WireRef kNone{WIRE_NO_BUFFER, 0};
constexpr uint64_t kSequence = 7;

struct Layer {
  uint32_t rows, width, heads, kv_heads, head_dim, ffn, layout, half, block;
  bool trial;
  bool divided = false;  // the upper columns of a product are the host's, which has computed them before
};

class Builder {
 public:
  explicit Builder(const Layer& layer) : l_(layer), memory_(kSharedBytes) {}

  std::vector<uint8_t> batch() {
    const uint32_t q = l_.heads * l_.head_dim, k = l_.kv_heads * l_.head_dim;
    std::vector<int32_t> positions;
    for (uint32_t r = 0; r < l_.rows; ++r) positions.push_back(static_cast<int32_t>(r));
    std::vector<WireSpan> spans = {{0, l_.rows, 0, 0, 0, l_.rows}};
    if (l_.trial) spans = {{0, l_.rows - 1, 0, 0, 0, l_.rows - 1}, {l_.rows - 1, 1, 0, 1, l_.rows - 1, 1}};
    std::vector<WireKeys> ranges;
    for (uint32_t r = 0; r < l_.rows; ++r)
      ranges.push_back(
          {l_.block > 0 ? r / 2 : 0, l_.block > 0 ? std::min(l_.rows, (r / l_.block + 1) * l_.block) : l_.rows});
    const WireRef index = put(positions.data(), positions.size() * 4),
                  list = put(spans.data(), spans.size() * sizeof(WireSpan));
    const WireRef table = take(l_.rows * l_.head_dim * 4), x = value(l_.width), h = value(l_.width);
    const WireRef qs = value(q), ks = value(k), vs = value(k), mix = value(q);
    WireKv kv{};
    kv.head_stride = l_.rows * l_.head_dim * (l_.half != 0 ? 2 : 4), kv.sequence_stride = kv.head_stride * l_.kv_heads;
    kv.keys = take(kv.sequence_stride), kv.values = take(kv.sequence_stride);
    kv.sequences = 1, kv.positions = l_.rows, kv.heads = l_.kv_heads, kv.head_dim = l_.head_dim, kv.half = l_.half;
    kv.trial = l_.trial ? take(2 * l_.rows * k * 4) : kNone;

    WireOp* op = &add(WIRE_RMS_NORM, l_.width);
    op->in[0] = x, op->out[0] = h, op->weight[0] = vector(l_.width), op->parameter = 1e-5f;
    op = &add(WIRE_MATMUL, l_.width);
    op->in[0] = h, op->out[0] = qs, op->out[1] = ks, op->out[2] = vs;
    op->weight[0] = matrix(l_.width, q), op->weight[1] = matrix(l_.width, k), op->weight[2] = matrix(l_.width, k);
    add(WIRE_ADD_BIAS, q).in[0] = qs, ops_.back().weight[0] = vector(q);
    op = &add(WIRE_HEAD_NORM, 0);
    op->in[0] = ks, op->heads = static_cast<uint16_t>(l_.kv_heads), op->head_dim = static_cast<uint16_t>(l_.head_dim);
    op->weight[0] = vector(l_.head_dim), op->parameter = 1e-5f;
    op = &add(WIRE_ROPE, q);
    op->in[0] = qs, op->heads = static_cast<uint16_t>(l_.heads), op->table = table;
    op->head_dim = op->rotary = static_cast<uint16_t>(l_.head_dim);
    op = &add(WIRE_STORE_KV, k);
    op->in[0] = ks, op->in[1] = vs, op->kv = kv, op->index = index, op->spans = list;
    op->span_count = static_cast<uint32_t>(spans.size());
    op = &add(WIRE_ATTENTION, 0);
    op->in[0] = qs, op->out[0] = mix, op->kv = kv, op->spans = list,
    op->span_count = static_cast<uint32_t>(spans.size());
    op->heads = static_cast<uint16_t>(l_.heads), op->head_dim = static_cast<uint16_t>(l_.head_dim);
    op->parameter = 0.1f;
    op->index = put(ranges.data(), ranges.size() * sizeof(WireKeys));
    if (l_.trial) op->trial_index = index;
    op = &add(WIRE_MATMUL, q);
    op->in[0] = mix, op->out[0] = h, op->weight[0] = matrix(q, l_.width);
    op = &add(WIRE_ADD, l_.width);
    op->in[0] = x, op->in[1] = h;
    const WireRef gate = value(l_.ffn), up = value(l_.ffn);
    op = &add(WIRE_MATMUL, l_.width);
    op->in[0] = x, op->out[0] = gate, op->out[1] = up, op->weight[0] = matrix(l_.width, l_.ffn),
    op->weight[1] = op->weight[0];
    WireRef flags = kNone;
    if (l_.divided) {
      const uint32_t own = l_.ffn / 2;
      op->weight[0].outputs = own, op->pitch[0] = l_.ffn;
      WireOp show = *op;
      show.kind = WIRE_SHOW, show.out[0] = value(l_.width), show.out[1] = kNone;
      show.weight[0] = show.weight[1] = {}, show.pitch[0] = 0;
      ops_.insert(ops_.end() - 1, show);
      op = &add(WIRE_JOIN, own);
      op->in[0] = value(own), op->out[0] = {gate.buffer, gate.offset + own * 4}, op->pitch[0] = l_.ffn;
      WireFlags words{};
      words.joined = WIRE_DONE(kSequence, WIRE_MAX_OPS);
      flags = put(&words, sizeof words);
    }
    op = &add(WIRE_SWIGLU, l_.ffn);
    op->in[0] = gate, op->in[1] = up, op->out[0] = gate;
    const WireRef some = value(l_.width);
    op = &add(WIRE_SELECT_ROWS, l_.width);
    op->in[0] = x, op->out[0] = some, op->source_rows = l_.rows, op->index = index;
    op = &add(WIRE_GUIDE, l_.width);
    op->rows = l_.rows / 2, op->source_rows = 2 * op->rows, op->in[0] = some, op->out[0] = h;
    std::vector<WireGuide> guides;
    for (uint32_t r = 0; r < op->rows; ++r) guides.push_back({r, r % 2 != 0 ? WIRE_NO_ROW : op->rows + r, 1.5f});
    op->index = put(guides.data(), guides.size() * sizeof(WireGuide));
    op = &add(WIRE_HEAD, l_.width);
    op->rows = l_.rows / 2, op->in[0] = h, op->weight[0] = matrix(l_.width, 40);
    op->predictions = take(op->rows * sizeof(WirePrediction)), op->logits = take(op->rows * 40 * 4);
    op->out_of_softmax = op->never_sampled = index, op->out_of_softmax_count = op->never_sampled_count = 2;

    const WireRange all{{kShared, 0}, used_, WIRE_HOST_WROTE | WIRE_HOST_READS};
    WireBatch head{};
    head.magic = WIRE_MAGIC, head.version = WIRE_VERSION, head.sequence = kSequence;
    head.op_count = static_cast<uint32_t>(ops_.size()), head.range_count = 1;
    head.scratch_bytes = kScratchBytes, head.scratch = {kScratch, 0}, head.flags = flags;
    std::vector<uint8_t> out;
    const auto append = [&](const void* data, size_t bytes) {
      out.insert(out.end(), static_cast<const uint8_t*>(data), static_cast<const uint8_t*>(data) + bytes);
    };
    append(&used_, 4), append(memory_.data(), used_), append(&head, sizeof head);
    append(ops_.data(), ops_.size() * sizeof(WireOp)), append(&all, sizeof all);
    return out;
  }

 private:
  WireRef take(size_t bytes) {
    const WireRef ref{kShared, used_};
    used_ += static_cast<uint32_t>((bytes + 127) / 128 * 128);
    return ref;
  }
  WireRef put(const void* data, size_t bytes) {
    const WireRef ref = take(bytes);
    std::memcpy(memory_.data() + ref.offset, data, bytes);
    return ref;
  }
  WireRef value(uint32_t columns) { return take(size_t{l_.rows} * columns * 4); }
  WireWeight vector(uint32_t n) { return {take(n * 4), WIRE_STORED_F32, n, 1}; }
  WireWeight matrix(uint32_t inputs, uint32_t outputs) {
    const uint32_t vectors = l_.layout == WIRE_TILE_Q4_0 ? 4 : l_.layout == WIRE_TILE_Q8_0 ? 8 : 16;
    const uint32_t bytes = l_.layout == WIRE_STORED_F32
                               ? inputs * outputs * 4
                               : (outputs + 31) / 32 * 128 * (1 + (inputs / 32 + 1) / 2 * (2 * vectors + 1));
    return {take(bytes), l_.layout, inputs, outputs};
  }
  WireOp& add(WireKind kind, uint32_t columns) {
    WireOp& op = ops_.emplace_back();
    op.kind = static_cast<uint16_t>(kind), op.rows = l_.rows, op.columns = columns;
    for (WireRef* ref :
         {&op.in[0], &op.in[1], &op.out[0], &op.out[1], &op.out[2], &op.index, &op.trial_index, &op.table, &op.spans,
          &op.kv.keys, &op.kv.values, &op.kv.trial, &op.predictions, &op.logits, &op.out_of_softmax, &op.never_sampled})
      *ref = kNone;
    return op;
  }

  Layer l_;
  std::vector<uint8_t> memory_;
  uint32_t used_ = 0;
  std::vector<WireOp> ops_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] == '-') {
    std::fputs("usage: fuzz_hexagon_seeds FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  const std::pair<const char*, Layer> layers[] = {
      {"q4", {4, 32, 2, 1, 64, 32, WIRE_TILE_Q4_0, 1, 0, false}},
      {"q8-blocks", {5, 32, 1, 1, 32, 32, WIRE_TILE_Q8_0, 1, 2, false}},
      {"f16", {3, 32, 1, 1, 32, 32, WIRE_TILE_F16, 1, 0, true}},
      {"q4-divided", {4, 32, 1, 1, 32, 64, WIRE_TILE_Q4_0, 1, 0, false, true}},
      {"f32-trial", {6, 16, 2, 2, 8, 24, WIRE_STORED_F32, 0, 0, true}}};
  for (const auto& [name, layer] : layers) {
    auto bytes = Builder(layer).batch();
    for (const char* how : {"alone", "scribbled"}) {
      std::ofstream(folder / (std::string(name) + "-" + how), std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      bytes[3] |= 0x80;
    }
  }
  return 0;
}
