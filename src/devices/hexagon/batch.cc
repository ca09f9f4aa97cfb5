#include "devices/hexagon/batch.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "devices/hexagon/divided.h"
#include "devices/op_table.h"

namespace llada::hexagon {

Status Staging::restart(const std::shared_ptr<Library>& library) {
  constexpr int64_t kFirst = 1 << 19;
  if (buffer_ == nullptr || !fits()) {
    const int64_t wanted = std::max(kFirst, used_ + used_ / 4);
    buffer_ = nullptr;
    buffer_ = Buffer::allocate(library, wanted);
    if (buffer_ == nullptr)
      return failed("hexagon: {} bytes of shared memory for a step could not be allocated", wanted);
  }
  used_ = 0;
  return {};
}

uint32_t Staging::take(int64_t bytes) {
  const int64_t at = used_;
  used_ += (std::max<int64_t>(bytes, 1) + 127) / 128 * 128;
  return static_cast<uint32_t>(std::min<int64_t>(at, kBufferLimit));
}

namespace {

constexpr WireRef kNone = kNoRef;

// Ops of a batch from ops of the program.
class Builder {
  using Append = void (Builder::*)(WireOp&, const Op&);

 public:
  static constexpr bool has(OpKind kind) { return kAppend[kind] != nullptr; }

  Builder(const BatchSources& sources, Stagings& staging)
      : s_(sources), program_(*sources.run->program), all_(staging), staging_(staging.in), out_(staging.out) {}

  Result<Batch> build(size_t first, size_t last) {
    LLADA_TRY(arena_, s_.number(s_.arena));
    LLADA_TRY(staged_, s_.number(staging_.buffer()));
    LLADA_TRY(out_number_, s_.number(out_.buffer()));
    LLADA_TRY(const uint32_t scratch, s_.number(s_.scratch));
    if (s_.host_tiles) {
      LLADA_TRY(shown_, s_.number(all_.shown.buffer()));
      LLADA_TRY(parts_, s_.number(all_.parts.buffer()));
    }
    for (const auto& store : s_.kv) {
      LLADA_TRY(const uint32_t number, s_.number(store));
      kv_.push_back(number);
    }
    find_groups();
    for (const ValueId id : s_.in) {
      const std::byte* const from = s_.host_arena->data() + s_.plan->offsets[static_cast<size_t>(id)];
      append_copy(id, {staged_, staging_.put(std::span(from, static_cast<size_t>(bytes_of(id))))}, value(id));
    }
    for (size_t i = first; i < last; ++i) {
      LLADA_TRY_STATUS(translate(program_.ops[i]));
      batch_.ops_at.push_back(static_cast<uint32_t>(ops_.size()));
      for (const uint32_t number : std::exchange(passing_now_, {}))
        passing_[number].last = static_cast<uint32_t>(ops_.size()) - 1;
    }
    for (const ValueId id : s_.out) {
      batch_.out.push_back(out_.take(bytes_of(id)));
      append_copy(id, value(id), {out_number_, batch_.out.back()});
    }
    if (passing_.size() > WIRE_MAX_PASSING)
      return failed("hexagon: found {} passing buffers, needed {} at most", passing_.size(), WIRE_MAX_PASSING);
    WireRef flags = kNone;
    all_.shown.take(shown_bytes_), all_.parts.take(parts_bytes_);
    if (!passing_.empty() || !batch_.parts.empty()) {
      LLADA_TRY(flags.buffer, s_.number(s_.flags));
    }
    const std::vector<WireRange> ranges = this->ranges();
    WireBatch head{WIRE_MAGIC,
                   WIRE_VERSION,
                   s_.sequence,
                   static_cast<uint32_t>(ops_.size()),
                   static_cast<uint32_t>(ranges.size()),
                   s_.threads,
                   static_cast<uint32_t>(s_.scratch->bytes()),
                   {scratch, 0},
                   0,
                   static_cast<uint32_t>(passing_.size()),
                   flags,
                   s_.units,
                   0};
    const auto append = [&](const void* data, size_t bytes) {
      const auto* from = static_cast<const std::byte*>(data);
      batch_.bytes.insert(batch_.bytes.end(), from, from + bytes);
    };
    append(&head, sizeof head);
    append(ops_.data(), ops_.size() * sizeof(WireOp));
    append(ranges.data(), ranges.size() * sizeof(WireRange));
    for (const auto& [number, passing] : passing_) append(&passing, sizeof passing);
    return std::move(batch_);
  }

 private:
  uint32_t columns(ValueId id) const { return static_cast<uint32_t>(program_.values[static_cast<size_t>(id)].columns); }
  WireRef value(ValueId id) const {
    return id == kNoValue ? kNone : WireRef{arena_, static_cast<uint32_t>(s_.plan->offsets[static_cast<size_t>(id)])};
  }
  template <class T>
  WireRef staged(const std::vector<T>& data) {
    return {staged_, staging_.put(std::span<const T>(data))};
  }
  int64_t bytes_of(ValueId id) const {
    return program_.shape.count(program_.values[static_cast<size_t>(id)].rows) * int64_t{columns(id)} * 4;
  }
  // Every row of a value.
  void append_copy(ValueId id, WireRef from, WireRef to) {
    const auto rows = static_cast<uint32_t>(program_.shape.count(program_.values[static_cast<size_t>(id)].rows));
    WireOp w = empty_op();
    w.kind = WIRE_SELECT_ROWS, w.layer = -1;
    w.rows = w.source_rows = rows, w.columns = columns(id);
    w.in[0] = from, w.out[0] = to;
    const auto [known, fresh] = counts_.try_emplace(rows, kNone);
    if (fresh) {
      std::vector<int32_t> each(rows);
      std::iota(each.begin(), each.end(), 0);
      known->second = staged(each);
    }
    w.index = known->second;
    ops_.push_back(w);
  }
  // Where the rows' keys and values lie; the same for every op.
  WireRef kept_at() {
    if (!kept_at_) kept_at_ = staged(s_.run->inputs->kept_at());
    return *kept_at_;
  }

  Result<WireWeight> weight(WeightId id) {
    const WeightInfo& info = s_.infos[static_cast<size_t>(id)];
    const PlacedWeight place = s_.weight(id);
    LLADA_CHECK(place.buffer != nullptr);
    LLADA_TRY(const uint32_t number, s_.number(place.buffer));
    if (s_.passes && s_.passes(*place.buffer)) {
      passing_[number] = {number, place.buffer->fd(), static_cast<uint32_t>(place.buffer->bytes()), 0};
      passing_now_.push_back(number);
    }
    return WireWeight{{number, place.offset},
                      static_cast<uint32_t>(s_.layouts[static_cast<size_t>(id)]),
                      static_cast<uint32_t>(info.dims[0]),
                      static_cast<uint32_t>(info.dims[1])};
  }

  // Rows of one stream: spans [first, last) of the step.
  struct Group {
    size_t first, last;
    int32_t stream;
    std::array<uint32_t, 2> begin, rows;  // of all and of wanted rows
    WireRef trial;                        // room for the keys and values of its trials
    std::array<std::pair<WireRef, uint32_t>, 2> spans;
  };
  void find_groups() {
    const auto& list = s_.rows->spans;
    for (size_t i = 0; i < list[0].size(); ++i) {
      if (groups_.empty() || groups_.back().stream != list[0][i].stream)
        groups_.push_back({i, i, list[0][i].stream, {}, {}, kNone, {std::pair{kNone, 0u}, {kNone, 0u}}});
      Group& g = groups_.back();
      for (size_t set = 0; set < 2; ++set) {
        if (g.last == g.first) g.begin[set] = static_cast<uint32_t>(list[set][i].begin);
        g.rows[set] += static_cast<uint32_t>(list[set][i].count);
      }
      g.last = i + 1;
    }
  }
  bool any_trial(const Group& g) const {
    return std::any_of(s_.rows->spans[0].begin() + static_cast<std::ptrdiff_t>(g.first),
                       s_.rows->spans[0].begin() + static_cast<std::ptrdiff_t>(g.last),
                       [](const RowSpan& span) { return span.trial; });
  }

  void spans(WireOp& op, Group& g, size_t set) {
    auto& [ref, count] = g.spans[set];
    if (ref.buffer == WIRE_NO_BUFFER) {
      std::vector<WireSpan> out;
      for (size_t i = g.first; i < g.last; ++i) {
        const RowSpan &some = s_.rows->spans[set][i], &all = s_.rows->spans[0][i];
        if (some.count > 0)
          out.push_back({static_cast<uint32_t>(some.begin) - g.begin[set], static_cast<uint32_t>(some.count),
                         static_cast<uint32_t>(some.sequence), some.trial ? 1u : 0u,
                         static_cast<uint32_t>(all.begin) - g.begin[0], static_cast<uint32_t>(all.count)});
      }
      ref = staged(out);
      count = static_cast<uint32_t>(out.size());
    }
    op.spans = ref;
    op.span_count = count;
  }
  WireRef key_ranges(const RowSets::Reads& reads, size_t set) {
    const auto [known, fresh] = key_ranges_.try_emplace({&reads, set}, kNone);
    if (fresh) known->second = staged(reads.ranges[set]);
    return known->second;
  }
  static WireRef behind(WireRef ref, uint64_t bytes) { return {ref.buffer, ref.offset + static_cast<uint32_t>(bytes)}; }

  KvStore& store_of(const Group& g) const { return *s_.run->inputs->streams[static_cast<size_t>(g.stream)].kv; }

  void kv(WireOp& wire, const Op& op, Group& g) {
    KvStore& store = store_of(g);
    const KvShape& shape = store.shape();
    const uint32_t number = kv_[static_cast<size_t>(g.stream)];
    const auto offset = [&](const std::byte* at) { return static_cast<uint32_t>(at - store.memory()); };
    const auto head_bytes =
        static_cast<uint32_t>(shape.kv_heads > 1 ? store.keys(0, 0, 1) - store.keys(0, 0, 0)
                                                 : store.half_bytes() / shape.layers / shape.sequences);
    wire.kv = {.keys = {number, offset(store.keys(op.layer, 0, 0))},
               .values = {number, offset(store.values(op.layer, 0, 0))},
               .sequence_stride = head_bytes * static_cast<uint32_t>(shape.kv_heads),
               .head_stride = head_bytes,
               .sequences = static_cast<uint32_t>(shape.sequences),
               .positions = static_cast<uint32_t>(shape.positions),
               .heads = static_cast<uint32_t>(shape.kv_heads),
               .head_dim = static_cast<uint32_t>(shape.head_dim),
               .half = shape.type == DType::F16 ? 1u : 0u,
               .trial = kNone};
    if (!any_trial(g)) return;
    if (g.trial.buffer == WIRE_NO_BUFFER)
      g.trial = {out_number_, out_.take(int64_t{g.rows[0]} * shape.kv_heads * 2 * shape.head_dim *
                                        (shape.type == DType::F16 ? 2 : 4))};
    wire.kv.trial = g.trial;
  }

  // Appends the wire ops of the op.
  Status translate(const Op& op) {
    WireOp w = empty_op();
    w.kind = kWireKinds[op.kind];
    w.layer = op.layer;
    w.rows = static_cast<uint32_t>(program_.shape.count(op.rows));
    if (w.rows == 0) return {};
    if (op.in[0] != kNoValue) w.columns = columns(op.in[0]);
    w.in[0] = value(op.in[0]), w.in[1] = value(op.in[1]);
    for (size_t i = 0; i < 3; ++i) {
      w.out[i] = value(op.out[i]);
      if (op.weight[i] == kNoWeight) continue;
      LLADA_TRY(w.weight[i], weight(op.weight[i]));
      batch_.macs += static_cast<double>(w.rows) * w.weight[i].inputs * w.weight[i].outputs;
    }
    const Append append = kAppend[op.kind];
    LLADA_CHECK(append != nullptr);
    (this->*append)(w, op);
    return {};
  }

  void elementwise(WireOp& w, const Op&) { ops_.push_back(w); }
  void matmul(WireOp& w, const Op& op) {
    HostTiles tiles{};
    for (size_t i = 0; s_.host_tiles && i < tiles.size(); ++i)
      if (op.weight[i] != kNoWeight) tiles[i] = static_cast<uint32_t>(s_.host_tiles(op.weight[i]));
    if (tiles == HostTiles{}) return ops_.push_back(w);
    DividedProduct divided = divide_product(w, tiles, shown_, parts_);
    shown_bytes_ = std::max(shown_bytes_, divided.shown_bytes);
    parts_bytes_ = std::max(parts_bytes_, divided.parts_bytes);
    ops_.push_back(divided.show);
    divided.part.shown = static_cast<uint32_t>(ops_.size());
    ops_.push_back(w);
    ops_.insert(ops_.end(), divided.joins.begin(), divided.joins.end());
    divided.part.joined = static_cast<uint32_t>(ops_.size());
    for (size_t i = 0; i < tiles.size(); ++i)
      if (tiles[i] > 0) divided.part.weights.push_back(s_.weight(op.weight[i]).buffer);
    batch_.parts.push_back(std::move(divided.part));
  }

  void select_rows(WireOp& w, const Op&) {
    w.source_rows = static_cast<uint32_t>(program_.shape.rows);
    w.index = staged(s_.run->inputs->wanted);
    ops_.push_back(w);
  }

  void rms_norm(WireOp& w, const Op& op) {
    w.parameter = program_.norm(op).epsilon;
    ops_.push_back(w);
  }

  void head_norm(WireOp& w, const Op& op) {
    w.columns = 0;
    w.heads = static_cast<uint16_t>(op.heads), w.head_dim = static_cast<uint16_t>(op.head_dim);
    rms_norm(w, op);
  }

  void guide(WireOp& w, const Op&) {
    std::vector<WireGuide> guides;
    for (const PredictedRow& p : s_.run->inputs->predictions)
      guides.push_back({static_cast<uint32_t>(p.conditional),
                        p.unconditional < 0 ? WIRE_NO_ROW : static_cast<uint32_t>(p.unconditional),
                        static_cast<float>(p.scale + 1.0)});
    w.source_rows = static_cast<uint32_t>(program_.shape.wanted);
    w.index = staged(guides);
    ops_.push_back(w);
  }

  void kv_op(WireOp& w, const Op& op) {
    for (Group& g : groups_) of_group(w, op, g);
  }

  void rope(WireOp& w, const Op& op) {
    w.heads = static_cast<uint16_t>(op.heads), w.head_dim = static_cast<uint16_t>(op.head_dim);
    const Rope& rope = program_.rope(op);
    w.rotary = static_cast<uint16_t>(rope.rotary), w.rope_adjacent = rope.adjacent ? 1 : 0;
    // One for the queries and keys of all layers that turn alike.
    const auto [known, fresh] = tables_.try_emplace({op.rows, op.attributes}, kNone);
    if (fresh) {
      const int64_t positions = int64_t{std::ranges::max(s_.rows->positions[0])} + 1;
      const RopeTable& angles = s_.rope->of(rope, positions);
      std::vector<float> table;
      for (const int32_t p : s_.rows->positions[static_cast<size_t>(op.rows)]) {
        table.insert(table.end(), angles.cos(p), angles.cos(p) + rope.rotary / 2);
        table.insert(table.end(), angles.sin(p), angles.sin(p) + rope.rotary / 2);
      }
      known->second = staged(table);
    }
    w.table = known->second;
    ops_.push_back(w);
  }

  // The rows of one stream of a store_kv or an attention.
  void of_group(WireOp w, const Op& op, Group& g) {
    const auto set = static_cast<size_t>(op.rows);
    w.rows = g.rows[set];
    if (w.rows == 0) return;
    const uint64_t begin = g.begin[set];
    for (size_t i = 0; i < 2; ++i)
      if (op.in[i] != kNoValue) w.in[i] = behind(w.in[i], begin * columns(op.in[i]) * 4);
    kv(w, op, g);
    spans(w, g, set);
    if (rule_of(op.kind).kv == KvUse::writes) {
      w.index = behind(kept_at(), begin * 4);
    } else {
      w.out[0] = behind(w.out[0], begin * columns(op.out[0]) * 4);
      w.columns = 0;
      const Attention& a = program_.attention(op);
      w.heads = static_cast<uint16_t>(a.heads), w.head_dim = static_cast<uint16_t>(a.head_dim);
      w.parameter = a.scale;
      w.index = behind(key_ranges(s_.rows->of(a), set), begin * sizeof(WireKeys));
      if (any_trial(g)) w.trial_index = behind(kept_at(), uint64_t{g.begin[0]} * 4);
    }
    ops_.push_back(w);
  }

  // One op for neighbouring rows with the same lists of tokens, so for all rows nearly always.
  void head(WireOp& whole, const Op&) {
    const StepInputs& in = *s_.run->inputs;
    const auto stream_of = [&](uint32_t row) -> const Stream& {
      return in.streams[static_cast<size_t>(s_.rows->streams[row])];
    };
    const auto alike = [&](uint32_t a, uint32_t b) {
      const SamplingRule &x = stream_of(a).sampling, &y = stream_of(b).sampling;
      return &x == &y || (x.never_sampled == y.never_sampled && x.out_of_softmax == y.out_of_softmax);
    };
    const uint32_t vocabulary = whole.weight[0].outputs;
    batch_.has_head = true;
    batch_.head_rows = whole.rows;
    batch_.vocabulary = vocabulary;
    // Bytes that no head answers, so that a missing answer is noticed.
    const WireRef predictions = {
        out_number_, out_.put<std::byte>(std::vector(whole.rows * sizeof(WirePrediction), std::byte{0xff}))};
    batch_.predictions = predictions.offset;
    if (std::ranges::any_of(in.streams, [](const Stream& s) {
          return s.keep_logits || s.sampling.temperature > 0 || s.reading.classes != nullptr;
        }))
      batch_.logits = out_.take(int64_t{whole.rows} * vocabulary * 4);
    for (uint32_t first = 0, next; first < whole.rows; first = next) {
      for (next = first + 1; next < whole.rows && alike(first, next);) ++next;
      const SamplingRule& rule = stream_of(first).sampling;
      WireOp w = whole;
      w.rows = next - first;
      w.in[0] = behind(w.in[0], uint64_t{first} * w.columns * 4);
      w.predictions = behind(predictions, uint64_t{first} * sizeof(WirePrediction));
      if (batch_.logits != WIRE_NO_BUFFER)
        w.logits = behind({out_number_, batch_.logits}, uint64_t{first} * vocabulary * 4);
      if (!rule.out_of_softmax.empty()) w.out_of_softmax = staged(rule.out_of_softmax);
      if (!rule.never_sampled.empty()) w.never_sampled = staged(rule.never_sampled);
      w.out_of_softmax_count = static_cast<uint32_t>(rule.out_of_softmax.size());
      w.never_sampled_count = static_cast<uint32_t>(rule.never_sampled.size());
      ops_.push_back(w);
    }
  }

  // Data that one side has written and the other one reads, in this step; all else is the DSP's alone.
  std::vector<WireRange> ranges() const {
    std::vector<WireRange> out;
    const auto add = [&](uint32_t number, int64_t begin, int64_t end, uint32_t use) {
      if (begin < end)
        out.push_back({{number, static_cast<uint32_t>(begin)}, static_cast<uint32_t>(end - begin), use, 1, 0});
    };
    add(staged_, 0, staging_.used(), WIRE_HOST_WROTE);
    const int64_t from = batch_.has_head ? batch_.predictions : 0;
    const int64_t to = from + (batch_.has_head ? batch_.head_rows * int64_t{sizeof(WirePrediction)} : 0);
    add(out_number_, from, to, WIRE_HOST_WROTE | WIRE_HOST_READS);
    add(out_number_, 0, from, WIRE_HOST_READS);
    add(out_number_, to, out_.used(), WIRE_HOST_READS);
    // So many stretches of rows that there is no room for all are one.
    const size_t stretches = (WIRE_MAX_RANGES - out.size()) / 2 / std::max<size_t>(1, s_.written.size());
    for (size_t s = 0; s < s_.written.size(); ++s) {
      std::vector<KvRows> rows = s_.written[s];
      if (rows.size() > stretches) rows = {{rows.front().first, rows.back().last}};
      add_rows(heads_of(*s_.run->inputs->streams[s].kv), kv_[s], rows, WIRE_HOST_WROTE, out);
    }
    return out;
  }

  // Kinds that are not here are the host's: an embedding would take a tenth of the window for a few rows.
  static constexpr OpTable<Append> kAppend{{OpKind::select_rows, &Builder::select_rows},
                                           {OpKind::rms_norm, &Builder::rms_norm},
                                           {OpKind::head_norm, &Builder::head_norm},
                                           {OpKind::matmul, &Builder::matmul},
                                           {OpKind::rope, &Builder::rope},
                                           {OpKind::store_kv, &Builder::kv_op},
                                           {OpKind::attention, &Builder::kv_op},
                                           {OpKind::glu, &Builder::elementwise},
                                           {OpKind::add, &Builder::elementwise},
                                           {OpKind::add_bias, &Builder::elementwise},
                                           {OpKind::guide, &Builder::guide},
                                           {OpKind::head, &Builder::head}};
  static constexpr OpTable<uint16_t> kWireKinds{
      {OpKind::select_rows, WIRE_SELECT_ROWS}, {OpKind::rms_norm, WIRE_RMS_NORM}, {OpKind::head_norm, WIRE_HEAD_NORM},
      {OpKind::matmul, WIRE_MATMUL},           {OpKind::rope, WIRE_ROPE},         {OpKind::store_kv, WIRE_STORE_KV},
      {OpKind::attention, WIRE_ATTENTION},     {OpKind::glu, WIRE_SWIGLU},        {OpKind::add, WIRE_ADD},
      {OpKind::add_bias, WIRE_ADD_BIAS},       {OpKind::guide, WIRE_GUIDE},       {OpKind::head, WIRE_HEAD}};

  const BatchSources& s_;
  const Program& program_;
  Stagings& all_;
  Staging& staging_;
  Batch batch_;
  std::vector<WireOp> ops_;
  Staging& out_;
  uint32_t arena_ = 0, staged_ = 0, out_number_ = 0, shown_ = 0, parts_ = 0;
  int64_t shown_bytes_ = 0, parts_bytes_ = 0;  // of the largest op
  std::vector<uint32_t> kv_;                   // buffers of the streams' stores
  std::map<uint32_t, WirePassing> passing_;    // by number
  std::vector<uint32_t> passing_now_;          // of the op that is translated
  std::vector<Group> groups_;
  std::optional<WireRef> kept_at_;
  std::map<uint32_t, WireRef> counts_;                                      // 0, 1, ... so many
  std::map<std::pair<RowSet, int16_t>, WireRef> tables_;                    // rotary angles by rows and geometry
  std::map<std::pair<const RowSets::Reads*, size_t>, WireRef> key_ranges_;  // of all and of wanted rows
};

static_assert(sizeof(WireKeys) == sizeof(KeyRange), "ranges are staged as they are");

}  // namespace

bool on_dsp(const Op& op) {
  if (!Builder::has(op.kind) || op.activation != Activation::silu) return false;
  if (op.kind == OpKind::head) return op.parameter == 0;
  return rule_of(op.kind).table != Table::norms || op.weight[0] != kNoWeight;
}

size_t wire_ops(const Op& op, const StepInputs& inputs) {
  const bool apart = rule_of(op.kind).kv != KvUse::none || op.kind == OpKind::head;
  constexpr size_t kDivided = 5;  // a product with one show and three joins
  return apart ? std::max<size_t>(1, inputs.spans.size()) : op.kind == OpKind::matmul ? kDivided : 1;
}

Result<Batch> build_batch(const BatchSources& sources, size_t first, size_t last, Stagings& staging,
                          const std::shared_ptr<Library>& library) {
  for (;;) {
    LLADA_TRY_STATUS(staging.in.restart(library));
    LLADA_TRY_STATUS(staging.out.restart(library));
    const bool divides = static_cast<bool>(sources.host_tiles);
    if (divides) {
      LLADA_TRY_STATUS(staging.shown.restart(library));
      LLADA_TRY_STATUS(staging.parts.restart(library));
    }
    LLADA_TRY(auto batch, Builder(sources, staging).build(first, last));
    if (staging.in.fits() && staging.out.fits() && (!divides || (staging.shown.fits() && staging.parts.fits())))
      return batch;
  }
}

}  // namespace llada::hexagon
