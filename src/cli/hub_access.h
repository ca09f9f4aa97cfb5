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

// pull() with a bar, and with Ctrl-C as a stop. No other InterruptGuard may be alive.
struct WatchedPull {
  Result<hub::Pulled> result;
  int signal = 0;  // that stopped it
};
// load: how the model will be loaded, null where it will not be; one that would not fit is not downloaded.
WatchedPull pull_and_show(const hub::HubSettings& settings, const hub::Request& request, const Overrides& overrides,
                          const LoadOptions* load);

// A short name of the catalogue, and no file or folder here.
bool is_short_name(const std::string& word);

// The model's path: that of -m, or of -hf or a short name once it is here. A signal in the download ends the program,
// as it would without a handler.
Result<std::string> model_path(const ModelOptions& options);

// --hf-repo, for which -hf is typed.
void add_hub_option(CLI::App& app, ModelOptions& options, const std::string& group);

// "3.1 GB of 16 GB, 42 MB/s, about 5 min left" from reports of a transfer's bytes. The rate is that of the last ten
// seconds; nothing of the time where it is not known yet.
class TransferText {
 public:
  using Clock = std::chrono::steady_clock;
  std::string update(int64_t done, int64_t total, Clock::time_point now);

 private:
  std::deque<std::pair<Clock::time_point, int64_t>> seen_;
};

}  // namespace llada::cli
