#include "formats/rounded_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>

#include "formats/model_record.h"
#include "formats/printable.h"
#include "formats/rounded_rows.h"

namespace llada {
namespace {

using Layout = RoundedMatrix::Layout;
using Code = RoundedMatrix::Code;
using Numbers = RoundedMatrix::Numbers;

constexpr std::array<std::string_view, 13> kParts = {
    "scales",         "biases",        "qweight",           "qzeros",
    "g_idx",          "weight_packed", "weight_scale",      "weight_scale_inv",
    "weight_scale_2", "weight_shape",  "weight_zero_point", "weight_global_scale",
    "weight_g_idx"};
constexpr std::array<std::string_view, 9> kUnused = {
    "input_scale", "input_global_scale",  "input_zero_point",   "output_scale", "k_scale", "v_scale",
    "q_scale",     "k_proj.output_scale", "v_proj.output_scale"};

std::string_view type_of(const SafetensorsTensor& tensor) {
  if (!tensor.raw.empty()) return tensor.raw;
  return tensor.view.type == DType::F32 ? "F32" : tensor.view.type == DType::F16 ? "F16" : "BF16";
}

bool is_float(const SafetensorsTensor& tensor) { return tensor.raw.empty(); }

class Builder {
 public:
  Builder(const RoundedScheme& scheme, const std::string& module, const RoundedParts& parts, std::string_view file)
      : scheme_(scheme), module_(module), parts_(parts), file_(file) {}

  Result<RoundedMatrix> build() {
    m_.name = module_;
    LLADA_TRY_STATUS(read());
    if (m_.in % 32 != 0)
      return invalid("{}: {} has rows of {} values, a multiple of 32 needed", file_, printable(module_), m_.in);
    if (m_.group % (m_.code == Code::fp4 ? 16 : 32) != 0)
      return invalid("{}: {} has groups of {} inputs, a multiple of {} needed", file_, printable(module_), m_.group,
                     m_.code == Code::fp4 ? 16 : 32);
    choose_type();
    return std::move(m_);
  }

 private:
  Status read() {
    switch (scheme_.by) {
      case RoundedBy::mlx:
        return mlx();
      case RoundedBy::gptq:
        return gptq();
      case RoundedBy::awq:
        return awq();
      default:
        break;
    }
    if (const auto* packed = find("weight_packed")) return packed->raw == "U8" ? float4(*packed) : packed_integers();
    LLADA_TRY(const auto* weight, need("weight", {"F8_E4M3", "I8", "U8"}));
    if (weight->raw == "U8") return float4(*weight);
    return bytes(*weight);
  }

  // ---- Parts
  const SafetensorsTensor* find(std::string_view part) const {
    const auto found = parts_.find(part);
    return found == parts_.end() ? nullptr : &found->second;
  }
  std::string full(std::string_view part) const { return printable(fmt::format("{}.{}", module_, part)); }

  Result<const SafetensorsTensor*> need(std::string_view part, std::initializer_list<std::string_view> types) const {
    const std::string such = fmt::format("{}", fmt::join(types.begin(), types.end(), ", "));
    const SafetensorsTensor* tensor = find(part);
    if (tensor == nullptr) return invalid("{}: tensor {} is missing, {} needed", file_, full(part), such);
    if (std::ranges::find(types, type_of(*tensor)) == types.end())
      return invalid("{}: tensor {} has dtype {}, {} needed", file_, full(part), type_of(*tensor), such);
    return tensor;
  }
  Result<const SafetensorsTensor*> floats(std::string_view part) const { return need(part, {"F32", "F16", "BF16"}); }

  std::unexpected<Error> wrong_shape(std::string_view part, const SafetensorsTensor& tensor,
                                     const Shape& needed) const {
    return invalid("{}: tensor {} is {}, {} needed", file_, full(part), dims_text(tensor.view.shape),
                   dims_text(needed));
  }
  Status has_shape(std::string_view part, const SafetensorsTensor& tensor, const Shape& needed) const {
    if (tensor.view.shape == needed) return {};
    return wrong_shape(part, tensor, needed);
  }
  Shape shape(int64_t columns, int64_t rows) const { return {{columns, rows, m_.count, 1}, m_.count > 1 ? 3 : 2}; }

  // One matrix, or several of them.
  Status is_matrix(std::string_view part, const SafetensorsTensor& tensor, int most = 3) const {
    if (tensor.view.shape.rank >= 2 && tensor.view.shape.rank <= most) return {};
    return invalid("{}: tensor {} is {}, {} dimensions needed", file_, full(part), dims_text(tensor.view.shape),
                   most == 2 ? "2" : "2 or 3");
  }
  // Inputs of a row that has so many words or bytes of `bits_of_word` bits.
  Status set_inputs(std::string_view part, const SafetensorsTensor& tensor, int64_t words, int64_t bits_of_word) {
    m_.in = words * bits_of_word / m_.bits;
    if (words * bits_of_word % m_.bits == 0) return {};
    return invalid("{}: tensor {} is {}: {} words of {} bits are no whole number of values of {}", file_, full(part),
                   dims_text(tensor.view.shape), words, bits_of_word, m_.bits);
  }
  Status divide_inputs(std::string_view part, const SafetensorsTensor& tensor, int64_t groups) {
    if (m_.in % groups != 0)
      return invalid("{}: tensor {} is {}: {} groups do not divide {} inputs", file_, full(part),
                     dims_text(tensor.view.shape), groups, m_.in);
    m_.group = m_.in / groups;
    return {};
  }

  // Numbers as {groups, outputs, experts}.
  static Numbers by_row(const SafetensorsTensor& tensor, std::string_view type) {
    const auto& dims = tensor.view.shape.dims;
    return {tensor.view.data, type, dims[0] * dims[1], dims[0], dims[0] > 1 ? 1 : 0, 1};
  }

  // One number for all, or for each expert.
  Result<Numbers> one_each(std::string_view part) const {
    LLADA_TRY(const auto* tensor, floats(part));
    const int64_t found = tensor->view.shape.elements();
    if (found != 1 && found != m_.count)
      return invalid("{}: tensor {} is {}, one number needed", file_, full(part), dims_text(tensor->view.shape));
    return Numbers{tensor->view.data, type_of(*tensor), found > 1 ? 1 : 0, 0, 0, 1};
  }

  // The first input of a group that is not at its place.
  Status check_order(std::string_view part) const {
    const SafetensorsTensor* tensor = find(part);
    if (tensor == nullptr) return {};
    LLADA_TRY(tensor, need(part, {"I32", "I64"}));
    LLADA_TRY_STATUS(has_shape(part, *tensor, {{m_.in, 1, 1, 1}, 1}));
    for (int64_t i = 0; i < m_.in; ++i) {
      const int64_t found = tensor->raw == "I32" ? number_at<int32_t>(tensor->view.data + 4 * i)
                                                 : number_at<int64_t>(tensor->view.data + 8 * i);
      if (found == i / m_.group) continue;
      return invalid(
          "{}: tensor {}: input {} is in group {}, {} needed: groups of inputs out of order (desc_act, actorder) are "
          "not read",
          file_, full(part), i, found, i / m_.group);
    }
    return {};
  }

  // ---- Schemes
  Status mlx() {
    LLADA_TRY(const auto* weight, need("weight", {"U32"}));
    const auto own = scheme_.modules.find(module_);
    const RoundedScheme::Mlx& mode = own == scheme_.modules.end() ? scheme_.mlx : own->second;
    if (mode.bits == 0)
      return invalid("{}: tensor {} has dtype U32; needed F32, F16 or BF16, since the configuration says false", file_,
                     full("weight"));
    m_.bits = static_cast<int>(mode.bits);
    m_.group = mode.group;
    m_.codes = weight->view.data;
    const auto& dims = weight->view.shape.dims;
    m_.out = dims[1], m_.count = dims[2];
    LLADA_TRY_STATUS(set_inputs("weight", *weight, dims[0], 32));
    if (m_.in % m_.group != 0)
      return invalid("{}: tensor {} is {}: groups of {} do not divide {} inputs", file_, full("weight"),
                     dims_text(weight->view.shape), m_.group, m_.in);
    const bool affine = mode.mode == "affine";
    const auto* scales = find("scales");
    LLADA_TRY(scales, affine ? floats("scales") : need("scales", {"U8"}));
    LLADA_TRY_STATUS(has_shape("scales", *scales, shape(m_.in / m_.group, m_.out)));
    if (affine) {
      m_.scales = by_row(*scales, type_of(*scales));
      LLADA_TRY(const auto* biases, floats("biases"));
      LLADA_TRY_STATUS(has_shape("biases", *biases, scales->view.shape));
      m_.biases = by_row(*biases, type_of(*biases));
      return {};
    }
    m_.code = m_.bits == 8 ? Code::fp8 : Code::fp4;
    m_.scales = by_row(*scales, mode.mode == "nvfp4" ? "F8_E4M3" : "E8M0");
    return {};
  }

  Status gptq() {
    LLADA_TRY(const auto* weight, need("qweight", {"I32"}));
    LLADA_TRY(const auto* scales, floats("scales"));
    LLADA_TRY(const auto* zeros, need("qzeros", {"I32"}));
    m_.layout = Layout::columns;
    LLADA_TRY_STATUS(is_matrix("qweight", *weight, 2));
    m_.bits = static_cast<int>(scheme_.bits);
    m_.codes = weight->view.data;
    m_.out = weight->view.shape.dims[0];
    LLADA_TRY_STATUS(set_inputs("qweight", *weight, weight->view.shape.dims[1], 32));
    const int64_t groups = scales->view.shape.dims[1];
    LLADA_TRY_STATUS(has_shape("scales", *scales, shape(m_.out, groups)));
    LLADA_TRY_STATUS(divide_inputs("scales", *scales, groups));
    LLADA_TRY_STATUS(has_shape("qzeros", *zeros, shape((m_.out * m_.bits + 31) / 32, groups)));
    m_.scales = {scales->view.data, type_of(*scales), 0, 1, m_.out, 1};
    m_.zeros = {zeros->view.data, "I32", 0, 0, zeros->view.shape.dims[0], 1};
    m_.zeros_less_one = scheme_.zeros_less_one;
    return check_order("g_idx");
  }

  Status awq() {
    LLADA_TRY(const auto* weight, need("qweight", {"I32"}));
    LLADA_TRY(const auto* scales, floats("scales"));
    LLADA_TRY(const auto* zeros, need("qzeros", {"I32"}));
    LLADA_TRY_STATUS(is_matrix("qweight", *weight, 2));
    m_.layout = Layout::awq;
    m_.codes = weight->view.data;
    m_.in = weight->view.shape.dims[1];
    m_.out = weight->view.shape.dims[0] * 8;
    const int64_t groups = scales->view.shape.dims[1];
    LLADA_TRY_STATUS(has_shape("qweight", *weight, shape(m_.out / 8, m_.in)));
    LLADA_TRY_STATUS(has_shape("scales", *scales, shape(m_.out, groups)));
    LLADA_TRY_STATUS(divide_inputs("scales", *scales, groups));
    LLADA_TRY_STATUS(has_shape("qzeros", *zeros, shape(m_.out / 8, groups)));
    m_.scales = {scales->view.data, type_of(*scales), 0, 1, m_.out, 1};
    m_.zeros = {zeros->view.data, "I32", 0, 0, m_.out / 8, 1};
    return {};
  }

  // compressed-tensors. weight_shape counts the inputs, since words may be filled up.
  Status packed_integers() {
    LLADA_TRY(const auto* packed, need("weight_packed", {"I32"}));
    const SafetensorsTensor& weight = *packed;
    LLADA_TRY(const auto* sizes, need("weight_shape", {"I64", "I32"}));
    LLADA_TRY(const auto* scales, floats("weight_scale"));
    LLADA_TRY_STATUS(is_matrix("weight_packed", weight));
    const auto& dims = weight.view.shape.dims;
    const int64_t rank = sizes->view.shape.elements();
    if (sizes->view.shape.rank != 1 || rank != weight.view.shape.rank)
      return wrong_shape("weight_shape", *sizes, {{weight.view.shape.rank, 1, 1, 1}, 1});
    const auto size = [&](int64_t i) {
      return sizes->raw == "I64" ? number_at<int64_t>(sizes->view.data + 8 * i)
                                 : number_at<int32_t>(sizes->view.data + 4 * i);
    };
    m_.in = size(rank - 1), m_.out = dims[1], m_.count = dims[2];
    // The words of a row hold whole values of 1 to 8 bits.
    const bool sane = m_.in > 0 && m_.in % 32 == 0 && m_.in <= dims[0] * 32 && dims[0] * 32 % m_.in == 0;
    if (!sane || dims[0] * 32 / m_.in > 8 || size(rank - 2) != m_.out || (rank == 3 && size(0) != m_.count))
      return invalid("{}: tensor {} is {} and {} says {} outputs of {} inputs, needed rows of 1 to 8 bits a value",
                     file_, full("weight_packed"), dims_text(weight.view.shape), full("weight_shape"), size(rank - 2),
                     m_.in);
    m_.bits = static_cast<int>(dims[0] * 32 / m_.in);
    m_.codes = weight.view.data;
    const int64_t groups = scales->view.shape.dims[0];
    LLADA_TRY_STATUS(has_shape("weight_scale", *scales, shape(groups, m_.out)));
    LLADA_TRY_STATUS(divide_inputs("weight_scale", *scales, groups));
    m_.scales = by_row(*scales, type_of(*scales));
    LLADA_TRY_STATUS(check_order("weight_g_idx"));
    if (find("weight_zero_point") == nullptr) return {};
    LLADA_TRY(const auto* zeros, need("weight_zero_point", {"I32"}));
    const int64_t words = (m_.out * m_.bits + 31) / 32;
    LLADA_TRY_STATUS(has_shape("weight_zero_point", *zeros, shape(groups, words)));
    m_.zeros = {zeros->view.data, "I32", groups * words, groups, 1, 1};
    return {};
  }

  Status no_zeros() const {
    if (find("weight_zero_point") == nullptr) return {};
    return invalid("{}: tensor {}: numbers with an exponent are read without zeros alone", file_,
                   full("weight_zero_point"));
  }

  // NVFP4 and MXFP4 of compressed-tensors and ModelOpt.
  Status float4(const SafetensorsTensor& weight) {
    LLADA_TRY_STATUS(is_matrix("weight", weight));
    LLADA_TRY(const auto* scales, need("weight_scale", {"F8_E4M3", "U8", "F8_E8M0"}));
    const bool nv = scales->raw == "F8_E4M3";
    m_.code = Code::fp4;
    m_.group = nv ? 16 : 32;
    m_.codes = weight.view.data;
    const auto& dims = weight.view.shape.dims;
    m_.in = dims[0] * 2, m_.out = dims[1], m_.count = dims[2];
    LLADA_TRY_STATUS(has_shape("weight_scale", *scales, shape((m_.in + m_.group - 1) / m_.group, m_.out)));
    m_.scales = by_row(*scales, nv ? "F8_E4M3" : "E8M0");
    LLADA_TRY_STATUS(no_zeros());
    if (!nv) return {};
    m_.global_divides = find("weight_global_scale") != nullptr;
    if (m_.global_divides && find("weight_scale_2") != nullptr)
      return invalid("{}: tensors {} and {} are both there, one of them needed", file_, full("weight_global_scale"),
                     full("weight_scale_2"));
    LLADA_TRY(m_.global, one_each(m_.global_divides ? "weight_global_scale" : "weight_scale_2"));
    return {};
  }

  // FP8, and integers of 8 bits.
  Status bytes(const SafetensorsTensor& weight) {
    LLADA_TRY_STATUS(is_matrix("weight", weight));
    const bool integers = weight.raw == "I8";
    m_.code = integers ? Code::signed_byte : Code::fp8;
    m_.bits = 8;
    m_.codes = weight.view.data;
    const auto& dims = weight.view.shape.dims;
    m_.in = dims[0], m_.out = dims[1], m_.count = dims[2];
    const std::string_view part = find("weight_scale_inv") != nullptr ? "weight_scale_inv" : "weight_scale";
    LLADA_TRY(const auto* scales, need(part, {"F32", "F16", "BF16", "U8", "F8_E8M0"}));
    const Shape found = scales->view.shape;
    const std::string_view type = is_float(*scales) ? type_of(*scales) : "E8M0";
    constexpr int64_t kBlock = 128;
    const int64_t blocks = (m_.in + kBlock - 1) / kBlock;
    const Shape by_block = shape(blocks, (m_.out + kBlock - 1) / kBlock), by_output = shape(1, m_.out);
    m_.group = m_.in;
    if (!is_float(*scales)) {
      LLADA_TRY_STATUS(has_shape(part, *scales, shape(m_.in / 32, m_.out)));
      m_.group = 32;
      m_.scales = by_row(*scales, type);
    } else if (found.elements() == 1 || found.elements() == m_.count) {
      LLADA_TRY(m_.scales, one_each(part));
    } else if (found == by_output || found == Shape{{m_.out, m_.count, 1, 1}, m_.count > 1 ? 2 : 1}) {
      m_.scales = {scales->view.data, type, m_.out, 1, 0, 1};
    } else if (found == by_block && !integers) {
      m_.group = kBlock;
      m_.scales = by_row(*scales, type);
      m_.scales.group_step = 1;
      m_.scales.outputs = kBlock;
    } else {
      LLADA_TRY_STATUS(divide_inputs(part, *scales, found.dims[0]));
      if (found != shape(found.dims[0], m_.out))
        return invalid("{}: tensor {} is {}; needed one number, {} for rows, {} for blocks or NxOUT for groups", file_,
                       full(part), dims_text(found), dims_text(by_output), dims_text(by_block));
      m_.scales = by_row(*scales, type);
    }
    if (!integers) return no_zeros();
    if (find("weight_zero_point") == nullptr) return {};
    LLADA_TRY(const auto* zeros, need("weight_zero_point", {"I8"}));
    LLADA_TRY_STATUS(has_shape("weight_zero_point", *zeros, found));
    m_.zeros = m_.scales;
    m_.zeros.data = zeros->view.data;
    m_.zeros.type = "I8";
    return {};
  }

  void choose_type();

  const RoundedScheme& scheme_;
  const std::string& module_;
  const RoundedParts& parts_;
  std::string_view file_;
  RoundedMatrix m_;
};

// Whether all zeros are in the middle of the codes.
bool is_symmetric(const RoundedMatrix& m) {
  const int64_t middle = int64_t{1} << (m.bits - 1);
  for (int64_t e = 0; e < m.count; ++e)
    for (int64_t g = 0; g < m.in / m.group; ++g)
      for (int64_t o = 0; o < m.out; ++o)
        if (zero_of(m, e, o, g) != middle) return false;
  return true;
}

void Builder::choose_type() {
  if (m_.code == Code::fp8) {
    m_.type = DType::Q8_0;
    m_.exact = false;
  } else if (m_.code == Code::fp4) {
    m_.exact = m_.scales.type == "E8M0";
    m_.type = m_.exact ? DType::MXFP4 : DType::Q8_0;
  } else if (m_.code == Code::signed_byte) {
    m_.type = m_.zeros.data == nullptr ? DType::Q8_0 : DType::Q8_M;
  } else {
    if (m_.zeros.data != nullptr && is_symmetric(m_)) m_.zeros = {};
    const bool offset = m_.zeros.data != nullptr || m_.biases.data != nullptr;
    m_.type = !offset ? (m_.bits <= 4 ? DType::Q4_0 : DType::Q8_0)
                      : (m_.bits <= 4   ? DType::Q4_1
                         : m_.bits == 5 ? DType::Q5_1
                                        : DType::Q8_M);
    // An offset that is a product has more bits than F16. Scales of F32 lose theirs.
    const bool product = m_.zeros.data != nullptr, single = m_.scales.type == "F32" || m_.biases.type == "F32";
    m_.exact = m_.type == DType::Q8_M || (!product && !single);
  }
  if (m_.code == Code::signed_byte) m_.exact = m_.type == DType::Q8_M || m_.scales.type != "F32";
}

}  // namespace

bool is_rounded_part(std::string_view last_word) { return std::ranges::count(kParts, last_word) > 0; }
bool is_unused_scale(std::string_view last_word) { return std::ranges::count(kUnused, last_word) > 0; }

Result<RoundedMatrix> rounded_matrix(const RoundedScheme& scheme, const std::string& module, const RoundedParts& parts,
                                     std::string_view file) {
  return Builder(scheme, module, parts, file).build();
}

}  // namespace llada
