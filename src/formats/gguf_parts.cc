#include "formats/gguf_parts.h"

#include <algorithm>

#include "formats/gguf_fields.h"
#include "formats/part_name.h"

namespace llada {
namespace {

constexpr int64_t kMostParts = 512;  // each is a file that stays open
constexpr size_t kMostTensors = 65536;

struct Split {
  int64_t number = 0, count = 1;
};

Result<Split> split_of(const GgufFile& file, std::string_view name) {
  const GgufFields fields(file, name);
  Split split;
  LLADA_TRY(split.count, fields.integer("split.count", 1));
  LLADA_TRY(split.number, fields.integer("split.no", 0));
  if (split.count == 0) split.count = 1;  // llama.cpp takes it so
  if (split.count < 1 || split.count > kMostParts)
    return invalid("{}: split.count is {}, 1 to {} needed", name, split.count, kMostParts);
  if (split.number < 0 || split.number >= split.count)
    return invalid("{}: split.no is {}, below split.count {} needed", name, split.number, split.count);
  return split;
}

}  // namespace

Result<std::vector<std::string>> other_gguf_parts(const GgufFile& file, const std::string& path) {
  LLADA_TRY(const Split split, split_of(file, path));
  std::vector<std::string> others;
  if (split.count == 1) return others;
  const PartName name = part_name(path);
  const int number = static_cast<int>(split.number) + 1, count = static_cast<int>(split.count);
  const bool named = name.count == count && name.number == number && name.of(number) == path;
  if (number != 1)
    return invalid("{}: part {} of {} of a model; needed its first part{}", path, number, count,
                   named ? ": " + name.of(1) : "");
  if (!named)
    return invalid(
        "{}: part 1 of {} of a model; needed a name that ends with -00001-of-{:05}.gguf, which tells the others'", path,
        count, count);
  for (int part = 2; part <= count; ++part) others.push_back(name.of(part));
  return others;
}

Result<GgufFile> join_gguf_parts(GgufFile first, std::string_view name, std::span<const NamedBytes> others) {
  LLADA_TRY(const Split whole, split_of(first, name));
  if (static_cast<int64_t>(others.size()) + 1 != whole.count)
    return invalid("{}: {} parts, split.count {} needed", name, others.size() + 1, whole.count);
  for (size_t i = 0; i < others.size(); ++i) {
    LLADA_TRY(const auto part, GgufFile::parse(others[i].bytes, others[i].name));
    LLADA_TRY(const Split split, split_of(part, others[i].name));
    if (split.count != whole.count || split.number != static_cast<int64_t>(i) + 1)
      return invalid("{}: part {} of {}, {} of {} needed behind {}", others[i].name, split.number + 1, split.count,
                     i + 2, whole.count, name);
    for (const GgufValue& value : part.values()) {
      const GgufValue* same = value.key.starts_with("split.") ? nullptr : first.find(value.key);
      if (same != nullptr &&
          (same->type != value.type || same->element != value.element || !std::ranges::equal(same->data, value.data)))
        return invalid("{}: {} differs from {}, the same needed: they are parts of different models", others[i].name,
                       printable(value.key), name);
    }
    if (part.tensors().size() > kMostTensors - std::min(kMostTensors, first.tensors().size()))
      return invalid("{}: more than {} tensors in all parts", others[i].name, kMostTensors);
    first.append_tensors(part);
  }
  const auto tensors = static_cast<int64_t>(first.tensors().size());
  LLADA_TRY(const auto said, GgufFields(first, name).integer("split.tensors.count", tensors));
  if (whole.count > 1 && said != tensors)
    return invalid("{}: {} tensors in its {} parts, split.tensors.count {} needed", name, tensors, whole.count, said);
  return first;
}

}  // namespace llada
