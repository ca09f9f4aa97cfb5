#include "formats/family.h"

#include <algorithm>
#include <vector>

namespace llada {

std::span<const Family* const> families() {
  static const std::vector<const Family*> all = [] {
    std::vector<const Family*> list = {&kLladaFamily, &kLladaMoeFamily, &kLlada2Family, &kDreamFamily};
    for (const auto more : {qwen_families(), llama_families()})
      for (const Family& one : more) list.push_back(&one);
    return list;
  }();
  return all;
}

const Family* find_family(std::string_view name) {
  const auto found = std::ranges::find(families(), name, &Family::name);
  return found == families().end() ? nullptr : *found;
}

}  // namespace llada
