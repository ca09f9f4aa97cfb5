#include "cli/hub_access.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "base/os.h"
#include "base/system.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "engine/folder_check.h"
#include "hub/catalogue.h"

namespace llada::cli {
namespace {

// The first of these variables that is set and not empty.
std::string environment(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (std::string value = os::variable(name); !value.empty()) return value;
  return "";
}

// "~" at the beginning is HOME, as Hugging Face's tools have it.
std::string folder_in(std::initializer_list<const char*> names) {
  return expand_home(environment(names), environment({"HOME"}));
}

bool is_on(std::string text) {  // as Hugging Face's tools read a switch
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text == "1" || text == "on" || text == "yes" || text == "true";
}

std::string token_in(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last - first + 1));
}

}  // namespace

Result<hub::HubSettings> hub_settings_from_environment() {
  hub::HubSettings settings;
  std::string home = folder_in({"HF_HOME"});
  if (home.empty()) {
    const std::string cache = folder_in({"XDG_CACHE_HOME"}), user = environment({"HOME"});
    if (cache.empty() && user.empty())
      return invalid("none of HOME, XDG_CACHE_HOME and HF_HOME is set: no place for files");
    home = (cache.empty() ? user + "/.cache" : cache) + "/huggingface";
  }
  settings.cache = folder_in({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  if (settings.cache.empty()) settings.cache = home + "/hub";
  if (const std::string endpoint = environment({"HF_ENDPOINT"}); !endpoint.empty()) {
    if (!endpoint.starts_with("https://") && !endpoint.starts_with("http://"))
      return invalid("HF_ENDPOINT: found '{}', needed https://HOST", endpoint);
    settings.endpoint = endpoint.substr(0, endpoint.find_last_not_of('/') + 1);
  }
  settings.token = token_in(environment({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  if (settings.token.empty()) {
    const std::string file = folder_in({"HF_TOKEN_PATH"});
    if (const auto text = read_any_file(file.empty() ? home + "/token" : file, 4096)) settings.token = token_in(*text);
  }
  // A line end would begin a header of its own.
  if (std::ranges::any_of(settings.token, [](char c) { return c <= ' ' || c > '~'; }))
    return invalid("the token of HF_TOKEN or HF_HOME/token has characters that no token has");
  settings.certificates = environment({"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"});
  settings.offline = is_on(environment({"HF_HUB_OFFLINE"}));
  if (const std::string seconds = environment({"HF_HUB_DOWNLOAD_TIMEOUT"}); !seconds.empty()) {
    const auto value = parse_integer(seconds, 1, 86'400);
    if (!value) return invalid("HF_HUB_DOWNLOAD_TIMEOUT: {}", value.error().message);
    settings.stall_seconds = static_cast<int>(*value);
  }
  return settings;
}

std::string TransferText::update(int64_t done, int64_t total, Clock::time_point now) {
  seen_.emplace_back(now, done);
  while (seen_.size() > 2 && now - seen_.front().first > std::chrono::seconds(10)) seen_.pop_front();
  std::string text = bytes_text(static_cast<double>(done));
  if (total >= 0) text += " of " + bytes_text(static_cast<double>(total));
  const double seconds = std::chrono::duration<double>(now - seen_.front().first).count();
  const double rate = seconds > 0.5 ? static_cast<double>(done - seen_.front().second) / seconds : 0;
  if (rate <= 0) return text;
  text += fmt::format(", {}/s", bytes_text(rate));
  if (total > done) text += ", " + time_left_text(static_cast<double>(total - done) / rate);
  return text;
}

Result<std::string> shipped_model(const std::string& program_folder) {
  const std::filesystem::path share = std::filesystem::path(program_folder).parent_path() / "share/llada";
  const std::string path = (share / kShippedModel).string() + ".gguf";
  if (!os::exists(path))
    return invalid(
        "{}: found no {}, needed the file that comes with the program: its folders bin and share belong together",
        kShippedModel, path);
  return path;
}

bool is_short_name(const std::string& word) {
  return !os::exists(word) && (word == kShippedModel || !hub::repository_of(word.substr(0, word.find(':'))).empty());
}

WatchedPull pull_and_show(const hub::HubSettings& settings, const hub::Request& request, const Overrides& overrides,
                          const LoadOptions* load) {
  const InterruptGuard guard;
  const std::string title = request.repository.full_name();
  std::optional<Progress> progress;
  TransferText text;
  hub::PullEvents events;
  events.progress = [&](int64_t done, int64_t total, std::string_view) {
    if (!progress) progress.emplace(title);
    progress->update(total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0,
                     text.update(done, total, TransferText::Clock::now()));
  };
  events.say = [&](std::string_view line) {
    const std::string whole = fmt::format("llada: {}", one_line(line));
    if (progress) {
      progress->say(whole);
    } else {
      note(whole + "\n");
    }
  };
  events.judge = [&](const std::string& folder) { return check_folder(folder, overrides); };
  events.weigh = [&](const hub::Announced& announced) {
    return check_announced(title, std::string(announced.architecture), announced.bytes, load);
  };
  events.stopped = [] { return InterruptGuard::signal_number() != 0; };
  auto result = hub::pull(settings, request, load != nullptr, events);
  progress.reset();
  return {std::move(result), InterruptGuard::signal_number()};
}

Result<std::string> model_path(const ModelOptions& options) {
  if (options.hub.empty() && options.path.empty())
    return invalid("--model is required ({} is the shipped one; or -hf OWNER/NAME)", kShippedModel);
  const bool is_short = options.hub.empty() && is_short_name(options.path);
  if (options.hub.empty() && !is_short) return options.path;
  if (!options.path.empty() && !is_short) return invalid("--model: not together with -hf, which names the model too");
  if (is_short && options.path == kShippedModel) return shipped_model(program_folder());
  const auto request = hub::parse_request(is_short ? options.path : options.hub);
  if (!request) return invalid("-hf: {}", request.error().message);
  LLADA_TRY(const auto settings, hub_settings_from_environment());
  auto pulled = pull_and_show(settings, *request, options.load.overrides, &options.load);
  if (pulled.signal != 0) {
    if (!pulled.result) note(fmt::format("llada: {}\n", one_line(pulled.result.error().message)));
    std::raise(pulled.signal);
  }
  if (!pulled.result) return std::unexpected(pulled.result.error());
  return pulled.result->path;
}

void add_hub_option(CLI::App& app, ModelOptions& options, const std::string& group) {
  app.add_option("--hf-repo", options.hub,
                 "or -hf: a repository of Hugging Face instead of -m; downloaded where it is not cached (llada pull)")
      ->type_name("OWNER/NAME[:FILE]")
      ->group(group);
}

}  // namespace llada::cli
