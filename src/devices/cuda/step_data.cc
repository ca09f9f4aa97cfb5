#include "devices/cuda/step_data.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace llada::cuda {

template <class T>
StepData::Part StepData::put(const std::vector<T>& values) {
  const Part part{static_cast<int64_t>(packed_.size()), static_cast<int64_t>(values.size())};
  const size_t bytes = values.size() * sizeof(T);
  packed_.resize(packed_.size() + (bytes + 15) / 16 * 16);
  if (bytes > 0) std::memcpy(packed_.data() + part.offset, values.data(), bytes);
  return part;
}

Status StepData::bind(Memory& memory, const StepInputs& in, const Program& program, std::vector<KvPlace> kv,
                      cudaStream_t stream) {
  packed_.clear();
  sets = bind_row_sets(in, program);
  tokens = put(in.tokens);
  wanted = put(in.wanted);
  kept_at = put(in.kept_at());
  places = std::move(kv);
  stores = put(places);
  halves = std::ranges::any_of(places, [](const KvPlace& p) { return p.half != 0; });
  floats = std::ranges::any_of(places, [](const KvPlace& p) { return p.half == 0; });

  std::vector<StoredRow> whose(in.tokens.size());
  std::vector<int32_t> override_rows;
  std::vector<int32_t> overrides_of(in.spans.size(), -1);
  for (size_t s = 0; s < in.spans.size(); ++s) {
    const RowSpan& span = in.spans[s];
    std::fill_n(whose.begin() + span.begin, span.count, StoredRow{span.stream, span.trial ? -1 : span.sequence});
    if (!span.trial) continue;
    const int32_t keys = sets.reads[0].reach[0][s].last;
    overrides_of[s] = static_cast<int32_t>(override_rows.size());
    override_rows.resize(override_rows.size() + static_cast<size_t>(keys), -1);
    for (int32_t r = span.begin; r < span.begin + span.count; ++r)
      if (const int32_t p = in.kept_at()[static_cast<size_t>(r)]; p < keys)
        override_rows[static_cast<size_t>(overrides_of[s] + p)] = r;
  }
  stored_rows = put(whose);
  overrides = put(override_rows);
  for (size_t set = 0; set < 2; ++set) {
    std::vector<AttentionTile> list;
    for (size_t s = 0; s < sets.spans[set].size(); ++s) {
      const RowSpan& span = sets.spans[set][s];
      for (int32_t r = 0; r < span.count; r += kTileRows)
        list.push_back(
            {span.begin + r, std::min(kTileRows, span.count - r), span.stream, span.sequence, overrides_of[s]});
    }
    tiles[set] = put(list);
  }
  ranges_.clear();
  for (const RowSets::Reads& reads : sets.reads) ranges_.push_back({put(reads.ranges[0]), put(reads.ranges[1])});
  rotaries_.clear();
  for (const Rope& rope : program.ropes) {
    const RopeTable& table = ropes_.of(rope, int64_t{std::ranges::max(in.positions)} + 1);
    std::vector<float> c, s;
    for (const int32_t p : in.positions) {
      c.insert(c.end(), table.cos(p), table.cos(p) + rope.rotary / 2);
      s.insert(s.end(), table.sin(p), table.sin(p) + rope.rotary / 2);
    }
    rotaries_.push_back({put(c), put(s)});
  }
  std::vector<GuidedRow> guides;
  for (const PredictedRow& p : in.predictions)
    guides.push_back({p.conditional, p.unconditional, static_cast<float>(p.scale + 1.0)});
  guided = put(guides);

  std::vector<int32_t> lists;
  std::vector<HeadRow> rules;  // by stream
  for (const Stream& s : in.streams) {
    const auto append = [&](const std::vector<int32_t>& list) {
      lists.insert(lists.end(), list.begin(), list.end());
      return static_cast<int32_t>(lists.size());
    };
    HeadRow& rule = rules.emplace_back();
    rule.temperature = s.sampling.temperature;
    rule.never_sampled = static_cast<int32_t>(lists.size());
    rule.never_sampled_end = rule.out_of_softmax = append(s.sampling.never_sampled);
    rule.out_of_softmax_end = append(s.sampling.out_of_softmax);
  }
  std::vector<HeadRow> heads;
  for (size_t p = 0; p < in.predictions.size(); ++p) {
    const auto stream_index = static_cast<size_t>(sets.streams[p]);
    const SamplingRule& sampling = in.streams[stream_index].sampling;
    heads.push_back(rules[stream_index]);
    heads.back().key = sampling.key(sets.positions[2][p]);
  }
  head_rows = put(heads);
  head_tokens = put(lists);

  const auto bytes = static_cast<int64_t>(packed_.size());
  LLADA_TRY_STATUS(pinned_.reserve(bytes, "a step's inputs"));
  LLADA_TRY_STATUS(reserve(memory, device_, bytes, "a step's inputs", stream));
  std::memcpy(pinned_.data(), packed_.data(), packed_.size());
  return check(cudaMemcpyAsync(device_.data(), pinned_.data(), packed_.size(), cudaMemcpyHostToDevice, stream),
               "copying a step's inputs");
}

}  // namespace llada::cuda
