#include "engine/convert.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "engine/folder_check.h"
#include "engine/model.h"
#include "formats/convert.h"
#include "tensor/quantize.h"

namespace llada {
namespace {

// The names of the types of a file's matrices that are groups of rounded values.
std::vector<std::string> quantized_types(const ModelFile& file) {
  std::vector<std::string> names;
  for (const ModelTensor& tensor : file.tensors()) {
    const DTypeTraits& type = traits(tensor.view.type);
    if (type.quantized && std::ranges::count(names, type.name) == 0) names.emplace_back(type.name);
  }
  return names;
}

}  // namespace

Status check_conversion_type(std::string_view type) {
  if (const auto dtype = dtype_from_name(type); dtype && can_quantize(*dtype)) return {};
  return invalid("type: found '{}', needed one of f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1", type);
}

Result<ConvertReport> convert_model(const std::string& path, const std::string& out_path, std::string_view type,
                                    const ConvertProgress& progress) {
  LLADA_TRY_STATUS(check_conversion_type(type));
  LLADA_TRY(const auto file, ModelFile::open(path));
  LLADA_TRY(const auto spec, load_tokenizer_spec(file));
  if (spec) {  // a file that nobody could open is not written, which may take long and replace a file
    LLADA_TRY(const auto tokenizer, Tokenizer::create(*spec, path));
    LLADA_TRY_STATUS(check_tokens_fit(file.config(), tokenizer.vocab_size(), path));
  }
  // A folder may say what a GGUF file cannot, or this program's reader refuses there.
  const auto check = [&](const std::string& written) -> Status {
    const auto opened = inspect_model(written);
    if (opened) return {};
    const std::string& why = opened.error().message;
    return invalid("{}: cannot be kept in a GGUF file: {}", path,
                   why.starts_with(written) ? out_path + why.substr(written.size()) : why);
  };
  LLADA_TRY_STATUS(convert_to_gguf(file, spec ? &*spec : nullptr, out_path,
                                   {.type = *dtype_from_name(type), .progress = progress, .check = check}));
  auto written = inspect_model(out_path);
  if (!written) return failed("the written file does not open: {}", written.error().message);
  std::vector<std::string> notes;
  if (const auto from = quantized_types(file); !from.empty() && from != std::vector<std::string>{std::string(type)})
    notes.push_back(
        fmt::format("{} holds weights in {}, which are rounded already; converting the original gives better "
                    "ones",
                    path, fmt::join(from, ", ")));
  notes.insert(notes.end(), file.config().notes.begin(), file.config().notes.end());
  for (const std::string& note : written->config.notes)
    if (std::ranges::count(notes, note) == 0) notes.push_back(note);
  return ConvertReport{.bytes_in = file.file_bytes(), .out = std::move(*written), .notes = std::move(notes)};
}

}  // namespace llada
