#include "sched/chosen_rows.h"

#include <algorithm>
#include <numeric>

namespace llada {

std::vector<int32_t> streams_of_wanted(const StepInputs& in) {
  std::vector<int32_t> streams;
  for (const RowSpan& span : in.spans)
    while (streams.size() < in.wanted.size() && in.wanted[streams.size()] < span.begin + span.count)
      streams.push_back(span.stream);
  return streams;
}

int64_t candidates_left_behind(const StepInputs& in) {
  if (std::ranges::none_of(in.streams, [](const Stream& s) { return s.keep >= 0; })) return 0;
  int64_t left = 0;
  for (const int32_t s : streams_of_wanted(in)) left += in.streams[static_cast<size_t>(s)].keep >= 0;
  for (const Stream& s : in.streams) left -= std::max(s.keep, 0);
  return left;
}

Result<std::vector<size_t>> predictions_that_went_on(const StepInputs& in, const StepOutputs& out) {
  std::vector<size_t> which(in.predictions.size());
  std::iota(which.begin(), which.end(), size_t{0});
  const int64_t left = candidates_left_behind(in);
  if (left == 0) return which;
  const auto end = static_cast<int32_t>(in.wanted.size());
  std::vector<int32_t> kept(in.streams.size(), 0), streams = streams_of_wanted(in);
  bool good = std::ssize(out.chosen) == end - left &&
              std::ranges::adjacent_find(out.chosen, std::ranges::greater_equal{}) == out.chosen.end();
  for (const int32_t i : out.chosen) {
    good = good && i >= 0 && i < end;
    if (good) ++kept[static_cast<size_t>(streams[static_cast<size_t>(i)])];
  }
  for (size_t s = 0; s < kept.size(); ++s) good = good && (in.streams[s].keep < 0 || kept[s] == in.streams[s].keep);
  if (!good) return failed("step: the device chose {} rows of {}, {} needed", out.chosen.size(), end, end - left);
  std::erase_if(which,
                [&](size_t p) { return !std::ranges::binary_search(out.chosen, in.predictions[p].conditional); });
  return which;
}

std::vector<bool> rows_left_behind(const StepInputs& in, const StepOutputs& out) {
  std::vector<bool> left(in.positions.size(), false);
  if (candidates_left_behind(in) == 0) return left;
  for (int32_t i = 0; i < std::ssize(in.wanted); ++i)
    if (!std::ranges::binary_search(out.chosen, i)) left[static_cast<size_t>(in.wanted[static_cast<size_t>(i)])] = true;
  return left;
}

}  // namespace llada
