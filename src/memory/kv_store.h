// Keys and values of every canvas position, per layer, with what is known of each position: absent until
// first written, then a version that says from which forward it was computed. Sequences are independent
// copies (guidance has two). Layout: [layer][sequence][kv head][position][head_dim], keys and values apart,
// so one head's keys are contiguous. Layers may differ in their heads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/kv_heads.h"
#include "base/pages.h"
#include "tensor/dtype.h"

namespace llada {

struct KvShape {
  int layers = 0, sequences = 1, kv_heads = 0, head_dim = 0;
  int64_t positions = 0;
  DType type = DType::F32;             // F32 or F16
  std::vector<KvHeads> by_layer = {};  // where layers differ; otherwise all have kv_heads of head_dim

  KvHeads of(int layer) const {
    return by_layer.empty() ? KvHeads{kv_heads, head_dim} : by_layer[static_cast<size_t>(layer)];
  }
  // Heads of all layers and sequences.
  int64_t heads() const;
};

// Positions [first, last).
struct KvRows {
  int64_t first = 0, last = 0;
};

// Who has rows of a store where its memory does not show them: a processor whose cache nobody looks into.
class KvKeeper {
 public:
  virtual ~KvKeeper() = default;
  // Of every layer and sequence: from now on the memory shows them, and may be written.
  virtual void bring(std::span<const KvRows> rows) = 0;
};

class KvStore {
 public:
  // Bytes of keys and values that create() asks for; digests come on top where a device makes them.
  static double needed_bytes(const KvShape& shape);

  // Fails when the memory is not there. Contents start absent. allocate: where the memory comes from, for a
  // device whose units must all see it; empty: this process.
  static Result<KvStore> create(const KvShape& shape, const Allocator& allocate = {});

  // A store of more positions with what this one holds; of digests nothing.
  Result<KvStore> grown(int64_t positions, const Allocator& allocate = {}) const;

  const KvShape& shape() const { return shape_; }
  int64_t bytes() const { return 2 * half_bytes_ + digest_bytes_; }
  std::byte* memory() const { return data_.get(); }  // of keys, then of values, each half_bytes()
  int64_t half_bytes() const { return half_bytes_; }
  int64_t head_bytes(int layer = 0) const {  // from one head to the next
    return (shape_.positions * row_bytes(layer) + 63) / 64 * 64;
  }
  int64_t row_bytes(int layer = 0) const {
    return int64_t{shape_.of(layer).head_dim} * (shape_.type == DType::F16 ? 2 : 4);
  }

  std::byte* keys(int layer, int sequence, int head) { return data_.get() + offset(layer, sequence, head); }
  std::byte* values(int layer, int sequence, int head) {
    return data_.get() + half_bytes_ + offset(layer, sequence, head);
  }

  static constexpr int64_t kAbsent = -1;
  // The forward from which a position's K/V was last computed, or kAbsent.
  int64_t version(int sequence, int64_t position) const { return versions_[index(sequence, position)]; }
  void set_version(int sequence, int64_t position, int64_t forward) { versions_[index(sequence, position)] = forward; }
  void clear();  // everything absent again

  // Digests: a device's own narrower form of a head's keys and values (kernels.h), kept beside them once it asks.
  // `maker` stands for the form: another one's are lost. Not where layers differ. Fails when the memory is not there.
  Status reserve_digests(const void* maker, int64_t head_bytes);
  void drop_digests();  // there are none any more
  std::byte* digest(int layer, int sequence, int head) {
    return digests_.get() + head_index(layer, sequence, head) * digest_head_bytes_;
  }
  // Whether all heads' digests of a position are those of its keys and values; never without digests. Whoever writes
  // these calls changed(); different positions may be written by different threads.
  bool digested(int layer, int sequence, int64_t position) const {
    return !digested_.empty() && digested_[layer_index(layer, sequence, position)] != 0;
  }
  void set_digested(int layer, int sequence, int64_t position) {
    if (!digested_.empty()) digested_[layer_index(layer, sequence, position)] = 1;
  }

  // A copy that a device keeps in its own memory: which positions of it are as they are here. `copy` stands for it: of
  // another one nothing is known. changed() as for digests.
  void track_copy(const void* copy);
  void forget_copy() { track_copy(nullptr); }
  bool copied(int layer, int sequence, int64_t position) const {
    return !copied_.empty() && copied_[layer_index(layer, sequence, position)] != 0;
  }
  void set_copied(int layer, int sequence, int64_t position) {
    if (!copied_.empty()) copied_[layer_index(layer, sequence, position)] = 1;
  }

  void changed(int layer, int sequence, int64_t position) {
    const size_t i = layer_index(layer, sequence, position);
    if (!digested_.empty()) digested_[i] = 0;
    if (!copied_.empty()) copied_[i] = 0;
    if (!written_.empty()) written_[static_cast<size_t>(position)] = 1;
  }

  // A keeper is asked for its rows by all functions here; whoever goes to the memory itself asks by bring() before.
  void keep_with(std::shared_ptr<KvKeeper> keeper);
  const std::shared_ptr<KvKeeper>& keeper() const { return keeper_; }
  void bring() const;  // all rows
  // The keeper has written the position, in place of whoever called changed().
  void set_away(int64_t position) {
    written_[static_cast<size_t>(position)] = 0, away_[static_cast<size_t>(position)] = 1;
  }
  // What others than the keeper have written since this was asked last; at first nothing.
  std::vector<KvRows> take_written();

  // Keys and values of some positions in every layer and sequence, and their versions, to be put back later.
  struct Saved {
    std::vector<int32_t> positions;
    std::vector<std::byte> data;
    std::vector<int64_t> versions;
  };
  Saved save(std::span<const int32_t> positions) const;
  void put_back(const Saved& saved);

  // Keys and values of positions [begin, begin + count) of one sequence in every layer, as a copy of sequence_bytes():
  // keys, then values, each [layer][kv head][position][head_dim]. What is written counts as computed by forward 0.
  int64_t sequence_bytes(int64_t count) const;
  void read(int sequence, int64_t begin, int64_t count, std::byte* to) const;
  void write(int sequence, int64_t begin, int64_t count, const std::byte* from);

 private:
  KvStore() = default;
  int64_t head_index(int layer, int sequence, int head) const {
    return (int64_t{layer} * shape_.sequences + sequence) * shape_.kv_heads + head;
  }
  int64_t offset(int layer, int sequence, int head) const {
    return layer_begin_[static_cast<size_t>(layer)] +
           (int64_t{sequence} * shape_.of(layer).heads + head) * head_bytes(layer);
  }
  // Calls visit(layer, bytes from the begin of a half) for every head.
  template <class Visit>
  void for_each_head(Visit visit) const {
    for (int layer = 0; layer < shape_.layers; ++layer)
      for (int sequence = 0; sequence < shape_.sequences; ++sequence)
        for (int head = 0; head < shape_.of(layer).heads; ++head) visit(layer, offset(layer, sequence, head));
  }
  size_t layer_index(int layer, int sequence, int64_t position) const {
    return static_cast<size_t>((int64_t{layer} * shape_.sequences + sequence) * shape_.positions + position);
  }
  size_t index(int sequence, int64_t position) const {
    return static_cast<size_t>(sequence * shape_.positions + position);
  }

  KvShape shape_;
  std::vector<int64_t> layer_begin_;  // in each half
  int64_t half_bytes_ = 0;
  SharedBytes data_;
  const void* digest_maker_ = nullptr;
  int64_t digest_head_bytes_ = 0, digest_bytes_ = 0;
  AlignedBytes digests_;
  std::vector<uint8_t> digested_;  // layer x sequence x position; empty: there are no digests
  template <class Positions>
  void bring(const Positions& positions) const;
  std::shared_ptr<KvKeeper> keeper_;
  mutable std::vector<uint8_t> away_;  // by position: only the keeper shows it; empty: there is no keeper
  std::vector<uint8_t> written_;       // by position
  const void* copy_ = nullptr;
  std::vector<uint8_t> copied_;  // layer x sequence x position; empty: there is no copy
  std::vector<int64_t> versions_;
};

}  // namespace llada
