#include "formats/rounded_scheme.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "formats/hf_fields.h"
#include "formats/printable.h"

namespace llada {
namespace {

using Names = std::initializer_list<std::string_view>;

constexpr std::string_view kMethods = "gptq, awq, compressed-tensors, fp8, modelopt or MLX's";

Status one_of(const Fields& fields, std::string_view name, Names allowed) {
  const Json* value = fields.find(name);
  if (value == nullptr) return {};
  if (value->is_string() && std::ranges::count(allowed, value->get_ref<const std::string&>()) > 0) return {};
  return fields.wrong(name, *value, fmt::format("{}", fmt::join(allowed.begin(), allowed.end(), ", ")));
}

// The setting in each of the objects that `list` has; it may be left out.
Status one_of_in_each(const Fields& fields, std::string_view list, std::string_view name, Names allowed) {
  if (!fields.has(list)) return {};
  LLADA_TRY(const Fields objects, fields.object(list));
  for (const auto& [key, value] : objects.all().items()) {
    LLADA_TRY(const Fields one, objects.object(key));
    LLADA_TRY_STATUS(one_of(one, name, allowed));
  }
  return {};
}

// Settings that change how weights are read, and are left out or switched off in files that we read.
Status off(const Fields& fields, Names names) {
  for (const auto name : names) {
    const Json* value = fields.find(name);
    if (value == nullptr || *value == false || (value->is_structured() && value->empty())) continue;
    return fields.wrong(name, *value, "none");
  }
  return {};
}

class SchemeReader {
 public:
  explicit SchemeReader(const Fields& fields) : fields_(fields) {}

  Result<RoundedScheme> read() {
    if (fields_.all().contains("quant_algo")) {
      LLADA_TRY_STATUS(one_of(fields_, "quant_method", {"modelopt", "modelopt_fp4"}));
      LLADA_TRY_STATUS(modelopt());
      return std::move(scheme_);
    }
    const Json* method = fields_.find("quant_method");
    if (method == nullptr) {
      if (!fields_.has({"bits", "group_size", "mode"}))
        return invalid("{}: {} has no quant_method, needed {}", fields_.source(), trimmed_path(), kMethods);
      LLADA_TRY_STATUS(mlx());
      return std::move(scheme_);
    }
    constexpr std::pair<std::string_view, Status (SchemeReader::*)()> kReaders[] = {
        {"gptq", &SchemeReader::gptq},
        {"awq", &SchemeReader::awq},
        {"compressed-tensors", &SchemeReader::compressed_tensors},
        {"fp8", &SchemeReader::fp8},
        {"fbgemm_fp8", &SchemeReader::fp8}};
    for (const auto& [name, reader] : kReaders)
      if (*method == std::string(name)) {
        LLADA_TRY_STATUS((this->*reader)());
        return std::move(scheme_);
      }
    return invalid(
        "{}: {} has quant_method {}: rounded weights of that form are not read; needed {}, or F32, F16 or BF16, or "
        "GGUF",
        fields_.source(), trimmed_path(), shown(*method), kMethods);
  }

 private:
  std::string trimmed_path() const {
    std::string path = fields_.path("");
    if (path.ends_with('.')) path.pop_back();
    return path;
  }

  static Result<RoundedScheme::Mlx> mlx_module(const Fields& fields) {
    RoundedScheme::Mlx m;
    LLADA_TRY_STATUS(one_of(fields, "mode", {"affine", "mxfp4", "mxfp8", "nvfp4"}));
    LLADA_TRY(m.mode, fields.text("mode", "affine"));
    const bool affine = m.mode == "affine";
    const int64_t bits = m.mode == "mxfp8" ? 8 : 4, group = affine ? 64 : m.mode == "nvfp4" ? 16 : 32;
    LLADA_TRY(m.bits, fields.integer("bits", affine ? 2 : bits, affine ? 8 : bits, bits));
    LLADA_TRY(m.group, fields.integer("group_size", affine ? 32 : group, affine ? 128 : group, group));
    if (affine && m.bits == 7) return fields.wrong("bits", m.bits, "2, 3, 4, 5, 6 or 8");
    if (affine && m.group != 32 && m.group != 64 && m.group != 128)
      return fields.wrong("group_size", m.group, "32, 64 or 128");
    return m;
  }

  Status mlx() {
    scheme_.by = RoundedBy::mlx;
    LLADA_TRY(scheme_.mlx, mlx_module(fields_));
    const RoundedScheme::Mlx& m = scheme_.mlx;
    scheme_.name = fmt::format("MLX {}, {} bits, groups of {}", m.mode, m.bits, m.group);
    for (const auto& [path, value] : fields_.all().items()) {
      if (value.is_boolean()) {
        scheme_.modules[path] = value == true ? m : RoundedScheme::Mlx{.bits = 0};
      } else if (value.is_object()) {
        LLADA_TRY(const Fields inner, fields_.object(path));
        LLADA_TRY(scheme_.modules[path], mlx_module(inner));
      }
    }
    return {};
  }

  Status gptq() {
    scheme_.by = RoundedBy::gptq;
    LLADA_TRY(scheme_.bits, fields_.integer("bits", 2, 8));
    if (scheme_.bits != 2 && scheme_.bits != 3 && scheme_.bits != 4 && scheme_.bits != 8)
      return fields_.wrong("bits", scheme_.bits, "2, 3, 4 or 8");
    constexpr const char* kKeys[] = {"checkpoint_format", "format"};
    for (const auto key : kKeys) LLADA_TRY_STATUS(one_of(fields_, key, {"gptq", "gptq_v2"}));
    LLADA_TRY(const auto form, fields_.text({kKeys[0], kKeys[1]}, "gptq"));
    scheme_.zeros_less_one = form == "gptq";
    LLADA_TRY_STATUS(one_of(fields_, "pack_dtype", {"int32"}));
    // Rules for single modules may give them other bits.
    if (const Json* rules = fields_.find("dynamic"); rules != nullptr && rules->is_object())
      for (const auto& [rule, value] : rules->items())
        if (!rule.starts_with("-:") && value.is_object() && value.contains("bits") && value["bits"] != scheme_.bits)
          return fields_.fault("dynamic", fmt::format("found {} with other bits, needed {} for all modules",
                                                      printable(rule), scheme_.bits));
    scheme_.name = fmt::format("{}, {} bits", form, scheme_.bits);
    return {};
  }

  Status awq() {
    scheme_.by = RoundedBy::awq;
    LLADA_TRY(scheme_.bits, fields_.integer({"bits", "w_bit"}, 4, 4));
    LLADA_TRY_STATUS(one_of(fields_, "version", {"gemm", "GEMM"}));
    LLADA_TRY_STATUS(one_of(fields_, "format", {"gemm"}));
    scheme_.name = "awq gemm, 4 bits";
    return {};
  }

  Status compressed_tensors() {
    static const Names kForms = {"pack-quantized",       "int-quantized",        "float-quantized", "naive-quantized",
                                 "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized", "mixed-precision"};
    scheme_.by = RoundedBy::compressed_tensors;
    LLADA_TRY_STATUS(one_of(fields_, "format", kForms));
    LLADA_TRY_STATUS(one_of(fields_, "quantization_status", {"compressed"}));
    LLADA_TRY_STATUS(off(fields_, {"transform_config"}));
    if (fields_.has("sparsity_config")) {
      LLADA_TRY(const Fields sparse, fields_.object("sparsity_config"));
      LLADA_TRY_STATUS(one_of(sparse, "format", {"dense"}));
    }
    LLADA_TRY(const auto form, fields_.text("format", "mixed-precision"));
    LLADA_TRY_STATUS(one_of_in_each(fields_, "config_groups", "format", kForms));
    scheme_.name = fmt::format("compressed-tensors {}", form);
    return {};
  }

  Status fp8() {
    scheme_.by = RoundedBy::fp8;
    LLADA_TRY_STATUS(one_of(fields_, "fmt", {"e4m3"}));
    scheme_.name = "fp8";
    if (fields_.has("weight_block_size")) {
      LLADA_TRY(const auto block, fields_.integers("weight_block_size", 1, 4096));
      if (block != std::vector<int32_t>{128, 128})
        return fields_.wrong("weight_block_size", *fields_.find("weight_block_size"), "[128, 128]");
      scheme_.name = "fp8, blocks of 128x128";
    }
    return {};
  }

  Status modelopt() {
    static const Names kAlgorithms = {
        "FP8", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4", "W4A16_NVFP4", "W4A8_NVFP4_FP8", "MXFP8", "MIXED_PRECISION"};
    scheme_.by = RoundedBy::modelopt;
    LLADA_TRY_STATUS(one_of(fields_, "quant_algo", kAlgorithms));
    LLADA_TRY(const auto algorithm, fields_.text("quant_algo"));
    LLADA_TRY_STATUS(one_of_in_each(fields_, "quantized_layers", "quant_algo", kAlgorithms));
    scheme_.name = fmt::format("modelopt {}", algorithm);
    return {};
  }

  const Fields& fields_;
  RoundedScheme scheme_;
};

// An object that says nothing counts as left out, and so does ModelOpt's of a model whose K/V alone shall be rounded.
bool given(const Json& object, std::string_view name) {
  const auto found = object.find(std::string(name));
  if (found == object.end() || found->is_null()) return false;
  if (!found->is_object()) return true;
  const auto algorithm = found->find("quant_algo");
  return !found->empty() && (algorithm == found->end() || !algorithm->is_null());
}

}  // namespace

Result<std::shared_ptr<const RoundedScheme>> read_rounded_scheme(const Json& config, std::string_view more,
                                                                 std::string_view file) {
  const auto read = [](const Fields& where, std::string_view key) -> Result<std::shared_ptr<const RoundedScheme>> {
    LLADA_TRY(const Fields inner, where.object(key));
    LLADA_TRY(auto scheme, SchemeReader(inner).read());
    return std::make_shared<const RoundedScheme>(std::move(scheme));
  };
  const Fields root(config, std::string(file));
  // MLX writes both, the second for readers of the first's older name.
  constexpr std::string_view kKeys[] = {"quantization_config", "quantization"};
  for (const auto key : kKeys)
    if (given(config, key)) return read(root, key);
  if (const auto text = config.find("text_config"); text != config.end() && text->is_object()) {
    LLADA_TRY(const Fields inner, root.object("text_config"));
    for (const auto key : kKeys)
      if (given(*text, key)) return read(inner, key);
  }
  if (more.empty()) return std::shared_ptr<const RoundedScheme>();
  const std::string source = fmt::format("{} (hf_quant_config.json)", file);
  LLADA_TRY(const Json other, parse_json_object(more, source, kConfigLimits));
  if (!given(other, "quantization")) return std::shared_ptr<const RoundedScheme>();
  return read(Fields(other, source), "quantization");
}

}  // namespace llada
