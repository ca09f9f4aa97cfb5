#include "cli/mistakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/options.h"

namespace llada::cli {
namespace {

// Words of other programs. Where `here` is an option, it is taken for it (`same`) or named as the way to it.
struct Foreign {
  std::string_view word, here, hint;
  bool same = false;
};

constexpr Foreign kForeign[] = {
    {"-sys", "--system", "", true},
    {"-f", "--texts", "", true},
    {"--chunks", "--canvases", "", true},
    {"-hf", "--hf-repo", "", true},
    {"-hfr", "--hf-repo", "", true},
    {"-hf", "REPOSITORY", "the repository stands without an option"},
    {"-hff", "--hf-repo", "a file stands behind the repository: -hf OWNER/NAME:FILE"},
    {"-cnv", "--chat", "", true},
    {"--conversation", "--chat", "", true},
    {"--interactive", "--chat", "", true},
    {"--system-prompt", "--system", "", true},
    {"--stream", "--live", "a terminal shows the answer while it forms, as --live says"},
    {"-r", "--stop", "did you mean --stop?"},
    {"--reverse-prompt", "--stop", "did you mean --stop?"},
    {"--n-ctx", "--ctx-size", "", true},
    {"--preset", "--preset-decode", "did you mean --preset-decode?"},
    {"-ngl", "--device", "--device says where to compute"},
    {"--gpu-layers", "--device", "--device says where to compute"},
    {"--n-gpu-layers", "--device", "--device says where to compute"},
    {"--diffusion-steps", "--steps", "did you mean --steps?"},
    {"--diffusion-block-length", "--block-length", "did you mean --block-length?"},
    {"--diffusion-cfg-scale", "--cfg-scale", "did you mean --cfg-scale?"},
    {"--diffusion-algorithm", "--accept", "--accept says how tokens are accepted"},
    {"--diffusion-schedule", "--accept", "--accept says how tokens are accepted"},
    {"--diffusion-alg-temp", "--temperature", "--temperature samples tokens"},
    {"--diffusion-add-gumbel-noise", "--temperature", "--temperature samples with Gumbel noise"},
    {"--diffusion-visual", "--live", "a terminal shows the answer while it forms, as --live says"},
};

// Commands of other programs, and the line that does the same here.
constexpr std::pair<std::string_view, std::string_view> kForeignCommands[] = {
    {"list", "pull --list"},
    {"ls", "pull --list"},
    {"show", "inspect MODEL"},
    {"info", "inspect MODEL"},
    {"rm", "pull --delete"},
    {"remove", "pull --delete"},
    {"delete", "pull --delete"},
    {"download", "pull"},
    {"get", "pull"},
    {"generate", "run"},
    {"complete", "run"},
    {"completion", "run"},
    {"ask", "run"},
    {"cli", "run"},
    {"server", "serve"},
    {"api", "serve"},
    {"quantize", "convert"},
    {"quantise", "convert"},
    {"create", "convert"},
    {"perplexity", "score"},
    {"benchmark", "bench"},
    {"evaluate", "eval"},
    {"fim", "infill"},
    {"lm_eval", "eval"},
};

const CLI::Option* option_of(const CLI::App& app, std::string_view name) {
  return app.get_option_no_throw(std::string(name));
}

const Foreign* find_foreign(const CLI::App& app, std::string_view word) {
  if (option_of(app, word) != nullptr) return nullptr;
  const auto found = std::ranges::find_if(
      kForeign, [&](const Foreign& f) { return f.word == word && option_of(app, f.here) != nullptr; });
  return found == std::end(kForeign) ? nullptr : found;
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = std::exchange(row[0], static_cast<int>(i) + 1);
    for (size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(row[j + 1], std::min({row[j + 1] + 1, row[j] + 1, diagonal + (a[i] != b[j])}));
  }
  return row.back();
}

std::string unknown(const CLI::App& app, std::string_view word) {
  if (const Foreign* foreign = find_foreign(app, word))
    return fmt::format("unknown option {}; {}", word, foreign->hint);
  const std::string_view name = word.substr(0, word.find('='));
  if (!decode::replaced_by(name).empty()) return decode::no_option(name);
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  return fmt::format("unknown option {}{}", word, suggestion(word, known));
}

}  // namespace

std::string suggestion(std::string_view word, std::span<const std::string> known) {
  const auto distance = [&](const std::string& candidate) {
    return word.size() > 4 && candidate.starts_with(word) ? 0 : edit_distance(word, candidate);
  };
  const auto best = std::ranges::min_element(known, {}, distance);
  // In a word of few letters two others are another word.
  const bool near = best != known.end() && distance(*best) <= (word.size() < 5 ? 1 : 2);
  return near && word.size() > 2 ? fmt::format("; did you mean {}?", *best) : "";
}

Status refuse_empty(const CLI::App& app) {
  // Without a system message is a way to talk; of a prompt run and score say themselves what an empty one is.
  constexpr std::string_view kMayBeEmpty[] = {"--prompt", "--system"};
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name(), type = option->get_type_name();
    if (std::ranges::find(kMayBeEmpty, name) == std::end(kMayBeEmpty) &&
        std::ranges::find(option->results(), "") != option->results().end())
      return invalid("{}: found '', needed {}", name,
                     name == "MODEL"  ? "a file, a folder or a short name"
                     : type == "FILE" ? "the name of a file"
                                      : type);
  }
  return {};
}

Result<Arguments> known_words(const CLI::App& app, Arguments arguments) {
  for (size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    std::string& word = arguments[i];
    if (const Foreign* foreign = find_foreign(app, word)) {
      if (foreign->same)
        word = foreign->here;
      else if (!word.starts_with("--"))
        return invalid("{}", unknown(app, word));
    } else if (word.starts_with("-h") && word.size() > 2) {
      // The library reads -h, -f.
      if (word != "-help") return invalid("{}", unknown(app, word));
      word = "--help";
    } else if (word.starts_with("--") && word.find('=') + 1 == word.size()) {
      // The library takes the word behind "--regex=" for the value.
      const CLI::Option* option = option_of(app, std::string_view(word).substr(0, word.size() - 1));
      if (option == nullptr || option->get_expected_max() == 0) continue;
      word.pop_back();
      arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, "");
    }
  }
  return arguments;
}

std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::string name = text.substr(0, text.find(':'));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && name.size() < text.size())
    return fmt::format("{}: {}", name, text.contains("At Most") ? "given twice" : "needs a value");
  const auto extra = app.remaining();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr || extra.empty()) return text;
  if (extra.front().starts_with("-")) return unknown(app, extra.front());
  const bool takes_text = option_of(app, "--prompt") != nullptr;
  return fmt::format("unexpected argument '{}'{}", extra.front(),
                     takes_text ? "; a text of several words stands in quotes" : "");
}

std::string foreign_command(std::string_view word) {
  if (word == "ps" || word == "stop") return "; nothing runs in the background but a llada serve that you started";
  const auto* found = std::ranges::find(kForeignCommands, word, [](const auto& pair) { return pair.first; });
  return found == std::end(kForeignCommands) ? "" : fmt::format("; did you mean llada {}?", found->second);
}

std::vector<std::string_view> other_short_names(const CLI::App& app, const CLI::Option& option) {
  std::vector<std::string_view> names;
  for (const Foreign& foreign : kForeign)
    if (foreign.same && !foreign.word.starts_with("--") && option_of(app, foreign.here) == &option)
      names.push_back(foreign.word);
  return names;
}

std::string with_flags(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kFlags[] = {
      {"attention_block", "--attention-block"}, {"mask_id", "--mask-id"}, {"fit_check=false", "--no-fit-check"}};
  for (const auto& [name, flag] : kFlags)
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += flag.size())
      text.replace(at, name.size(), flag);
  return text;
}

Error as_typed(Error error, const CLI::App& app, const Arguments& arguments) {
  error.message = with_flags(std::move(error.message));
  // What the library refuses is named as it names it: ctx_size. One word could mean something else where no value
  // follows.
  const std::string name = error.message.substr(0, error.message.find(':'));
  std::string flag = "--" + name;
  std::ranges::replace(flag, '_', '-');
  const bool of_value = std::string_view(error.message).substr(name.size()).starts_with(": found ");
  if ((name.contains('_') || of_value) && app.get_option_no_throw(flag) != nullptr)
    error.message.replace(0, name.size(), flag);
  const size_t end = error.message.find_first_of(": ");
  const CLI::Option* option =
      end == std::string::npos ? nullptr : app.get_option_no_throw(error.message.substr(0, end));
  if (option == nullptr || !error.message.starts_with("--")) return error;
  for (const std::string& word : arguments) {
    const std::string name = word.substr(0, word.starts_with("--") ? word.find('=') : 2);
    if (name.starts_with("-") && name.size() > 1 && app.get_option_no_throw(name) == option) {
      error.message.replace(0, end, name);
      break;
    }
  }
  return error;
}

}  // namespace llada::cli
