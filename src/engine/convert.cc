#include "engine/convert.h"

#include "engine/model.h"
#include "formats/convert.h"
#include "tensor/quantize.h"

namespace llada {

Result<ConvertReport> convert_model(const std::string& path, const std::string& out_path, std::string_view type,
                                    const ConvertProgress& progress) {
  const auto dtype = dtype_from_name(type);
  if (!dtype || !can_quantize(*dtype))
    return invalid("type: found '{}', needed one of f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1", type);
  LLADA_TRY(const auto file, ModelFile::open(path));
  LLADA_TRY(const auto spec, load_tokenizer_spec(file));
  LLADA_TRY_STATUS(convert_to_gguf(file, spec ? &*spec : nullptr, out_path, {.type = *dtype, .progress = progress}));
  auto written = inspect_model(out_path);
  if (!written) return failed("the written file does not open: {}", written.error().message);
  std::vector<std::string> notes = llama_cpp_notes(file.config(), spec ? &*spec : nullptr);
  notes.insert(notes.end(), file.config().notes.begin(), file.config().notes.end());
  return ConvertReport{.bytes_in = file.file_bytes(), .out = std::move(*written), .notes = std::move(notes)};
}

}  // namespace llada
