// llada run: an answer to a prompt, or a conversation.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/chat.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "cli/workspace.h"

namespace llada::cli {
namespace {

struct RunOptions {
  ModelOptions model;
  DecodeFlags decode;
  ShowOptions show;
  std::string prompt, file, system;
  bool has_prompt = false, has_file = false, chat = false, raw = false;
};

std::string_view finish_reason(const Generation& generation) {
  if (generation.stats.decode.cancelled) return "cancelled";
  return generation.stats.content_tokens < static_cast<int64_t>(generation.tokens.size()) ? "stop" : "length";
}

Status show_answer(const Generation& generation, bool json) {
  if (json) {
    return print(json_line({{"text", printable_text(generation.text, false)},
                            {"tokens", generation.tokens},
                            {"finish_reason", finish_reason(generation)},
                            {"stats", stats_json(generation.stats)}}));
  }
  LLADA_TRY_STATUS(print(printable_text(generation.text, is_terminal(STDOUT_FILENO)) + '\n'));
  note(stats_line(generation.stats) + '\n');
  return {};
}

// A device failed and nothing took over: what was final by then is still an answer's beginning.
Status show_unfinished(const Workspace& workspace, bool json) {
  const auto& tokens = workspace.final_tokens();
  const std::string text = workspace.model().has_tokenizer() ? workspace.model().tokenizer().decode(tokens) : "";
  if (!json) return tokens.empty() ? Status() : print(printable_text(text, is_terminal(STDOUT_FILENO)) + '\n');
  return print(json_line({{"text", printable_text(text, false)}, {"tokens", tokens}, {"finish_reason", "failed"}}));
}

constexpr int64_t kKeptHistory = int64_t{1} << 30;  // most bytes of a conversation's K/V from turn to turn

Result<Generation> answer_once(Workspace& workspace, const RunOptions& o, const std::string& prompt) {
  std::vector<int32_t> ids;
  {
    const TraceSpan span(workspace.trace(), "host", "tokenize");
    if (o.raw) {
      LLADA_TRY(ids, workspace.model().prompt_ids(prompt));
    } else {
      std::vector<ChatMessage> messages;
      if (!o.system.empty()) messages.push_back({"system", o.system});
      messages.push_back({"user", prompt});
      LLADA_TRY(ids, workspace.model().chat_ids(messages));
    }
  }
  const TraceSpan span(workspace.trace(), "host", "decode");
  return workspace.watch(
      [&](const StepCallback& on_step) { return workspace.session().generate(ids, o.decode.options, on_step); }, false,
      o.decode.options.block_length);
}

Result<int> run(RunOptions& o) {
  if (o.has_prompt + o.has_file + o.chat != 1)
    return invalid("{} of --prompt, --file and --chat were given, needed exactly one",
                   o.has_prompt + o.has_file + o.chat);
  if (o.raw && (o.chat || !o.system.empty()))
    return invalid("--raw: takes the prompt without a chat template, so neither --chat nor --system goes with it");
  LLADA_TRY_STATUS(o.decode.resolve());
  std::string prompt = o.prompt;
  if (o.has_file || prompt == "-") {
    LLADA_TRY(prompt, read_text(o.has_file ? o.file : "-"));
  }
  LLADA_TRY(const auto workspace,
            Workspace::open(o.model, o.show, o.decode.options, o.chat ? kKeptHistory : 0));

  const InterruptGuard guard;
  int status = 0;
  if (o.chat) {
    const auto show = [&](const Generation& generation) { return show_answer(generation, o.show.json); };
    LLADA_TRY(status, chat(*workspace, {.system = o.system, .decode = o.decode.options, .show = show}));
  } else {
    auto answer = answer_once(*workspace, o, prompt);
    if (!answer) {
      if (answer.error().kind == ErrorKind::failed) LLADA_TRY_STATUS(show_unfinished(*workspace, o.show.json));
      return std::unexpected(answer.error());
    }
    const Generation generation = std::move(*answer);
    LLADA_TRY_STATUS(show_answer(generation, o.show.json));
    status = status_of(generation);
  }
  LLADA_TRY_STATUS(workspace->close());
  return status;
}

// Experts of a mixture that do not fit the device's accelerator.
void add_expert_options(CLI::App& app, RunOptions& o) {
  const std::string kGroup = further("Mixtures of experts");
  ExpertRequest& e = o.model.load.experts;
  app.add_option_function<std::string>(
         "--experts-on-device",
         [&e](const std::string& text) {
           const auto percent = text.ends_with("%")
                                    ? parse_integer(std::string_view(text).substr(0, text.size() - 1), 1, 100)
                                    : Result<int64_t>(invalid(""));
           if (!percent)
             throw CLI::ValidationError("--experts-on-device",
                                        fmt::format("found '{}', needed a share such as 25%", text));
           e.share = static_cast<double>(*percent) / 100;
         },
         "share of each layer's experts that the accelerator of --device holds, such as 25%")
      ->type_name("P%")
      ->group(kGroup);
  const auto text = [&](const char* name, std::string& value, const char* type, const char* help) {
    app.add_option(name, value, help)->type_name(type)->group(kGroup);
  };
  text("--moe-plan", e.plan, "PLAN", "who computes which expert: hybrid, static, all-cpu or on-demand (hybrid)");
  text("--moe-cache", e.cache, "RULE", "what stays on the accelerator: block, mrs, lru, lfu or classlru (block)");
  add_integer_option(app, "--moe-slices", e.slices, 1, 64,
                     "that an expert is divided into, so that both units can share one (as many as are worthwhile)")
      ->group(kGroup);
  text("--moe-slots", e.slots, "KIND",
       "layer: every layer has its own on the accelerator, shared: one pool for all (layer)");
  add_integer_option(
      app, "--moe-refresh", e.refresh, 0, 1 << 20,
      "make each layer's heaviest experts resident every N steps and wait for their copies, as TIDE does; "
      "0: never (0)")
      ->group(kGroup);
  text("--moe-prefetch", e.prefetch, "on|off", "move experts that the next layers' routers are guessed to want (on)");
  text("--record-routing", o.show.routing_path, "FILE", "write what the routers decided, for llada simulate --routing");
}

}  // namespace

Work setup_run(CLI::App& app) {
  auto o = std::make_shared<RunOptions>();
  add_model_options(app, o->model);
  add_expert_options(app, *o);
  const std::string kGroup = "Prompt";
  auto* prompt =
      app.add_option("-p,--prompt", o->prompt, "the prompt; - reads it from stdin")->type_name("TEXT")->group(kGroup);
  auto* file =
      app.add_option("-f,--file", o->file, "a file with the prompt; - is stdin")->type_name("FILE")->group(kGroup);
  app.add_flag("-i,--chat", o->chat, "a conversation: every line of stdin is a message, /exit ends it")->group(kGroup);
  app.add_option("--system", o->system, "system message before the conversation (-sys)")
      ->type_name("TEXT")
      ->group(kGroup);
  app.add_flag("--raw", o->raw, "feed the prompt as it is, without the model's chat template")->group(further(kGroup));
  add_decode_options(app, o->decode);
  add_show_options(app, o->show);
  app.footer(
      "Examples:\n"
      "  llada run -m model.gguf -p 'Why is it blue?' --preset-decode balanced --live\n"
      "  llada run -m model.gguf -f prompt.txt -n 256 --kv dual --json\n"
      "  llada run -m model.gguf --chat --preset-decode balanced");
  return [o, prompt, file]() -> Result<int> {
    o->has_prompt = prompt->count() > 0;
    o->has_file = file->count() > 0;
    read_environment(o->model.load);
    auto status = run(*o);
    if (!status) return std::unexpected(o->decode.named(status.error()));
    return status;
  };
}

}  // namespace llada::cli
