#include "formats/family.h"

#include <algorithm>

#include "base/check.h"

namespace llada {

std::span<const Family* const> families() {
  static constexpr const Family* kAll[] = {&kLladaFamily, &kLladaMoeFamily, &kLlada2Family, &kDreamFamily,
                                           &kDiffusionGemmaFamily};
  return kAll;
}

const Family& family_of(Architecture architecture) {
  const auto found = std::ranges::find(families(), architecture, [](const Family* f) { return f->architecture; });
  LLADA_CHECK(found != families().end());
  return **found;
}

}  // namespace llada
