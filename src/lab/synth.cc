// llada-study synth: a model file with random weights and a published geometry.
#include "study/synth.h"

#include <span>

#include "cli/help.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "json/parse.h"
#include "lab/commands.h"

namespace llada::cli {

Work setup_synth(CLI::App& app) {
  struct Options {
    std::string out;
    std::string preset, type;
    int64_t layers = 0;
    SynthOptions synth;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  only_file(
      app.add_option("OUT", o->out, "the GGUF file to write; an existing one is replaced when the new one is complete"))
      ->required();
  // A wrong name is said before other things that are missing.
  const auto preset = [o](const std::string& text) {
    if (const auto found = synth_request(text, "f32", 0); !found)
      throw CLI::ValidationError("--" + found.error().message);
    o->preset = text;
  };
  const std::vector<std::string_view> names = synth_presets();
  const std::string help =
      fmt::format("{} or {}", fmt::join(std::span(names).first(names.size() - 1), ", "), names.back());
  offer(app.add_option_function<std::string>("--preset", preset, help)->type_name("NAME")->required(),
        fmt::format("{}", fmt::join(names, " ")));
  offer(app.add_option("--type", o->type, "type of every matrix: q4_0, q8_0, q4_k, f16 or any other that llada reads")
            ->type_name("TYPE")
            ->required(),
        "f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q4_k q5_k q6_k q2_k q3_k iq4_nl iq4_xs iq2_xxs iq2_xs iq2_s iq3_xxs "
        "iq3_s iq1_s iq1_m tq1_0 tq2_0 mxfp4 nvfp4");
  add_integer_option(app, "--layers", o->layers, 1, 1024, "that many layers in place of the published number");
  add_integer_option(app, "--seed", o->synth.seed, 0, INT64_MAX, "seed of the random weights (0)");
  add_integer_option(app, "--threads", o->synth.threads, 0, 1024, "threads; 0: one per physical core (0)");
  app.add_flag("--json", o->json, "one JSON object on stdout");
  app.footer(
      "The weights are noise: speed, memory and file handling are those of the real model, the text is "
      "not.\n\n"
      "Examples:\n"
      "  llada-study synth --preset llada-8b --type q4_0 llada-8b-q4_0.gguf\n"
      "  llada-study synth --preset llada-8b --type q8_0 --layers 2 short.gguf");
  return [o]() -> Result<int> {
    LLADA_TRY(const auto request, synth_request(o->preset, o->type, o->layers));
    SynthReport report;
    {
      Progress progress("synth");
      o->synth.progress = [&](double fraction, std::string_view what) { progress.update(fraction, what); };
      LLADA_TRY(report, synthesize_file(o->out, request, o->synth));
    }
    if (o->json) {
      LLADA_TRY_STATUS(print(json_line({{"out", o->out},
                                        {"preset", o->preset},
                                        {"type", o->type},
                                        {"model", report.model},
                                        {"parameters", report.parameters},
                                        {"bytes_out", report.bytes},
                                        {"runnable", report.no_run.empty()}})));
    } else {
      LLADA_TRY_STATUS(print(fmt::format("{}: {}, {} parameters with random values\n", one_line(o->out),
                                         bytes_text(static_cast<double>(report.bytes)), report.parameters)));
    }
    if (!report.no_run.empty()) note(fmt::format("llada-study synth: {}\n", one_line(report.no_run)));
    return 0;
  };
}

}  // namespace llada::cli
