// llada run and llada chat: an answer to a prompt, or a conversation.

#include "base/os.h"
#include "cli/chat.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/line_reader.h"
#include "cli/output_file.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "cli/workspace.h"
#include "engine/prompt.h"
#include "json/parse.h"
#include "text/text_file.h"

namespace llada::cli {
namespace {

struct RunOptions {
  ModelOptions model;
  DecodeFlags decode;
  ShowOptions show;
  std::string prompt, file, system;
  std::vector<std::string> stop;
  bool has_prompt = false, has_file = false, chat = false, raw = false, no_history = false, think = false;
};

Status show_answer(const RunOptions& o, const Generation& generation) {
  if (o.show.json) {
    Json json = {{"text", printable_text(generation.text, false)},
                 {"tokens", generation.tokens},
                 {"finish_reason", finish_reason(generation)},
                 {"preset", o.decode.preset()},
                 {"stats", stats_json(generation.stats)}};
    if (o.think) json["thoughts"] = printable_text(generation.thoughts, false);
    return print(json_line(json));
  }
  if (o.think && !generation.thoughts.empty())
    LLADA_TRY_STATUS(print(printable_text(generation.thoughts, is_terminal(os::kStdout)) + "\n\n"));
  LLADA_TRY_STATUS(print(printable_text(generation.text, is_terminal(os::kStdout)) + '\n'));
  if (!o.show.quiet)
    note(unfinished_line(generation) + stats_lines(generation.stats, o.decode.preset(), o.show.verbose));
  return {};
}

// A device failed and nothing took over: what was final by then is still an answer's beginning.
Status show_unfinished(const Workspace& workspace, bool json) {
  const auto& tokens = workspace.final_tokens();
  const std::string text = workspace.model().has_tokenizer() ? workspace.model().tokenizer().decode(tokens) : "";
  if (!json) return tokens.empty() ? Status() : print(printable_text(text, is_terminal(os::kStdout)) + '\n');
  return print(json_line({{"text", printable_text(text, false)}, {"tokens", tokens}, {"finish_reason", "failed"}}));
}

constexpr int64_t kKeptHistory = int64_t{1} << 30;  // most bytes of a conversation's K/V from turn to turn

// A line of a file or a pipe ends, the message does not go on.
std::string without_last_line_end(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// -p, -f, or the text of stdin where that is no terminal; what is piped in beside -p stands in a line below it.
Result<std::string> read_prompt(const RunOptions& o) {
  if (!o.has_prompt && !o.has_file && is_terminal(os::kStdin))
    return invalid("no prompt: needed one behind the options, --file, text on stdin, or --chat");
  const bool from_stdin = !o.has_file && (!o.has_prompt || o.prompt == "-");
  std::string prompt;
  if (o.has_file || from_stdin) {
    LLADA_TRY(prompt, read_text(o.has_file ? o.file : "-"));
    if (!o.raw) prompt = without_last_line_end(with_plain_line_ends(std::move(prompt)));
  } else {
    prompt = o.prompt;
    if (!o.raw) {
      LLADA_TRY(prompt, as_text(std::move(prompt), "prompt"));
    }
    LLADA_TRY(std::string piped, piped_text());
    LLADA_TRY(piped, as_text(piped, "stdin"));
    piped = without_last_line_end(with_plain_line_ends(std::move(piped)));
    if (!piped.empty()) prompt += '\n' + piped;
  }
  if (o.raw ? prompt.empty() : is_blank(prompt))
    return invalid("no prompt: found nothing{}{}, needed text{}", o.raw ? "" : " but white space",
                   from_stdin ? " on stdin" : "",
                   o.raw                        ? ""
                   : o.has_prompt || o.has_file ? " (--raw takes white space too)"
                                                : ", --prompt, --file or --chat");
  return prompt;
}

Result<int> run(RunOptions& o) {
  if (o.has_prompt + o.has_file + o.chat > 1)
    return invalid("{} of --prompt, --file and --chat were given, needed one at most",
                   o.has_prompt + o.has_file + o.chat);
  if (o.raw && (o.chat || !o.system.empty() || o.think))
    return invalid(
        "--raw: takes the prompt without a chat template, so neither --chat nor --system nor --think goes "
        "with it");
  LLADA_TRY_STATUS(o.decode.resolve());
  LLADA_TRY(o.system, as_text(o.system, "--system"));
  std::string prompt;
  if (!o.chat) {
    LLADA_TRY(prompt, read_prompt(o));
  }
  Ready ready;
  const auto lay = [&](const Model& model) -> Status {
    if (o.chat) return {};
    std::vector<ChatMessage> messages;
    if (!o.system.empty()) messages.push_back({"system", o.system});
    messages.push_back({"user", prompt});
    LLADA_TRY(auto ids, o.raw ? text_prompt(model, prompt) : chat_prompt(model, messages, o.think));
    LLADA_TRY(ready, prepare(model, {.tokens = std::move(ids), .options = o.decode.options, .stop = o.stop}));
    return {};
  };
  LLADA_TRY(const auto workspace, open_to_answer(o.model, o.show, o.decode, lay, o.chat ? kKeptHistory : 0));

  const bool talks = o.chat && is_terminal(os::kStdin) && is_terminal(os::kStderr);
  const InterruptGuard guard(talks ? 2 : 1);
  int status = 0;
  if (o.chat) {
    LLADA_TRY(status, chat(*workspace, {.system = o.system,
                                        .think = o.think,
                                        .decode = o.decode,
                                        .stop = o.stop,
                                        .interactive = talks,
                                        .quiet = o.show.quiet,
                                        .history = talks && !o.no_history ? history_path() : "",
                                        .show = [&](const Generation& g) { return show_answer(o, g); }}));
  } else {
    auto answer = workspace->answer(ready);
    if (!answer) {
      if (!answer.error().of_input()) LLADA_TRY_STATUS(show_unfinished(*workspace, o.show.json));
      return std::unexpected(answer.error());
    }
    const Generation generation = std::move(*answer);
    LLADA_TRY_STATUS(show_answer(o, generation));
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
    return app.add_option(name, value, help)->type_name(type)->group(kGroup);
  };
  text("--moe-plan", e.plan, "PLAN", "who computes which expert: hybrid, static, all-cpu or on-demand (hybrid)");
  only_file(text("--record-routing", o.show.routing_path, "FILE",
                 "write the routers' decisions, for llada-study simulate --routing"));
}

}  // namespace

namespace {

Work setup(CLI::App& app, bool talk) {
  auto o = std::make_shared<RunOptions>();
  o->chat = talk;
  auto first_word = std::make_shared<std::optional<std::string>>();
  CLI::Option *prompt = nullptr, *file = nullptr;
  const std::string kGroup = talk ? "Conversation" : "Prompt";
  if (talk) {
    add_model_options(app, o->model);
  } else {
    add_model_options(app, o->model, *first_word);
    prompt = app.add_option("-p,--prompt,PROMPT", o->prompt, "the prompt; -, or none at all, reads it from stdin")
                 ->group(kGroup);
    file = app.add_option("-f,--file", o->file, "a file with the prompt; - is stdin")->type_name("FILE")->group(kGroup);
    app.add_flag("-i,--chat", o->chat, "a conversation, as llada chat")->group(kGroup);
  }
  add_expert_options(app, *o);
  app.add_option("--system", o->system, "system message before the conversation (-sys)")
      ->type_name("TEXT")
      ->group(kGroup);
  app.add_flag("--think", o->think, "let the model think before it answers, and show its thoughts (models that can)")
      ->group(further(kGroup));
  if (!talk)
    app.add_flag("--raw", o->raw, "feed the prompt as it is, without the model's chat template; special tokens count")
        ->group(further(kGroup));
  app.add_flag("--no-history", o->no_history, "in a conversation: do not read or keep the history of typed messages")
      ->group(talk ? kGroup : further(kGroup));
  app.add_option("--stop", o->stop, "end the answer before this text; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group(further("Length"));
  o->decode.use_defaults();
  add_decode_options(app, o->decode);
  add_show_options(app, o->show);
  const std::string start =
      "The preset balanced is the default; options replace single values, --steps the whole preset.";
  app.footer(talk ? start +
                        "\n\n"
                        "Examples:\n"
                        "  llada chat model.gguf\n"
                        "  llada chat model.gguf --system 'Answer in one sentence.' --temp 0.7"
                  : start +
                        " The text of a pipe or file on stdin goes below the prompt.\n\n"
                        "Examples:\n"
                        "  llada run model.gguf 'Why is the sky blue?'\n"
                        "  llada run -m model.gguf 'Sum this up:' < notes.txt\n"
                        "  llada run -m model.gguf -f prompt.txt -n 200 --preset-decode fast --json\n"
                        "  llada run -m model.gguf 'A name for a cat' --temp 0.8 --top-p 0.9");
  return [o, first_word, prompt, file]() -> Result<int> {
    o->has_file = file != nullptr && file->count() > 0;
    LLADA_TRY(o->has_prompt, place_model(o->model, *first_word, o->prompt, prompt != nullptr && prompt->count() > 0));
    read_environment(o->model.load);
    auto status = run(*o);
    if (!status) return std::unexpected(o->decode.named(status.error()));
    return status;
  };
}

}  // namespace

Work setup_run(CLI::App& app) { return setup(app, false); }
Work setup_chat(CLI::App& app) { return setup(app, true); }

}  // namespace llada::cli
