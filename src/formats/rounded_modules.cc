#include "formats/rounded_modules.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "formats/made_weights.h"
#include "formats/printable.h"
#include "formats/tensor_names.h"

namespace llada {
namespace {

// Stacks of experts have names with and without the last word.
std::optional<std::string> name_of_module(const std::string& module) {
  if (auto name = canonical_name(module + ".weight")) return name;
  return canonical_name(module);
}

// A sentence for each way of rounding again.
class Losses {
 public:
  void add(const RoundedMatrix& m) {
    ++counts_[static_cast<size_t>(m.type)];
    if (m.exact) return;
    (m.code == RoundedMatrix::Code::fp8 ? float8_ : m.code == RoundedMatrix::Code::fp4 ? float4_ : halves_) += 1;
  }

  void report(const RoundedScheme& scheme, ModelConfig& config) const {
    std::string types;
    for (size_t i = 0; i < counts_.size(); ++i)
      if (counts_[i] > 0)
        types += fmt::format("{}{} {}", types.empty() ? "" : ", ", counts_[i], traits(static_cast<DType>(i)).name);
    config.remarks.push_back(
        fmt::format("rounded by other software ({}); matrices are read as: {}", scheme.name, types));
    note(config, float8_, "FP8 becomes q8_0, which moves values by up to 0.4 % of the largest of their 32");
    note(config, float4_,
         "FP4 with a scale for 16 becomes q8_0, which moves values by up to 0.65 % of the largest of "
         "their 32");
    note(config, halves_,
         "scales and offsets become F16, which moves values by up to 0.1 % of the largest of their "
         "group");
  }

 private:
  static void note(ModelConfig& config, size_t count, std::string_view why) {
    if (count > 0) config.notes.push_back(fmt::format("{} matrices are rounded again: {}", count, why));
  }

  std::array<size_t, kDTypeCount> counts_{};
  size_t float8_ = 0, float4_ = 0, halves_ = 0;
};

}  // namespace

Result<bool> RoundedModules::take(const SafetensorsTensor& tensor, std::string_view file) {
  const size_t dot = tensor.name.rfind('.');
  if (scheme_ == nullptr || dot == std::string::npos) return false;
  const std::string_view last = std::string_view(tensor.name).substr(dot + 1);
  if (is_unused_scale(last)) {
    ++unused_;
    return true;
  }
  if (!is_rounded_part(last) && (last != "weight" || tensor.raw.empty())) return false;
  const std::string module = tensor.name.substr(0, dot);
  if (!name_of_module(module)) return false;
  RoundedParts& parts = modules_[module];
  const auto [at, is_new] = parts.try_emplace(std::string(last), tensor);
  if (!is_new) return invalid("{}: tensor {} is in two of its files", file, printable(tensor.name));
  return true;
}

Status RoundedModules::finish(ModelRecord& record, TensorTable& table, std::string_view file) {
  if (scheme_ == nullptr) return {};
  if (unused_ > 0)
    record.config.remarks.push_back(
        fmt::format("ignored scales of activations, keys and values, which are not rounded here: {}", unused_));
  if (modules_.empty()) return {};
  std::vector<RoundedMatrix> matrices;
  Losses losses;
  for (const auto& [module, parts] : modules_) {
    LLADA_TRY(auto matrix, rounded_matrix(*scheme_, module, parts, file));
    losses.add(matrix);
    matrices.push_back(std::move(matrix));
  }
  LLADA_TRY(record.made, MadeWeights::create(std::move(matrices), std::string(file)));
  size_t index = 0;
  for (const auto& [module, parts] : modules_) {
    const auto first = std::ranges::min_element(parts, {}, [](const auto& part) { return part.second.offset; });
    LLADA_TRY_STATUS(table.add({*name_of_module(module), module, record.made->view(index++), first->second.offset}));
  }
  losses.report(*scheme_, record.config);
  return {};
}

}  // namespace llada
