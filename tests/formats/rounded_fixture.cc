#include "formats/rounded_fixture.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "tensor/half.h"

namespace llada::testing_models {
namespace {

std::mt19937& random() {
  static std::mt19937 engine(7);
  return engine;
}
int draw(int below) { return static_cast<int>(random()() % static_cast<unsigned>(below)); }

template <typename T>
std::string bytes_of(const std::vector<T>& list) {
  return {reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T)};
}
// Multiples of 1/512, so that every type of floats has them.
std::vector<float> draw_scales(int64_t count) {
  std::vector<float> list(static_cast<size_t>(count));
  for (float& one : list) one = static_cast<float>(1 + draw(127)) / 512.0f;
  return list;
}
FilePart floats(std::string name, std::vector<int64_t> shape, const std::vector<float>& list, const std::string& type) {
  std::vector<uint16_t> half;
  for (const float one : list) half.push_back(type == "F16" ? float_to_f16(one) : float_to_bf16(one));
  return {std::move(name), type, std::move(shape), type == "F32" ? bytes_of(list) : bytes_of(half)};
}

using Codes = std::vector<int>;  // [out][in]
Codes draw_codes(int64_t count, int bits) {
  Codes codes(static_cast<size_t>(count));
  for (int& one : codes) one = draw(1 << bits);
  return codes;
}

// Words of a line of codes, the first in the lowest bits.
std::vector<uint32_t> words_of(const std::vector<int>& line, int bits) {
  std::vector<uint32_t> words((line.size() * static_cast<size_t>(bits) + 31) / 32);
  for (size_t i = 0; i < line.size(); ++i)
    for (int b = 0; b < bits; ++b)
      if ((line[i] >> b & 1) != 0) {
        const size_t at = i * static_cast<size_t>(bits) + static_cast<size_t>(b);
        words[at / 32] |= 1u << at % 32;
      }
  return words;
}
std::vector<uint32_t> rows_of_words(const Codes& codes, int64_t in, int bits) {
  std::vector<uint32_t> all;
  for (size_t r = 0; r < codes.size(); r += static_cast<size_t>(in)) {
    const auto words = words_of(
        {codes.begin() + static_cast<std::ptrdiff_t>(r), codes.begin() + static_cast<std::ptrdiff_t>(r) + in}, bits);
    all.insert(all.end(), words.begin(), words.end());
  }
  return all;
}
// The same along the columns of [lines][columns]: [words of a column][columns].
std::vector<uint32_t> columns_of_words(const Codes& codes, int64_t columns, int bits) {
  const size_t wide = static_cast<size_t>(columns), lines = codes.size() / wide;
  std::vector<uint32_t> all((lines * static_cast<size_t>(bits) + 31) / 32 * wide);
  for (size_t c = 0; c < wide; ++c) {
    std::vector<int> line;
    for (size_t r = 0; r < lines; ++r) line.push_back(codes[r * wide + c]);
    const auto words = words_of(line, bits);
    for (size_t w = 0; w < words.size(); ++w) all[w * wide + c] = words[w];
  }
  return all;
}
Codes transposed(const Codes& codes, int64_t columns) {
  Codes out;
  for (int64_t c = 0; c < columns; ++c)
    for (size_t r = 0; r < codes.size(); r += static_cast<size_t>(columns))
      out.push_back(codes[r + static_cast<size_t>(c)]);
  return out;
}

double float4(int code) {
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code < 8 ? kValues[code] : -kValues[code - 8];
}
double float8(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double value = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code < 128 ? value : -value;
}
Codes draw_float8(int64_t count) {
  Codes codes = draw_codes(count, 8);
  for (int& one : codes)
    if ((one & 127) == 127) one = 0x38;
  return codes;
}
std::string as_bytes_of(const Codes& codes) { return {codes.begin(), codes.end()}; }

// value(code, index of its group) for all.
RoundedFixture fixture(const Codes& codes, int64_t out, int64_t in,
                       const std::function<double(int code, int64_t o, int64_t i)>& value) {
  RoundedFixture f;
  for (int64_t o = 0; o < out; ++o)
    for (int64_t i = 0; i < in; ++i)
      f.values.push_back(static_cast<float>(value(codes[static_cast<size_t>(o * in + i)], o, i)));
  return f;
}

RoundedForm mlx_affine(int bits, const std::string& type, DType as) {
  const auto make = [=](int64_t out, int64_t in) {
    const int64_t groups = in / 32;
    const Codes codes = draw_codes(out * in, bits);
    const auto scales = draw_scales(out * groups), biases = draw_scales(out * groups);
    RoundedFixture f = fixture(codes, out, in, [&](int q, int64_t o, int64_t i) {
      const auto g = static_cast<size_t>(o * groups + i / 32);
      return double{scales[g]} * q - double{biases[g]};
    });
    auto below = biases;
    for (float& one : below) one = -one;
    f.parts = {{"weight", "U32", {out, in * bits / 32}, bytes_of(rows_of_words(codes, in, bits))},
               floats("scales", {out, groups}, scales, type),
               floats("biases", {out, groups}, below, type)};
    return f;
  };
  return {
      fmt::format("mlx_{}_{}", bits, type),
      fmt::format(R"("quantization":{{"group_size":32,"bits":{}}},"quantization_config":{{"group_size":32,"bits":{}}})",
                  bits, bits),
      make, as, as == DType::Q8_M ? 1e-6 : 0};
}

RoundedForm mlx_small(const std::string& mode) {
  const int bits = mode == "mxfp8" ? 8 : 4, group = mode == "nvfp4" ? 16 : 32;
  const auto make = [=](int64_t out, int64_t in) {
    const int64_t groups = in / group;
    const Codes codes = bits == 8 ? draw_float8(out * in) : draw_codes(out * in, 4);
    Codes scales;
    for (int64_t i = 0; i < out * groups; ++i) scales.push_back(mode == "nvfp4" ? 8 + draw(100) : 118 + draw(8));
    RoundedFixture f = fixture(codes, out, in, [&](int q, int64_t o, int64_t i) {
      const int s = scales[static_cast<size_t>(o * groups + i / group)];
      return (bits == 8 ? float8(q) : float4(q)) * (mode == "nvfp4" ? float8(s) : std::ldexp(1, s - 127));
    });
    f.parts = {{"weight", "U32", {out, in * bits / 32}, bytes_of(rows_of_words(codes, in, bits))},
               {"scales", "U8", {out, groups}, as_bytes_of(scales)}};
    return f;
  };
  return {"mlx_" + mode, fmt::format(R"("quantization":{{"group_size":{},"bits":{},"mode":"{}"}})", group, bits, mode),
          make, mode == "mxfp4" ? DType::MXFP4 : DType::Q8_0,
          mode == "mxfp4"   ? 0
          : mode == "mxfp8" ? 0.0042
                            : 0.0066};
}

// Packed along the inputs, with a zero of its own for each group of inputs of an output.
RoundedForm gptq(int bits, bool symmetric, bool second, DType as) {
  const auto make = [=](int64_t out, int64_t in) {
    const int64_t groups = in / 32;
    const Codes codes = draw_codes(out * in, bits);
    const auto scales = draw_scales(groups * out);  // [groups][out]
    Codes zeros;
    for (int64_t i = 0; i < groups * out; ++i) zeros.push_back(symmetric ? 1 << (bits - 1) : draw(1 << bits));
    RoundedFixture f = fixture(codes, out, in, [&](int q, int64_t o, int64_t i) {
      const auto g = static_cast<size_t>(i / 32 * out + o);
      return double{scales[g]} * (q - zeros[g]);
    });
    auto stored = rows_of_words(zeros, out, bits);
    if (!second)  // whole words less a one in each place, so that a zero of 0 borrows from the next
      for (auto& word : stored) word -= ~uint32_t{0} / ((1u << bits) - 1);
    std::vector<int32_t> order;
    for (int64_t i = 0; i < in; ++i) order.push_back(static_cast<int32_t>(i / 32));
    f.parts = {{"qweight", "I32", {in * bits / 32, out}, bytes_of(columns_of_words(transposed(codes, in), out, bits))},
               {"qzeros", "I32", {groups, out * bits / 32}, bytes_of(stored)},
               floats("scales", {groups, out}, scales, "F16"),
               {"g_idx", "I32", {in}, bytes_of(order)}};
    return f;
  };
  return {fmt::format("gptq_{}{}{}", bits, symmetric ? "_symmetric" : "", second ? "_v2" : ""),
          fmt::format(R"("quantization_config":{{"quant_method":"gptq","bits":{},"group_size":32,"sym":{},)"
                      R"("desc_act":false,"checkpoint_format":"{}"}})",
                      bits, symmetric, second ? "gptq_v2" : "gptq"),
          make, as,
          symmetric           ? 0
          : as == DType::Q8_M ? 1e-6
                              : 1e-3};
}

RoundedForm awq() {
  const auto make = [](int64_t out, int64_t in) {
    constexpr int kColumns[8] = {0, 2, 4, 6, 1, 3, 5, 7};  // of a word's nibbles, the lowest first
    const int64_t groups = in / 32;
    const Codes codes = draw_codes(out * in, 4), zeros = draw_codes(groups * out, 4);
    const auto scales = draw_scales(groups * out);
    RoundedFixture f = fixture(codes, out, in, [&](int q, int64_t o, int64_t i) {
      const auto g = static_cast<size_t>(i / 32 * out + o);
      return double{scales[g]} * (q - zeros[g]);
    });
    const auto words = [&](const Codes& lines) {  // of [lines][out]
      Codes moved(lines.size());
      for (size_t i = 0; i < lines.size(); ++i) moved[i] = lines[i / 8 * 8 + static_cast<size_t>(kColumns[i % 8])];
      return bytes_of(rows_of_words(moved, out, 4));
    };
    f.parts = {{"qweight", "I32", {in, out / 8}, words(transposed(codes, in))},
               {"qzeros", "I32", {groups, out / 8}, words(zeros)},
               floats("scales", {groups, out}, scales, "F16")};
    return f;
  };
  return {"awq",
          R"("quantization_config":{"quant_method":"awq","bits":4,"group_size":32,"version":"gemm","zero_point":true})",
          make, DType::Q4_1, 1e-3};
}

std::string compressed(const std::string& format) {
  return fmt::format(R"("quantization_config":{{"quant_method":"compressed-tensors","format":"{}",)"
                     R"("quantization_status":"compressed","ignore":["lm_head"],"kv_cache_scheme":null}})",
                     format);
}

RoundedForm packed(int bits, bool symmetric, bool channel, DType as) {
  const auto make = [=](int64_t out, int64_t in) {
    const int64_t group = channel ? in : 32, groups = in / group;
    const Codes codes = draw_codes(out * in, bits);
    const auto scales = draw_scales(out * groups);
    const Codes zeros =
        symmetric ? Codes(static_cast<size_t>(out * groups), 1 << (bits - 1)) : draw_codes(out * groups, bits);
    RoundedFixture f = fixture(codes, out, in, [&](int q, int64_t o, int64_t i) {
      const auto g = static_cast<size_t>(o * groups + i / group);
      return double{scales[g]} * (q - zeros[g]);
    });
    f.parts = {{"weight_packed", "I32", {out, in * bits / 32}, bytes_of(rows_of_words(codes, in, bits))},
               floats("weight_scale", {out, groups}, scales, "BF16"),
               {"weight_shape", "I64", {2}, bytes_of(std::vector<int64_t>{out, in})}};
    if (!symmetric)
      f.parts.push_back(
          {"weight_zero_point", "I32", {out * bits / 32, groups}, bytes_of(columns_of_words(zeros, groups, bits))});
    return f;
  };
  return {fmt::format("packed_{}{}{}", bits, symmetric ? "" : "_zeros", channel ? "_rows" : ""),
          compressed("pack-quantized"), make, as,
          symmetric           ? 0
          : as == DType::Q8_M ? 1e-6
                              : 1e-3};
}

RoundedForm eight_bit_integers() {
  const auto make = [](int64_t out, int64_t in) {
    const Codes codes = draw_codes(out * in, 8);
    const auto scales = draw_scales(out);
    RoundedFixture f = fixture(codes, out, in, [&](int q, int64_t o, int64_t) {
      return double{scales[static_cast<size_t>(o)]} * static_cast<int8_t>(q);
    });
    f.parts = {{"weight", "I8", {out, in}, as_bytes_of(codes)}, floats("weight_scale", {out, 1}, scales, "BF16")};
    return f;
  };
  return {"integers_8", compressed("int-quantized"), make, DType::Q8_0, 0};
}

enum class Each { tensor, row, block };
RoundedForm float8_form(const std::string& name, const std::string& config, Each each) {
  const auto make = [=](int64_t out, int64_t in) {
    const Codes codes = draw_float8(out * in);
    const int64_t across = (in + 127) / 128, down = (out + 127) / 128;
    const auto scales = draw_scales(each == Each::tensor ? 1 : each == Each::row ? out : down * across);
    RoundedFixture f = fixture(codes, out, in, [&](int q, int64_t o, int64_t i) {
      const int64_t s = each == Each::tensor ? 0 : each == Each::row ? o : o / 128 * across + i / 128;
      return float8(q) * double{scales[static_cast<size_t>(s)]};
    });
    const std::vector<int64_t> shape = each == Each::tensor ? std::vector<int64_t>{}
                                       : each == Each::row  ? std::vector<int64_t>{out, 1}
                                                            : std::vector<int64_t>{down, across};
    f.parts = {{"weight", "F8_E4M3", {out, in}, as_bytes_of(codes)},
               floats(each == Each::block ? "weight_scale_inv" : "weight_scale", shape, scales,
                      each == Each::row ? "BF16" : "F32")};
    if (each == Each::tensor) f.parts.push_back(floats("input_scale", {}, {1.0f}, "F32"));
    return f;
  };
  return {name, config, make, DType::Q8_0, 0.0042};
}

RoundedForm nvfp4(const std::string& name, const std::string& config, bool divides) {
  const auto make = [=](int64_t out, int64_t in) {
    const int64_t groups = in / 16;
    const Codes codes = draw_codes(out * in, 4);
    Codes scales;
    for (int64_t i = 0; i < out * groups; ++i) scales.push_back(8 + draw(118));
    const float global = divides ? 48.0f : 1.0f / 48.0f;
    RoundedFixture f = fixture(codes, out, in, [&](int q, int64_t o, int64_t i) {
      const double s = float8(scales[static_cast<size_t>(o * groups + i / 16)]);
      return float4(q) * (divides ? s / double{global} : s * double{global});
    });
    f.parts = {{divides ? "weight_packed" : "weight", "U8", {out, in / 2}, bytes_of(rows_of_words(codes, in, 4))},
               {"weight_scale", "F8_E4M3", {out, groups}, as_bytes_of(scales)},
               floats(divides ? "weight_global_scale" : "weight_scale_2",
                      divides ? std::vector<int64_t>{1} : std::vector<int64_t>{}, {global}, "F32"),
               floats(divides ? "input_global_scale" : "input_scale", {}, {1.0f}, "F32")};
    return f;
  };
  return {name, config, make, DType::Q8_0, 0.0066};
}

RoundedForm mxfp4() {
  const auto make = [](int64_t out, int64_t in) {
    const int64_t groups = in / 32;
    const Codes codes = draw_codes(out * in, 4);
    Codes scales;
    for (int64_t i = 0; i < out * groups; ++i) scales.push_back(118 + draw(8));
    RoundedFixture f = fixture(codes, out, in, [&](int q, int64_t o, int64_t i) {
      return float4(q) * std::ldexp(1, scales[static_cast<size_t>(o * groups + i / 32)] - 127);
    });
    f.parts = {{"weight_packed", "U8", {out, in / 2}, bytes_of(rows_of_words(codes, in, 4))},
               {"weight_scale", "U8", {out, groups}, as_bytes_of(scales)}};
    return f;
  };
  return {"mxfp4", compressed("mxfp4-pack-quantized"), make, DType::MXFP4, 0};
}

}  // namespace

std::string safetensors_of(const std::vector<FilePart>& parts) {
  std::string header = "{", data;
  for (const FilePart& part : parts) {
    header +=
        fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", header.size() > 1 ? "," : "",
                    part.name, part.type, fmt::join(part.shape, ","), data.size(), data.size() + part.bytes.size());
    data += part.bytes;
  }
  header += "}";
  std::string out(8, '\0');
  for (size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> (8 * i));
  return out + header + data;
}

std::vector<RoundedForm> rounded_forms() {
  const std::string modelopt = R"("quantization_config":{"quant_method":"modelopt","quant_algo":")";
  return {mlx_affine(2, "BF16", DType::Q4_1),
          mlx_affine(3, "F16", DType::Q4_1),
          mlx_affine(4, "BF16", DType::Q4_1),
          mlx_affine(4, "F32", DType::Q4_1),
          mlx_affine(5, "BF16", DType::Q5_1),
          mlx_affine(6, "BF16", DType::Q8_M),
          mlx_affine(8, "F16", DType::Q8_M),
          mlx_small("mxfp4"),
          mlx_small("mxfp8"),
          mlx_small("nvfp4"),
          gptq(4, true, false, DType::Q4_0),
          gptq(4, true, true, DType::Q4_0),
          gptq(4, false, false, DType::Q4_1),
          gptq(2, true, false, DType::Q4_0),
          gptq(3, false, true, DType::Q4_1),
          gptq(8, true, false, DType::Q8_0),
          gptq(8, false, true, DType::Q8_M),
          awq(),
          packed(4, true, false, DType::Q4_0),
          packed(4, false, false, DType::Q4_1),
          packed(4, true, true, DType::Q4_0),
          packed(8, true, false, DType::Q8_0),
          packed(8, false, true, DType::Q8_M),
          packed(3, true, false, DType::Q4_0),
          packed(6, true, false, DType::Q8_0),
          eight_bit_integers(),
          mxfp4(),
          float8_form("float8_rows", compressed("float-quantized"), Each::row),
          float8_form("float8_tensor", modelopt + R"(FP8"})", Each::tensor),
          float8_form("float8_blocks",
                      R"("quantization_config":{"quant_method":"fp8","weight_block_size":[128,128],"fmt":"e4m3"})",
                      Each::block),
          nvfp4("nvfp4_modelopt", modelopt + R"(NVFP4"})", false),
          nvfp4("nvfp4_packed", compressed("nvfp4-pack-quantized"), true)};
}

RoundedForm rounded_form(const std::string& name) {
  for (RoundedForm& form : rounded_forms())
    if (form.name == name) return form;
  LLADA_CHECK(false);
  return {};
}

RoundedFolder rounded_folder(const ModelConfig& config, const RoundedForm& form,
                             const std::function<void(std::vector<FilePart>&)>& change) {
  random().seed(std::accumulate(form.name.begin(), form.name.end(), 7U, [](unsigned h, char c) { return 31 * h + c; }));
  RoundedFolder folder;
  const auto names = hf_names(config, Style::standard);
  std::vector<FilePart> parts;
  for (FakeTensor& tensor : hf_tensors(config)) {
    const std::string& name = names.at(tensor.name);
    const bool matrix = tensor.shape.rank == 2 && tensor.name.starts_with("blk.") && !name.contains("mlp.gate.");
    if (matrix) {
      RoundedFixture f = form.make(tensor.shape.rows(), tensor.shape.columns());
      for (FilePart& part : f.parts) {
        part.name = name.substr(0, name.rfind('.') + 1) + part.name;
        parts.push_back(std::move(part));
      }
      tensor.values = std::move(f.values);
    } else {
      std::vector<int64_t> shape(tensor.shape.dims.begin(), tensor.shape.dims.begin() + tensor.shape.rank);
      std::ranges::reverse(shape);
      parts.push_back(floats(name, shape, tensor.values, "BF16"));
    }
    folder.values.push_back(std::move(tensor));
  }
  if (change) change(parts);
  std::string json = hf_config_json(config, Style::standard);
  json.pop_back();
  folder.config = json + "," + form.config + "}";
  folder.weights = safetensors_of(parts);
  return folder;
}

ModelConfig config_of_bytes(const Family* family) {
  ModelConfig config = tiny_config(family);
  config.vocab = 258;
  config.mask_id = kByteMask;
  config.eos_id = config.pad_id = kByteEnd;
  return config;
}

std::map<std::string, std::string> files_of(const RoundedFolder& folder) {
  std::string vocab;
  int other = 256;
  for (int b = 0; b < 256; ++b) {
    const bool plain = (b > 32 && b < 127) || (b > 160 && b < 256 && b != 173);
    vocab += fmt::format(R"({}"\u{:04x}":{})", b > 0 ? "," : "", plain ? b : other++, b);
  }
  const std::string tokenizer =
      fmt::format(R"({{"added_tokens":[{{"id":{},"content":"<|mdm_mask|>","special":true}},)"
                  R"({{"id":{},"content":"<|endoftext|>","special":true}}],"pre_tokenizer":{{"type":"ByteLevel",)"
                  R"("add_prefix_space":false,"use_regex":true}},"model":{{"type":"BPE","vocab":{{{}}},)"
                  R"("merges":[]}}}})",
                  kByteMask, kByteEnd, vocab);
  return {{"config.json", folder.config}, {"model.safetensors", folder.weights}, {"tokenizer.json", tokenizer}};
}

}  // namespace llada::testing_models
