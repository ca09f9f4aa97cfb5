#include "decode/length.h"

#include <algorithm>
#include <numeric>

#include "decode/field_entry.h"

namespace llada::decode {
namespace {

constexpr int64_t kFirstBlocks = 2;

// A number, "auto" or "auto:N" for at most N.
Status read_length(const Field& f, std::string_view text, DecodeOptions& o) {
  const bool is_auto = text == "auto" || text.starts_with("auto:");
  int64_t most = kAutoLength;
  if (text != "auto") LLADA_TRY_STATUS(read_number(is_auto ? text.substr(5) : text, most, f));
  o.gen_length = most;
  o.auto_length = is_auto;
  return {};
}

std::string show_length(const Field&, const DecodeOptions& o) {
  if (!o.auto_length) return fmt::format("{}", o.gen_length);
  return o.gen_length == kAutoLength ? "auto" : fmt::format("auto:{}", o.gen_length);
}

Entry length_entry(std::string_view help) {
  Entry f = field<&LengthOptions::gen_length>(FieldGroup::length, "gen_length", "N", help).in({1, kMaxGenLength});
  f.read = read_length, f.show = show_length, f.word = "auto";
  // -1 is the word of other options.
  f.check = [](const Field& self, const DecodeOptions& o) -> Status {
    if (o.gen_length >= 1 && o.gen_length <= kMaxGenLength) return {};
    return invalid("{}: found {}, needed {}", self.key, o.gen_length, needed(self));
  };
  return f;
}

}  // namespace

std::span<const Field> length_fields() {
  using O = LengthOptions;
  using enum FieldGroup;
  // clang-format off
  static const Field kFields[] = {
    length_entry("positions to generate; auto[:MOST]: as needed")
        .also("-n,--n-predict,--max-tokens").often(),
    field<&O::block_length>(length, "block_length", "N", "positions that are decided together, blocks left to right")
        .in(kPositions).tuned("8 16 32 64 128").often(),
    field<&O::slide>(length, "slide", "",
        "the block begins at the first mask and moves with it, so that no forward waits for a block's last tokens")
        .tuned("false true"),
    field<&O::steps>(length, "steps", "N",
        "forwards of the whole run, by a fixed schedule; 0: one token per forward").in(kSteps).often(),
  };
  // clang-format on
  return kFields;
}

bool predicts_length(const DecodeOptions& options, int64_t attention_block) {
  return options.auto_length && options.tail < 0 && attention_block == 0;
}

Length::Length(const LengthOptions& options, const SpecialIds& ids, int64_t begin, int64_t size)
    : block_length_(options.block_length),
      size_(size),
      end_ids_(ids.end_ids),
      horizon_(std::min(size, begin + kFirstBlocks * options.block_length)) {}

void Length::enter(const Block& block) {
  if (block.begin == block_) return;
  // No end so far: there is at least one more block than this one.
  if (block_ >= 0) horizon_ = std::max(horizon_, block.end + block_length_);
  block_ = block.begin;
  horizon_ = std::min(size_, std::max<int64_t>(horizon_, block.end));
}

std::vector<int32_t> Length::last_positions(const Block& block) const {
  const auto begin = static_cast<int32_t>(std::max<int64_t>(block.end, horizon_ - block_length_));
  std::vector<int32_t> positions(static_cast<size_t>(std::max<int64_t>(horizon_ - begin, 0)));
  std::iota(positions.begin(), positions.end(), begin);
  return positions;
}

double Length::end_probability(const Prediction& p) const {
  const auto ends = [&](int32_t token) { return std::ranges::find(end_ids_, token) != end_ids_.end(); };
  if (ends(p.token)) return p.probability;
  return ends(p.runner_up) ? p.probability - p.margin : 0;
}

void Length::answered(const Block& block, std::span<const Prediction> predictions) {
  if (predictions.empty()) return;
  double sum = 0;
  for (const Prediction& p : predictions) sum += end_probability(p);
  const double mean = sum / static_cast<double>(predictions.size());
  if (mean < kGrow) horizon_ = std::min(size_, horizon_ + block_length_);
  if (mean > kShrink) horizon_ = std::max<int64_t>(block.end, horizon_ - block_length_);
}

}  // namespace llada::decode
