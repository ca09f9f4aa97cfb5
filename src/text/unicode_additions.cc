#include "text/unicode_additions.h"

#include <algorithm>
#include <iterator>

namespace llada {
namespace {

struct AddedMarks {
  char32_t first, last;
  int combining_class;
};

struct AddedComposite {
  char32_t composite;
  CodePointPair parts;
};

#include "text/unicode_additions.inc"

}  // namespace

std::span<const AddedCategory> added_categories() { return kCategories; }

int added_combining_class(char32_t code_point) {
  const auto row = std::ranges::lower_bound(kMarks, code_point, {}, &AddedMarks::last);
  return row != std::end(kMarks) && row->first <= code_point ? row->combining_class : 0;
}

char32_t added_composite(CodePointPair parts) {
  const auto row = std::ranges::find(kComposites, parts, &AddedComposite::parts);
  return row != std::end(kComposites) ? row->composite : 0;
}

CodePointPair added_decomposition(char32_t code_point) {
  const auto row = std::ranges::lower_bound(kComposites, code_point, {}, &AddedComposite::composite);
  return row != std::end(kComposites) && row->composite == code_point ? row->parts : CodePointPair{};
}

}  // namespace llada
