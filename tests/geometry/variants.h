// A model's programs with the rarer forms of its ops (SmallModel::variant): windows, soft caps, GELU, norms without
// weight, divided frequencies, a prompt that is encoded before its canvas.
#pragma once
#include "geometry/reference_forward.h"

namespace llada {

// The model with all its programs in the variant. With a prompt it has a pass that encodes it.
SmallModel in_variant(SmallModel model, const Variant& variant);

}  // namespace llada
