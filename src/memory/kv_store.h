// Keys and values of every canvas position, per layer. A position is absent until first written; then its version is
// the forward that computed it. Sequences are independent copies (guidance has two). Layout: [layer][sequence][kv
// head][position][head_dim], keys and values apart, so one head's keys are contiguous. Layers may differ in their
// heads.
//
// A row may exist several times: in the store's memory, in a device's copy, in a DSP's cache that is not coherent with
// memory. Each place is a viewer. Its KvView says of each row whether it is fresh, that is, as it was written last.
// Invariants:
//   a write makes the row stale for every viewer but the one that wrote it, for which it was fresh (wrote());
//   a viewer renews a row from memory that is fresh, and calls renewed();
//   no viewer reads a row that is stale for it. Digests and copies are renewed before, a DSP gets the rows of
//   take_stale(), and readers of the memory itself call flush() before.
#pragma once
#include <algorithm>
#include <array>
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

enum class KvViewer : uint8_t {
  memory,   // the store's own bytes, which lack rows that are in a DSP's cache
  digests,  // the cpu device's narrower form of a head's keys and values, beside the store
  gpu,      // a copy of the store in a GPU's memory
  dsp,      // a DSP, whose cache may hold rows as they were before others wrote them
};
inline constexpr size_t kKvViewers = 4;

// Which rows are fresh for one viewer. Without a viewer none is.
class KvView {
 public:
  KvView() = default;
  // owner: whose view it is, for comparison only. whole: a position's rows of all layers and sequences go together.
  KvView(const void* owner, const KvShape& shape, bool whole, bool fresh)
      : owner_(owner),
        of_layer_(whole ? 0 : shape.sequences * shape.positions),
        of_sequence_(whole ? 0 : shape.positions),
        fresh_(static_cast<size_t>(whole ? shape.positions : shape.layers * of_layer_), fresh ? 1 : 0) {}

  const void* owner() const { return owner_; }
  bool fresh(int layer, int sequence, int64_t position) const {
    return !fresh_.empty() && fresh_[index(layer, sequence, position)] != 0;
  }
  void set(int layer, int sequence, int64_t position, bool fresh) {
    if (!fresh_.empty()) fresh_[index(layer, sequence, position)] = fresh ? 1 : 0;
  }
  void set_all_stale() { std::ranges::fill(fresh_, uint8_t{0}); }
  // The stale rows among these positions, which are fresh from now on. For a view of whole positions.
  template <class Positions>
  std::vector<KvRows> take_stale(const Positions& positions) {
    std::vector<int64_t> stale;
    for (const auto p : positions)
      if (uint8_t& is_fresh = fresh_[static_cast<size_t>(p)]; is_fresh == 0) is_fresh = 1, stale.push_back(p);
    std::ranges::sort(stale);
    std::vector<KvRows> rows;
    for (const int64_t p : stale) {
      if (rows.empty() || rows.back().last != p) rows.push_back({p, p});
      rows.back().last = p + 1;
    }
    return rows;
  }

 private:
  size_t index(int layer, int sequence, int64_t position) const {
    return static_cast<size_t>(layer * of_layer_ + sequence * of_sequence_ + position);
  }

  const void* owner_ = nullptr;
  int64_t of_layer_ = 0, of_sequence_ = 0;  // strides
  std::vector<uint8_t> fresh_;              // empty: no viewer
};

// Flushes rows from a DSP's cache to the memory.
class KvKeeper {
 public:
  virtual ~KvKeeper() = default;
  // Returns once the rows of every layer and sequence are in memory, which may be written from then on.
  virtual void flush(std::span<const KvRows> rows) = 0;
};

class KvStore {
 public:
  // Bytes of keys and values that create() asks for; digests come on top where a device makes them.
  static double needed_bytes(const KvShape& shape);

  // Fails when there is no memory. All positions start absent. allocate: for a device whose units must all see the
  // memory; empty: memory of this process.
  static Result<KvStore> create(const KvShape& shape, const Allocator& allocate = {});

  // A store of more positions with the contents of this one but for digests.
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

  bool fresh(KvViewer viewer, int layer, int sequence, int64_t position) const {
    return view(viewer).fresh(layer, sequence, position);
  }
  // Different positions may be written, and renewed, by different threads.
  void wrote(KvViewer by, int layer, int sequence, int64_t position) {
    for (size_t i = 0; i < kKvViewers; ++i)
      if (i != static_cast<size_t>(by)) views_[i].set(layer, sequence, position, false);
  }
  void renewed(KvViewer viewer, int layer, int sequence, int64_t position) {
    view(viewer).set(layer, sequence, position, true);
  }
  // Names the viewer's owner. Where it was the same before, fresh rows stay fresh; otherwise all are stale. Null: none.
  void look(KvViewer viewer, const void* owner) {
    if (view(viewer).owner() == owner) return;
    view(viewer) = owner != nullptr ? KvView(owner, shape_, false, false) : KvView();
  }

  // Memory for digests. maker: names their form; digests of another form are dropped. Not where layers differ. Fails
  // when there is no memory.
  Status reserve_digests(const void* maker, int64_t head_bytes);
  std::byte* digest(int layer, int sequence, int head) {
    return digests_.get() + head_index(layer, sequence, head) * digest_head_bytes_;
  }

  // From now on a DSP is a viewer, by whole positions. All functions here that read memory ask its keeper for rows.
  void keep_with(std::shared_ptr<KvKeeper> keeper);
  const std::shared_ptr<KvKeeper>& keeper() const { return keeper_; }
  void flush() const;  // all rows
  // The rows that other viewers than the DSP have written since the last call, or since keep_with().
  std::vector<KvRows> take_stale();

  // Keys and values of some positions in every layer and sequence, and their versions, to be put back later.
  struct Saved {
    std::vector<int32_t> positions;
    std::vector<std::byte> data;
    std::vector<int64_t> versions;
  };
  Saved save(std::span<const int32_t> positions) const;
  void put_back(const Saved& saved);

  // Keys and values of positions [begin, begin + count) of one sequence in every layer, as a copy of sequence_bytes():
  // keys, then values, each [layer][kv head][position][head_dim]. write() sets the version 0.
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
  KvView& view(KvViewer viewer) const { return views_[static_cast<size_t>(viewer)]; }
  size_t index(int sequence, int64_t position) const {
    return static_cast<size_t>(sequence * shape_.positions + position);
  }

  KvShape shape_;
  std::vector<int64_t> layer_begin_;  // in each half
  int64_t half_bytes_ = 0;
  SharedBytes data_;
  int64_t digest_head_bytes_ = 0, digest_bytes_ = 0;
  AlignedBytes digests_;
  template <class Positions>
  void flush(const Positions& positions) const;
  std::shared_ptr<KvKeeper> keeper_;
  mutable std::array<KvView, kKvViewers> views_;
  std::vector<int64_t> versions_;
};

}  // namespace llada
