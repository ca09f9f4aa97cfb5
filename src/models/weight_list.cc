#include "models/weight_list.h"

#include <algorithm>
#include <charconv>

#include "formats/expectations.h"
#include "formats/tensor_names.h"

namespace llada {
namespace {

// Takes "12." off the front.
int16_t take_number(std::string_view& rest) {
  int16_t number = -1;
  if (const auto digits = take_index(rest)) std::from_chars(digits->data(), digits->data() + digits->size(), number);
  return number;
}

WeightInfo weight_of(const ExpectedTensor& tensor) {
  WeightInfo w{.name = std::string(tensor.name),
               .dims = {tensor.shape.dims[0], tensor.shape.rank == 1 ? 1 : tensor.shape.dims[1]}};
  std::string_view rest = tensor.name;
  if (take_prefix(rest, "blk.")) w.layer = take_number(rest);
  constexpr std::string_view kExperts = "_exps.", kParts[] = {"ffn_gate", "ffn_up", "ffn_down"};
  if (const size_t at = rest.find(kExperts); at != std::string_view::npos) {
    const auto* const part = std::ranges::find(kParts, rest.substr(0, at));
    rest.remove_prefix(at + kExperts.size());
    w.expert = take_number(rest);
    if (w.expert >= 0 && part != std::end(kParts)) w.part = static_cast<ExpertPart>(part - std::begin(kParts));
    w.name = fmt::format("{}{}", w.name.substr(0, w.name.find(kExperts) + kExperts.size()), rest);
  }
  return w;
}

}  // namespace

WeightList::WeightList(const ModelConfig& config, std::vector<WeightInfo>& list) {
  for_each_expected(config, true, [&](const ExpectedTensor& tensor) {
    if (!tensor.required) return true;
    list.push_back(weight_of(tensor));
    first_.try_emplace(list.back().name, static_cast<WeightId>(list.size() - 1));
    return true;
  });
}

WeightId WeightList::of(std::string_view name) const {
  const auto found = first_.find(name);
  return found == first_.end() ? kNoWeight : found->second;
}

WeightId WeightList::in_layer(int64_t layer, std::string_view leaf) const {
  return of(fmt::format("blk.{}.{}", layer, leaf));
}

FeedForward WeightList::network(int64_t layer, std::string_view suffix) const {
  const auto part = [&](std::string_view name) {
    return in_layer(layer, fmt::format("ffn_{}{}.weight", name, suffix));
  };
  return {part("gate"), part("up"), part("down")};
}

}  // namespace llada
