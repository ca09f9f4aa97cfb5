// llada-study logits: one forward over token ids, all its logits into a file. For comparing this program with other
// implementations (tools/upstream), so nothing is tokenized and nothing is decided.
#include <numeric>

#include "base/numbers.h"
#include "cli/output_file.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "cli/workspace.h"
#include "json/parse.h"
#include "lab/commands.h"

namespace llada::cli {
namespace {

struct LogitsOptions {
  ModelOptions model;
  std::string ids, out;
  bool json = false;
};

Result<std::vector<int32_t>> parse_ids(std::string_view text, std::string_view where) {
  std::vector<int32_t> ids;
  constexpr std::string_view kSpace = " \t\r\n";
  for (size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;
       at = text.find_first_not_of(kSpace, at)) {
    const std::string_view word = text.substr(at, text.find_first_of(kSpace, at) - at);
    const auto id = parse_number<int32_t>(word);
    if (!id)
      return invalid("{}: found '{}' at number {}, a token id needed", one_line(std::string(where)),
                     one_line(std::string(word.substr(0, 40))), ids.size());
    ids.push_back(*id);
    at += word.size();
  }
  if (ids.empty()) return invalid("{}: found no token id, at least one needed", one_line(std::string(where)));
  return ids;
}

Result<int> logits(const LogitsOptions& o) {
  LLADA_TRY(const auto text, read_text(o.ids));
  LLADA_TRY(const auto ids, parse_ids(text, o.ids));
  LLADA_TRY(auto out, OutputFile::open(o.out));
  ModelOptions model = o.model;
  model.load.before_weights = [&](const Model& opened) { return check_text(opened, ids); };
  LLADA_TRY(const auto workspace, Workspace::open(model, {}));
  std::vector<int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0);
  LLADA_TRY(const auto values, workspace->session().logits(ids, positions));
  LLADA_TRY_STATUS(out.write({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
  LLADA_TRY_STATUS(out.commit());
  const int64_t vocab = workspace->model().config().vocab;
  LLADA_TRY_STATUS(out.report(
      o.json ? json_line({{"out", o.out}, {"rows", ids.size()}, {"vocab", vocab}})
             : fmt::format("{}: {} of {} logits\n", one_line(o.out), counted(std::ssize(ids), "row"), vocab)));
  return 0;
}

}  // namespace

Work setup_logits(CLI::App& app) {
  auto o = std::make_shared<LogitsOptions>();
  add_model_options(app, o->model);
  app.add_option("--ids", o->ids, "a file of token ids, with spaces between; - is stdin")
      ->type_name("FILE")
      ->required();
  app.add_option("-o,--out", o->out,
                 "the file to write: 32-bit floats as this processor stores them, a row per token; - is stdout")
      ->type_name("FILE")
      ->required();
  app.add_flag("--json", o->json, "one JSON object on stdout");
  app.footer(
      "One forward over the tokens as they are, masks among them. For DiffusionGemma all of them are one "
      "canvas. Row i is the model's output at position i.\n\n"
      "Examples:\n"
      "  echo 1000 72 101 1005 1005 | llada-study logits -m models/tiny-llada --ids - -o rows.f32\n"
      "  llada-study logits -m model.gguf --ids ids.txt -o rows.f32 --json");
  return [o] {
    read_environment(o->model.load);
    return logits(*o);
  };
}

}  // namespace llada::cli
