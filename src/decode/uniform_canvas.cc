#include "decode/uniform_canvas.h"

#include <algorithm>

#include "base/random.h"
#include "decode/field_entry.h"

namespace llada::decode {
namespace {

constexpr uint64_t kRandomToken = kPositionDraw - 1;  // no id either

}  // namespace

std::span<const Field> uniform_fields() {
  using O = UniformOptions;
  using enum FieldGroup;
  // clang-format off
  static const Field kFields[] = {
    field<&O::denoising_steps>(random_canvas, "denoising_steps", "N", "most forwards of one canvas").in({1, kMaxSteps}),
    field<&O::confidence_threshold>(random_canvas, "confidence_threshold", "NATS",
        "a canvas is done when its best tokens stay and their mean entropy is below this").in(kAboveZero),
  };
  // clang-format on
  return kFields;
}

double token_draw(uint64_t seed, int64_t forward, int64_t position) {
  return uniform(seed, static_cast<uint64_t>(forward), static_cast<uint64_t>(position), kPositionDraw);
}

int32_t random_token(uint64_t seed, int64_t forward, int64_t position, int64_t vocab) {
  const double share = uniform(seed, static_cast<uint64_t>(forward), static_cast<uint64_t>(position), kRandomToken);
  return static_cast<int32_t>(std::min(vocab - 1, static_cast<int64_t>(share * static_cast<double>(vocab))));
}

}  // namespace llada::decode
