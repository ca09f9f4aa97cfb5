// Models of a hub on the command line: -hf beside -m, the environment's words for the hub, and a download's progress.
#pragma once
#include <CLI/CLI.hpp>
#include <chrono>
#include <deque>
#include <string>

#include "base/error.h"
#include "cli/options.h"
#include "hub/hub.h"

namespace llada::cli {

// Hugging Face's variables: HF_ENDPOINT, HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HF_TOKEN, HF_TOKEN_PATH (or the file
// "token" in HF_HOME), HF_HUB_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT. Also the file of trusted authorities that curl and
// Python programs read. Proxies are libcurl's own.
Result<hub::HubSettings> hub_settings_from_environment();

// Runs pull() with a bar; Ctrl-C stops it. No other InterruptGuard may be alive.
struct WatchedPull {
  Result<hub::Pulled> result;
  int signal = 0;  // the one that stopped it; 0: none did
};
// load: how the model will be loaded, null where it will not be; one that would not fit is not downloaded.
WatchedPull pull_and_show(const hub::HubSettings& settings, const hub::Request& request, const Overrides& overrides,
                          const LoadOptions* load);

// The name of the small model that every installation has, for a first try.
inline constexpr std::string_view kShippedModel = "tiny-llada";
// Its file in ../share/llada beside the program's folder; invalid: none lies there.
Result<std::string> shipped_model(const std::string& program_folder);

// True for the shipped model's name or a short one of the catalogue, where no file or folder here is called so.
bool is_short_name(const std::string& word);

// The path of -m, or of the model of -hf or a short name, which is downloaded where it is not cached. A signal in the
// download ends the program, as it would without a handler.
Result<std::string> model_path(const ModelOptions& options);

// Adds --hf-repo, which users may type as -hf.
void add_hub_option(CLI::App& app, ModelOptions& options, const std::string& group);

// "3.1 GB of 16 GB, 42 MB/s, about 5 min left" from reports of a transfer's bytes. The rate is that of the last ten
// seconds; the time left is missing until it is known.
class TransferText {
 public:
  using Clock = std::chrono::steady_clock;
  std::string update(int64_t done, int64_t total, Clock::time_point now);

 private:
  std::deque<std::pair<Clock::time_point, int64_t>> seen_;
};

}  // namespace llada::cli
