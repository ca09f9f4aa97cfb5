#include "engine/convert.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/os.h"
#include "engine/folder_check.h"
#include "engine/model.h"
#include "formats/convert.h"
#include "formats/imatrix.h"
#include "formats/type_mix.h"

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

std::string conversion_types(std::string_view between, std::string_view before_last) {
  return type_mix_names(between, before_last);
}

Status check_conversion_type(std::string_view type) {
  if (find_type_mix(type) != nullptr) return {};
  return invalid("type: found '{}', needed one of {}", type, type_mix_names(", ", ", "));
}

Result<ConvertReport> convert_model(const ConvertRequest& request, const ConvertProgress& progress) {
  const auto& [path, out_path, type, weights] = request;
  LLADA_TRY_STATUS(check_conversion_type(type));
  std::optional<Imatrix> imatrix;
  if (!weights.empty()) {
    if (os::same_file(weights, out_path))
      return invalid("{}: is the importance matrix; another output path needed", out_path);
    LLADA_TRY(imatrix, Imatrix::open(weights));
  }
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
  const TypeMix* mix = find_type_mix(type);
  LLADA_TRY(
      std::vector<std::string> notes,
      convert_to_gguf(file, spec ? &*spec : nullptr, out_path,
                      {.mix = mix, .imatrix = imatrix ? &*imatrix : nullptr, .progress = progress, .check = check}));
  auto written = inspect_model(out_path);
  if (!written) return failed("the written file does not open: {}", written.error().message);
  if (const auto from = quantized_types(file);
      !from.empty() && from != std::vector<std::string>{std::string(traits(mix->type).name)})
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
