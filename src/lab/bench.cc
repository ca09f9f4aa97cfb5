// llada-study bench: the machine's ceilings, and how near kernels, forwards and whole runs come to them.
#include "lab/bench/bench.h"

#include <algorithm>
#include <array>
#include <optional>

#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "json/parse.h"
#include "lab/bench_report.h"
#include "lab/commands.h"

namespace llada::cli {
namespace {

struct Options {
  bench::BenchOptions bench;
  int64_t stream_mib = 256;
  ModelOptions hub;  // of which only -hf is used
  bool json = false, quick = false;
};

constexpr int64_t kQuickLayers = 8;  // making the weights of all would take longest

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

template <class Set>
void add_list_option(CLI::App& app, const std::string& name, const char* type, const std::string& help, Set set) {
  app.add_option_function<std::string>(
         name,
         [name, set](const std::string& text) {
           if (const Status status = set(split(text)); !status)
             throw CLI::ValidationError(name, status.error().message);
         },
         help)
      ->type_name(type);
}

Status read_numbers(const std::vector<std::string>& words, int64_t most, std::vector<int64_t>& numbers) {
  numbers.clear();
  for (const std::string& word : words) {
    LLADA_TRY(const int64_t value, parse_integer(word, 1, most));
    numbers.push_back(value);
  }
  return {};
}

Status read_types(const std::vector<std::string>& words, std::vector<DType>& types) {
  types.clear();
  for (const std::string& word : words) {
    const auto type = dtype_from_name(word);
    if (!type) return invalid("found '{}', needed types such as q4_0, q8_0, q4_k, q6_k, f16", word);
    types.push_back(*type);
  }
  return {};
}

Status read_parts(const std::vector<std::string>& words, bench::Parts& parts) {
  const std::array places = {std::pair{"machine", &parts.machine},    std::pair{"gemm", &parts.gemm},
                             std::pair{"forward", &parts.forward},    std::pair{"attention", &parts.attention},
                             std::pair{"e2e", &parts.end_to_end},     std::pair{"shared", &parts.shared},
                             std::pair{"sustained", &parts.sustained}};
  for (const auto& [name, part] : places) *part = false;
  for (const std::string& word : words) {
    const auto found = std::ranges::find(places, word, [](const auto& place) { return place.first; });
    if (found == places.end())
      return invalid("found '{}', needed some of machine, gemm, forward, attention, e2e, shared, sustained", word);
    *found->second = true;
  }
  return {};
}

// Settings that were not given become little: a first impression, with fewer figures behind each median.
void make_quick(const CLI::App& app, Options& o) {
  const auto left_open = [&](const char* name) { return app.get_option(name)->count() == 0; };
  bench::BenchOptions& b = o.bench;
  if (left_open("--only")) {
    b.parts = {.machine = true, .gemm = false, .forward = true, .attention = false, .end_to_end = true};
    if (b.preset.empty() && b.model.empty()) b.parts.forward = b.parts.end_to_end = false;
  }
  if (left_open("--rows")) b.rows = {1, 32};
  if (left_open("--repeats")) b.repeats = 2;
  if (left_open("--stream-mib")) o.stream_mib = 64;
  if (left_open("--gen-length")) b.gen_length = 32;
  b.one_run = true;
  if (left_open("--layers")) b.most_layers = kQuickLayers;
}

Result<int> run(Options& o) {
  bench::BenchOptions& options = o.bench;
  const InterruptGuard guard;
  std::optional<Progress> progress;
  BenchPrinter printer(options.stream_bytes);
  Status shown;
  double announced = 0;
  const auto show = [&](const std::string& text) {
    if (text.empty() || !shown) return;
    if (progress) progress->hide();
    shown = print(text);
  };
  options.progress = [&](std::string_view what, double done_s, double all_s) {
    if (!progress) progress.emplace("bench");
    if (announced == 0 && all_s > 0) {
      announced = all_s;
      progress->say(fmt::format("bench: this will take {}{}", duration_text(all_s),
                                all_s > 90 && !o.quick ? "; --quick takes about a minute" : ""));
    }
    progress->update(all_s > 0 ? done_s / all_s : 0,
                     all_s > 0 ? fmt::format("{}; {}", what, time_left_text(all_s - done_s)) : std::string(what));
  };
  bench::BenchReport last;  // for an end in the middle of something
  options.result = [&](const bench::BenchReport& report) {
    last = report;
    if (!o.json) show(printer.update(report));
  };
  const auto text_of = [&](const bench::BenchReport& report) {
    return o.json ? json_line(bench_json(report)) : printer.finish(report, options.parts);
  };
  options.leave = [&] {
    last.interrupted = true;
    show(text_of(last));
    std::_Exit(128 + InterruptGuard::signal_number());
  };
  options.stopped = [&] { return InterruptGuard::signal_number() != 0 || !shown; };
  auto report = bench::run_bench(options);
  progress.reset();
  LLADA_TRY_STATUS(shown);
  if (!report) return std::unexpected(report.error());
  LLADA_TRY_STATUS(print(text_of(*report)));
  return report->interrupted ? 128 + InterruptGuard::signal_number() : 0;
}

}  // namespace

Work setup_bench(CLI::App& app) {
  auto o = std::make_shared<Options>();
  bench::BenchOptions& b = o->bench;
  b.types = {DType::Q4_0, DType::Q8_0, DType::Q4_K, DType::Q6_K};
  app.add_option("-m,--model,MODEL", b.model, "a GGUF file or a Hugging Face folder")->type_name("MODEL");
  add_hub_option(app, o->hub, further("Details"));
  app.add_option("--preset", b.preset,
                 "in place of a model: a published geometry with random weights, such as llada-8b:q4_0")
      ->type_name("NAME:TYPE");
  add_integer_option(app, "--layers", b.layers, 1, 1024, "layers of the preset (as published)");
  app.add_option("--router-bias", b.router_bias,
                 "of a preset with selection biases (llada2-mini): their spread; a larger one sends a block's rows to "
                 "fewer experts (0.05)")
      ->type_name("S")
      ->check(CLI::Range(0.0, 100.0).description(""))
      ->group(further("Details"));
  add_list_option(app, "--only", "PARTS",
                  "some of machine, gemm, forward, attention, e2e, shared, sustained (all but the last two)",
                  [&b](const auto& words) { return read_parts(words, b.parts); });
  add_list_option(app, "--rows", "LIST", "numbers of rows of products and forwards (1,8,16,32,64,128)",
                  [&b](const auto& words) { return read_numbers(words, 4096, b.rows); });
  add_list_option(app, "--types", "LIST", "types of the matrix products (q4_0,q8_0,q4_k,q6_k)",
                  [&b](const auto& words) { return read_types(words, b.types); });
  add_list_option(app, "--requests", "LIST", "requests at a time in shared forwards, for --only shared (1,2,4,8)",
                  [&b](const auto& words) { return read_numbers(words, 1024, b.requests); });
  add_integer_option(app, "--repeats", b.repeats, 1, 1000, "how often everything is measured; medians are shown (5)");
  add_integer_option(app, "--stream-mib", o->stream_mib, 1, 1 << 20,
                     "MiB of weights that a product goes through; the read test takes four times it (256)");
  add_integer_option(app, "--tokens-per-step", b.tokens_per_step, 1, 4096,
                     "tokens that a step of the whole runs commits (5)");
  add_integer_option(app, "--prompt-tokens", b.prompt_tokens, 1, 1 << 20, "prompt tokens of the whole runs (78)");
  add_integer_option(app, "--gen-length", b.gen_length, 1, 1 << 20, "generated tokens of the whole runs (128)");
  app.add_option("--replay", b.replay, "the whole runs follow those that llada eval --record wrote, forward by forward")
      ->type_name("FILE");
  add_integer_option(app, "--replay-runs", b.replay_runs, 1, 1 << 20,
                     "runs followed of each strategy: those nearest to --prompt-tokens and --gen-length (3)");
  add_integer_option(app, "--block-length", b.block_length, 1, 1 << 20, "tokens of a block in the whole runs (32)");
  add_integer_option(app, "--minutes", b.minutes, 1, 24 * 60,
                     "minutes of work without a pause, of --only sustained (10)");
  add_integer_option(app, "--attention-keys", b.attention_keys, 1, 1 << 20,
                     "positions that the attention measurement reads (4096)");
  add_integer_option(app, "--attention-rows", b.attention_rows, 1, 4096, "rows of the attention measurement (32)");
  for (const char* name : {"--requests", "--minutes", "--stream-mib", "--replay-runs", "--block-length",
                           "--attention-keys", "--attention-rows"})
    app.get_option(name)->group(further("Details"));
  add_device_options(app, b.load);
  app.add_flag("--quick", o->quick, "about a minute: 8 layers, few repeats and rows");
  app.add_flag("--json", o->json, "one JSON object on stdout");
  app.footer(
      "Ceilings are measured in the same run; a share is of the peak just before and after. A product or forward is "
      "timed again, at most twice, where that peak fell: something else had a core. Whole runs commit the given number "
      "of most certain tokens per step, so that random weights take a real model's forwards. Lines come as they are "
      "measured; Ctrl-C ends with those that are there. LLADA_ISA=NAME in the environment chooses the kernels.\n\n"
      "Examples:\n"
      "  llada-study bench --preset llada-8b:q4_0 --quick\n"
      "  llada-study bench --preset llada-8b:q4_0\n"
      "  llada-study bench --preset llada-8b:q4_0 --only gemm --types q4_0 --rows 8,32,128\n"
      "  llada-study bench --preset llada-8b:q4_0 --only shared --repeats 1\n"
      "  llada-study bench --preset llada-8b:q4_0 --only sustained --minutes 10\n"
      "  llada-study bench --preset llada-8b:q4_0 --only e2e --replay runs.jsonl\n"
      "  llada-study bench -m model.gguf --only forward,e2e --threads 2 --json");
  return [o, &app]() -> Result<int> {
    if (o->quick) make_quick(app, *o);
    o->bench.stream_bytes = o->stream_mib << 20;
    read_environment(o->bench.load);
    if (o->bench.load.device != "cpu")
      return invalid("--device: found '{}', needed cpu: no other device is measured", o->bench.load.device);
    if (!o->hub.hub.empty()) {
      o->hub.path = o->bench.model;
      LLADA_TRY(o->bench.model, model_path(o->hub));
    }
    return run(*o);
  };
}

}  // namespace llada::cli
