#include "engine/convert.h"

#include "base/file.h"
#include "engine/model.h"
#include "formats/convert.h"

namespace llada {

Result<ConvertReport> convert_model(const std::string& path, const std::string& out_path,
                                    std::string_view type, const ConvertProgress& progress) {
  const auto dtype = dtype_from_name(type);
  if (!dtype)
    return invalid("type: found '{}', needed one of f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1", type);
  LLADA_TRY(const auto file, ModelFile::open(path));
  LLADA_TRY(const auto spec, load_tokenizer_spec(file));
  LLADA_TRY_STATUS(
      convert_to_gguf(file, spec ? &*spec : nullptr, out_path, {.type = *dtype, .progress = progress}));
  LLADA_TRY(const auto written, MappedFile::open(out_path));
  return ConvertReport{
      .bytes_in = file.file_bytes(), .bytes_out = written.bytes().size(), .has_tokenizer = spec.has_value()};
}

}  // namespace llada
