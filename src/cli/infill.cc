// llada infill: fills the gaps of a text.

#include "base/os.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "cli/workspace.h"
#include "engine/infill_text.h"
#include "json/parse.h"
#include "text/text_file.h"

namespace llada::cli {
namespace {

struct InfillOptions {
  ModelOptions model;
  DecodeFlags decode;
  ShowOptions show;
  std::string text, file;
  bool has_text = false, has_file = false;
};

Json spans_json(const Model& model, const InfillLayout& layout, const Generation& generation) {
  auto spans = Json::array();
  for (const InfillGap& gap : laid_gaps(layout.gaps, generation.gap_lengths)) {
    const auto filled =
        std::span(generation.tokens).subspan(static_cast<size_t>(gap.position), static_cast<size_t>(gap.length));
    spans.push_back({{"position", gap.position},
                     {"length", gap.length},
                     {"tokens", std::vector(filled.begin(), filled.end())},
                     {"text", printable_text(model.tokenizer().decode(filled), false)}});
  }
  return spans;
}

Result<int> infill(InfillOptions& o) {
  if (o.has_text + o.has_file != 1)
    return invalid("{} of --text and --file were given, needed exactly one", o.has_text + o.has_file);
  LLADA_TRY_STATUS(o.decode.resolve());
  std::string text;
  if (o.has_file || o.text == "-") {
    LLADA_TRY(text, read_text(o.has_file ? o.file : "-"));
  } else {
    LLADA_TRY(text, as_text(o.text, "--text"));
  }
  LLADA_TRY(const auto pieces, parse_infill_template(text));
  InfillLayout layout;
  Ready ready;
  const auto lay = [&](const Model& model) -> Status {
    LLADA_TRY(layout, lay_out_infill(model, pieces));
    LLADA_TRY(ready, prepare(model, {.tokens = layout.tokens,
                                     .gaps = layout.positions,
                                     .auto_gaps = layout.automatic(),
                                     .options = o.decode.options}));
    return {};
  };
  LLADA_TRY(const auto workspace, open_to_answer(o.model, o.show, o.decode, lay));

  const InterruptGuard guard;
  LLADA_TRY(const Generation generation, workspace->answer(ready));
  if (o.show.json) {
    LLADA_TRY_STATUS(print(json_line({{"text", printable_text(generation.text, false)},
                                      {"tokens", generation.tokens},
                                      {"preset", o.decode.preset()},
                                      {"spans", spans_json(workspace->model(), layout, generation)},
                                      {"stats", stats_json(generation.stats)}})));
  } else {
    LLADA_TRY_STATUS(print(printable_text(generation.text, is_terminal(os::kStdout)) + '\n'));
    if (!o.show.quiet)
      note((generation.stats.decode.cancelled ? unfinished_line(generation) : "") +
           stats_lines(generation.stats, o.decode.preset(), o.show.verbose));
  }
  LLADA_TRY_STATUS(workspace->close());
  return status_of(generation);
}

}  // namespace

Work setup_infill(CLI::App& app) {
  auto o = std::make_shared<InfillOptions>();
  auto first_word = std::make_shared<std::optional<std::string>>();
  add_model_options(app, o->model, *first_word);
  auto* text =
      app.add_option(
             "-p,--text,--prompt,TEXT", o->text,
             "text with gaps: <mask:N> is N tokens, <mask> one, <mask:auto> as many as seem right (<mask:auto:N>: at "
             "most N), \\<mask> text; - reads it from stdin")
          ->group("Text");
  auto* file =
      app.add_option("-f,--file", o->file, "a file with that text; - is stdin")->type_name("FILE")->group("Text");
  o->decode.use_defaults();
  add_decode_options(app, o->decode, true);
  add_show_options(app, o->show);
  app.footer(
      "The preset balanced is the default; options replace single values, --steps the whole preset.\n"
      "The text between gaps is tokenized piece by piece, each as if it stood alone.\n\n"
      "Examples:\n"
      "  llada infill model.gguf 'The <mask:4> fox jumps over the <mask:2> dog.'\n"
      "  llada infill -m model.gguf -f draft.txt --threshold 0.9 --json");
  return [o, first_word, text, file]() -> Result<int> {
    LLADA_TRY(o->has_text, place_model(o->model, *first_word, o->text, text->count() > 0));
    o->has_file = file->count() > 0;
    read_environment(o->model.load);
    auto status = infill(*o);
    if (!status) return std::unexpected(o->decode.named(status.error()));
    return status;
  };
}

}  // namespace llada::cli
