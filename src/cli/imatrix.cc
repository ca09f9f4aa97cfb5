// llada imatrix: the importance of a model's columns, for llada convert and llama.cpp's quantizer.

#include "base/file.h"
#include "base/numbers.h"
#include "base/os.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "cli/workspace.h"
#include "engine/importance.h"
#include "engine/model.h"
#include "json/parse.h"

namespace llada::cli {
namespace {

// The measurement would replace what it was made of.
Status refuse_same(const std::string& out, const std::string& in, std::string_view what) {
  if (!os::same_file(out, in)) return {};
  return invalid("{}: is {}; another file needed", out, what);
}

std::string refuse_rate(const std::string& text) {
  const auto rate = parse_number<double>(text);
  return rate && *rate >= 0 && *rate <= 1 ? "" : fmt::format("found '{}', needed a number from 0 to 1", text);
}

}  // namespace

Work setup_imatrix(CLI::App& app) {
  struct Options {
    ModelOptions model;
    ImportanceRequest request;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  add_model_options(app, o->model);
  app.add_option("--texts", o->request.text_name, "a text of the kind that the model will see; it is cut into canvases")
      ->type_name("FILE")
      ->required()
      ->check(refuse_empty_path, "");
  only_file(app.add_option("-o,--out", o->request.out_path, "the GGUF file to write"))
      ->type_name("FILE")
      ->required()
      ->check(refuse_empty_path, "");
  add_integer_option(app, "--length", o->request.length, 2, int64_t{1} << 16,
                     "tokens of a canvas (512, or the model's context)");
  add_integer_option(app, "--canvases", o->request.canvases, 0, int64_t{1} << 40,
                     "at most so many (0: the whole text)");
  app.add_option("--mask-rate", o->request.mask_rate, "of every canvas (another for each, uniform over 0 to 1)")
      ->type_name("R")
      ->check(refuse_rate, "");
  add_integer_option(app, "--seed", o->request.seed, 0, int64_t{1} << 62, "of the masks (0)");
  app.add_flag("--json", o->json, "one JSON object on stdout");
  app.footer(
      "Examples:\n"
      "  llada imatrix -m llada-8b-f16.gguf --texts wiki.txt -o importance.gguf\n"
      "  llada convert llada-8b-f16.gguf llada-8b-q4_k_m.gguf --type q4_k_m --imatrix importance.gguf");
  return [o]() -> Result<int> {
    LLADA_TRY_STATUS(AtomicFile::create(o->request.out_path));  // before minutes of work
    LLADA_TRY_STATUS(refuse_same(o->request.out_path, o->request.text_name, "the text"));
    LLADA_TRY(o->request.text, read_any_file(o->request.text_name));
    LLADA_TRY(const auto model, open_model(o->model));
    for (const MappedFile& file : model->file().files())
      LLADA_TRY_STATUS(refuse_same(o->request.out_path, file.path(), "a file of the model"));
    const InterruptGuard guard;
    ImportanceReport report;
    {
      Progress progress("imatrix");
      LLADA_TRY(report, measure_importance(model, o->request, [&](int64_t done, int64_t total) {
                  progress.update(static_cast<double>(done) / static_cast<double>(total),
                                  fmt::format("{} of {}", done, total));
                  return InterruptGuard::signal_number() == 0;
                }));
    }
    if (InterruptGuard::signal_number() != 0) return 128 + InterruptGuard::signal_number();
    if (!report.unseen.empty())
      note(fmt::format(
          "llada: warning: no row chose some experts of {} matrices (first: {}); their columns count alike\n",
          report.unseen.size(), report.unseen[0]));
    if (o->json) {
      LLADA_TRY_STATUS(print(json_line({{"out", o->request.out_path},
                                        {"matrices", report.matrices},
                                        {"canvases", report.canvases},
                                        {"rows", report.rows},
                                        {"masked", report.masked},
                                        {"unseen", report.unseen}})));
      return 0;
    }
    LLADA_TRY_STATUS(print(fmt::format("{}: {} matrices, {} of {}, {} of them masked\n", one_line(o->request.out_path),
                                       report.matrices, counted(report.canvases, "forward"),
                                       counted(report.rows, "row"), report.masked)));
    return 0;
  };
}

}  // namespace llada::cli
