// llada convert: any model that opens, as a GGUF file of one type.
#include "engine/convert.h"

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "json/parse.h"

namespace llada::cli {

Work setup_convert(CLI::App& app) {
  struct Options {
    std::string source;
    ConvertRequest request;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  app.add_option("SOURCE", o->source, "a Hugging Face folder, a GGUF file or a short name")
      ->required()
      ->check(refuse_empty_path, "");
  only_file(app.add_option("OUT", o->request.out_path,
                           "the GGUF file to write; an existing one is replaced when the new one is complete"))
      ->required();
  offer(app.add_option("--type", o->request.type, conversion_types(", ", " or "))->type_name("TYPE")->required(),
        conversion_types(" ", " "));
  app.add_option("--imatrix", o->request.imatrix,
                 "an importance matrix, of `llada imatrix` or llama.cpp: where errors cost most")
      ->type_name("FILE")
      ->check(refuse_empty_path, "");
  app.add_flag("--json", o->json, "one JSON object on stdout");
  app.footer(
      "Examples:\n"
      "  llada convert LLaDA-8B-Instruct/ llada-8b-q8_0.gguf --type q8_0\n"
      "  llada convert model-f16.gguf model-q4_k_m.gguf --type q4_k_m --imatrix model-imatrix.gguf\n"
      "  llada convert sdar-1.7b sdar-1.7b-q8_0.gguf --type q8_0");
  return [o]() -> Result<int> {
    LLADA_TRY_STATUS(check_conversion_type(o->request.type));  // before a download
    ModelOptions source{.path = o->source, .hub = {}, .load = {}};
    source.load.system_root.clear();  // not loaded whole
    LLADA_TRY(o->request.path, model_path(source));
    ConvertReport report;
    {
      Progress progress("convert");
      LLADA_TRY(report, convert_model(o->request, [&](double fraction, std::string_view what) {
                  progress.update(fraction, what);
                }));
    }
    const ModelSummary& out = report.out;
    for (const std::string& line : report.notes) note(fmt::format("llada: warning: {}\n", one_line(line)));
    if (o->json) {
      LLADA_TRY_STATUS(print(json_line({{"source", o->source},
                                        {"out", o->request.out_path},
                                        {"type", o->request.type},
                                        {"bytes_in", report.bytes_in},
                                        {"bytes_out", out.file_bytes},
                                        {"types", types_json(out.types)},
                                        {"has_tokenizer", out.tokenizer.has_value()},
                                        {"notes", report.notes}})));
      return 0;
    }
    std::string types;  // vectors and rows that a type cannot hold are in another one
    for (const TypeTotal& t : out.types) types += fmt::format(", {} in {}", t.type, counted(t.tensors, "tensor"));
    LLADA_TRY_STATUS(print(fmt::format(
        "{}: {} from {}{}{}\n", one_line(o->request.out_path), bytes_text(static_cast<double>(out.file_bytes)),
        bytes_text(static_cast<double>(report.bytes_in)), types, out.tokenizer ? "" : ", no tokenizer")));
    return 0;
  };
}

}  // namespace llada::cli
