#include "cli/workspace.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/os.h"
#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/live_view.h"
#include "cli/mistakes.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "eval/reference.h"
#include "text/text_file.h"

namespace llada::cli {

void add_show_options(CLI::App& app, ShowOptions& options) {
  constexpr const char* kGroup = "Output";
  CLI::Option* live =
      app.add_flag("--live", options.live, "repaint the answer in place while it forms (the default on a terminal)")
          ->group(further(kGroup));
  app.add_option_function<std::string>(
         "--live-delay",
         [&options](const std::string& text) {
           const auto value = parse_integer(text, 0, 10'000);
           if (!value) throw CLI::ValidationError("--live-delay", value.error().message);
           options.delay_ms = static_cast<int>(*value);
         },
         "pause after each repaint; not counted in the stats (0)")
      ->type_name("MS")
      ->group(further(kGroup));
  app.add_flag("--no-live", options.no_live, "show the answer when it is done, not while it forms")
      ->excludes(live)
      ->group(kGroup);
  app.add_flag("--json", options.json, "one JSON object on stdout")->excludes(live)->group(kGroup);
  app.add_flag("-q,--quiet", options.quiet, "the answer and errors only")->excludes(live)->group(kGroup);
  app.add_flag("-v,--verbose", options.verbose, "show model, device and options, and more statistics")->group(kGroup);
  only_file(app.add_option("--trace", options.trace_path, "write a Chrome/Perfetto trace"))
      ->type_name("FILE")
      ->group(further(kGroup));
}

namespace {

// Paints on a thread of its own: the first matrix alone may take a slow disk seconds. Where the system gives no thread
// or no memory, nothing is painted.
class LoadingBar {
 public:
  LoadingBar() {
    static_cast<void>(within_memory([this]() -> Status {
      thread_ = std::thread([this] {
        static_cast<void>(within_memory([this]() -> Status {
          paint();
          return {};
        }));
      });
      return {};
    }));
  }
  ~LoadingBar() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  LoadingBar(const LoadingBar&) = delete;
  LoadingBar& operator=(const LoadingBar&) = delete;

  void update(int64_t done, int64_t total) {
    const std::lock_guard lock(mutex_);
    done_ = done, total_ = total;
  }

 private:
  void paint() {
    using std::chrono::milliseconds;
    const auto begin = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    // Work that is over by then needs no bar.
    if (changed_.wait_for(lock, milliseconds(500), [this] { return over_; })) return;
    Progress bar("loading");
    do {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      const double share = static_cast<double>(done_) / static_cast<double>(std::max<int64_t>(total_, 1));
      bar.update(
          share,
          fmt::format("{} of {}{}", bytes_text(static_cast<double>(done_)), bytes_text(static_cast<double>(total_)),
                      share > 0.02 && seconds > 2 ? ", " + time_left_text(seconds / share - seconds) : ""));
    } while (!changed_.wait_for(lock, milliseconds(200), [this] { return over_; }));
  }

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  int64_t done_ = 0, total_ = 0;
  bool over_ = false;
  std::thread thread_;
};

Result<std::shared_ptr<const Model>> load_model(const std::string& path, LoadOptions options, bool quiet) {
  if (quiet) return Model::load(path, options);
  const auto warn = [](const std::string& line) {
    note(fmt::format("llada: warning: {}\n", one_line(with_flags(line))));
  };
  Result<std::shared_ptr<const Model>> model = [&] {
    LoadingBar bar;
    options.progress = [&](int64_t done, int64_t total) { bar.update(done, total); };
    options.warn = warn;
    return Model::load(path, options);
  }();
  if (model) std::ranges::for_each((*model)->notes(), warn);
  return model;
}

}  // namespace

Result<std::shared_ptr<const Model>> open_model(const ModelOptions& options, bool quiet) {
  LLADA_TRY(const std::string path, model_path(options));
  return load_model(path, options.load, quiet);
}

Result<std::unique_ptr<Workspace>> open_to_answer(const ModelOptions& model, const ShowOptions& show,
                                                  DecodeFlags& decode, const std::function<Status(const Model&)>& lay,
                                                  int64_t kept_prefix_bytes) {
  std::string flags;
  ModelOptions options = model;
  options.load.before_weights = [&](const Model& opened) -> Status {
    LLADA_TRY_STATUS(decode.resolve(opened.special_ids().kind()));
    flags = decode::as_flags(decode.options);
    decode.draw_seed();
    return lay(opened);
  };
  LLADA_TRY(auto workspace, Workspace::open(options, show, kept_prefix_bytes));
  const std::string& tuned_for = decode.tuned_for();
  if (!show.quiet && !tuned_for.empty() && tuned_for != eval::model_fingerprint(workspace->model()))
    note("llada: warning: the preset was tuned for another model (or another file type); its loss is not known here\n");
  if (show.verbose) note(fmt::format("options: {}\n", flags));
  if (!show.quiet && !decode.note().empty()) note(fmt::format("note: {}\n", decode.note()));
  return workspace;
}

Result<std::unique_ptr<Workspace>> Workspace::open(const ModelOptions& options, const ShowOptions& show,
                                                   int64_t kept_prefix_bytes) {
  std::unique_ptr<Workspace> workspace(new Workspace(show));
  if (!show.trace_path.empty()) {
    LLADA_TRY_STATUS(AtomicFile::create(show.trace_path));
    workspace->trace_.emplace();
  }
  LLADA_TRY(const std::string path, model_path(options));
  {
    const TraceSpan span(workspace->trace(), "host", "load");
    LLADA_TRY(workspace->model_, load_model(path, options.load, show.quiet));
  }
  if (show.verbose)
    note(fmt::format("model: {}\ndevice: {}\n", one_line(path), workspace->model_->device().info().description));
  SessionOptions session{
      .threads = 0, .trace = workspace->trace(), .routing = {}, .warn = [quiet = show.quiet](const std::string& line) {
        if (!quiet) note(fmt::format("llada: warning: {}\n", one_line(with_flags(line))));
      }};
  if (kept_prefix_bytes > 0) session.prefixes = std::make_shared<PrefixCache>(kept_prefix_bytes);
  if (!show.routing_path.empty()) {
    LLADA_TRY(workspace->routing_, RoutingRecorder::create(show.routing_path, workspace->model_->file()));
    session.routing = [recorder = workspace->routing_.get()](const RoutedLayer& routed) {
      return recorder->record(routed);
    };
  }
  LLADA_TRY(workspace->session_, Session::create(workspace->model_, session));
  return workspace;
}

Result<Generation> Workspace::answer(const Ready& ready) {
  const TraceSpan span(trace(), "host", "decode");
  const Request& request = ready->request;
  const bool infill = request.gaps.has_value();
  if (const std::string cost = prompt_cost(*model_, std::ssize(request.tokens), request.options);
      !cost.empty() && !show_.quiet && !std::exchange(told_cost_, true))
    note(fmt::format("note: {}\n", cost));
  std::optional<LiveView> live;
  const bool wanted = !show_.no_live && !show_.json && !show_.quiet;
  std::optional<QuietInput> quiet;
  if (wanted && can_repaint(os::kStdout)) {
    quiet.emplace(os::kStdin);
    live.emplace(*model_, LiveOptions{.fd = os::kStdout,
                                      .color = wants_color(),
                                      .delay_ms = show_.delay_ms,
                                      .infill = infill,
                                      .block_length = request.options.block_length,
                                      .open_length = request.options.auto_length && !infill});
  }
  Status shown;
  final_tokens_.clear();
  const auto on_step = [&](const decode::StepEvent& event) {
    const auto begin =
        std::ranges::find_if(event.canvas.states, [](auto s) { return s != decode::TokenState::fixed; }) -
        event.canvas.states.begin();
    const auto first = event.canvas.tokens.begin() + begin;
    if (!infill)
      final_tokens_.assign(first, first + std::min<int64_t>(event.committed, event.canvas.answer_end() - begin));
    if (live) shown = live->show(event);
    return shown.has_value() && InterruptGuard::signal_number() == 0;
  };
  LLADA_TRY(Generation generation, session_->run(ready, on_step));
  LLADA_TRY_STATUS(shown);
  if (live) {
    LLADA_TRY_STATUS(live->finish());
    generation.stats.seconds -= live->seconds();
  }
  return generation;
}

Status Workspace::close() const {
  if (routing_) LLADA_TRY_STATUS(routing_->commit());
  if (!trace_) return {};
  return trace_->write(show_.trace_path);
}

int status_of(const Generation& generation) {
  return generation.stats.decode.cancelled ? 128 + InterruptGuard::signal_number() : 0;
}

constexpr size_t kLimitBytes = size_t{64} << 20;  // of a text that is read

Result<std::string> read_text(const std::string& path) {
  if (path != "-") return read_text_file(path, kLimitBytes);
  LLADA_TRY(auto bytes, read_all(os::kStdin, "stdin", kLimitBytes));
  return as_text(std::move(bytes), "stdin");
}

Result<std::string> piped_text() {
  const auto info = os::info(os::kStdin);
  if (!info) return std::string();
  const bool socket = info->kind == os::FileKind::socket;
  if (!socket && info->kind != os::FileKind::pipe && info->kind != os::FileKind::regular) return std::string();
  if (os::writable_only(os::kStdin)) return std::string();
  const auto silent_for = [](int ms) { return !os::wait_readable(os::kStdin, ms); };
  if (socket && silent_for(500)) {
    note("llada: stdin is a socket that brings nothing: the prompt stands alone\n");
    return std::string();
  }
  bool said = false;
  LLADA_TRY(auto bytes, read_all(os::kStdin, "stdin", kLimitBytes, [&] {
              if (said || !silent_for(2000)) return;
              note("llada: waiting for the end of stdin, whose text goes below the prompt (< /dev/null: no text)\n");
              said = true;
            }));
  return as_text(std::move(bytes), "stdin");
}

}  // namespace llada::cli
