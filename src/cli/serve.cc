// llada serve: the model as a server for OpenAI's clients, editors and browsers (docs/server.md).
#include <fmt/ranges.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <future>
#include <thread>

#include "base/console.h"
#include "base/memory_usage.h"
#include "base/os.h"
#include "base/sockets.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/workspace.h"
#include "json/parse.h"
#include "serve/http/access.h"
#include "serve/http/server.h"
#include "serve/work/service.h"
#include "text/text_file.h"
#include "wire/decide_json.h"

namespace llada::cli {
namespace {

constexpr const char* kKeyVariable = "LLADA_API_KEY";

struct ServeOptions {
  ModelOptions model;
  serve::ServerAddress address{.host = "localhost"};  // both loopback addresses: clients differ in which they try
  serve::ServerLimits limits;
  serve::ServiceOptions service;
  std::string keys_path, store, calibration;
  std::optional<std::string> environment_keys;
  std::vector<std::string> hosts, origins;
  int64_t store_mib = 10240, kv_mib = 0, prefix_mib = 1024, drain_seconds = 25, ping_seconds = 15;
  bool quiet = false;
};

Result<std::vector<std::string>> read_keys(const ServeOptions& o) {
  std::vector<std::string> keys;
  if (o.environment_keys) {
    LLADA_TRY(keys, serve::parse_keys(*o.environment_keys, kKeyVariable));
  }
  if (o.keys_path.empty()) return keys;
  LLADA_TRY(const std::string text, read_text_file(o.keys_path, size_t{1} << 20));
  LLADA_TRY(const auto more, serve::parse_keys(text, o.keys_path));
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

// Blocks the signals that Signals waits for, in this thread and in all that it starts. It is made before any of them,
// since a signal goes to whichever thread takes it.
class BlockedSignals {
 public:
  BlockedSignals() { os::hold_signals(); }
  ~BlockedSignals() { os::release_signals(); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
};

// SIGTERM and SIGINT end the server in good order, a second one at once, as does one while the model is being loaded;
// SIGHUP reads the keys again. A thread waits for them.
class Signals {
 public:
  Signals(const BlockedSignals&, std::function<void()> reload)
      : reload_(std::move(reload)), thread_([this] { wait(); }) {}
  ~Signals() {
    over_ = true;
    thread_.join();
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  void loaded() { loaded_ = true; }
  void wait_for_end() { ended_.get_future().wait(); }

 private:
  void wait() {
    for (bool asked = false; !over_;) {
      const os::Held held = os::next_held(100);
      if (held == os::Held::reload && !within_memory([this]() -> Status {
            reload_();
            return {};
          }))
        note("llada serve: out of memory; the keys stay as they are\n");
      if (held != os::Held::end) continue;
      if (asked || !loaded_) os::end_by_held();
      asked = true;
      ended_.set_value();
    }
  }

  const std::function<void()> reload_;
  std::promise<void> ended_;
  std::atomic<bool> over_ = false, loaded_ = false;
  std::thread thread_;  // the last member: it uses the others
};

void log_line(const Json& fields) { note(serve::log_line(fields) + '\n'); }

// A connection takes a descriptor, and a shell's soft limit is often 1024. It is raised to the system's limit, and
// connections stay so far below that as to leave some for files.
void fit_descriptors(int& connections) {
  constexpr uint64_t kOthers = 64;
  const uint64_t limit = os::most_open_files();
  if (limit == 0) return;
  const uint64_t most = std::max<uint64_t>(limit, kOthers + 1) - kOthers;
  if (static_cast<uint64_t>(connections) <= most) return;
  note(fmt::format("llada serve: {} connections at a time, not {}: the system allows {} open files (ulimit -Hn)\n",
                   most, connections, limit));
  connections = static_cast<int>(most);
}

Result<int> run(ServeOptions& o) {
  fit_descriptors(o.limits.connections);
  LLADA_TRY(auto keys, read_keys(o));
  LLADA_TRY(o.address.host, serve::parse_host(o.address.host));
  if (!o.address.host.contains(':')) o.hosts.push_back(o.address.host);  // addresses are allowed as they are
  LLADA_TRY(o.service.hosts, serve::HostNames::parse(o.hosts));
  LLADA_TRY(o.service.cors, serve::Origins::parse(o.origins));
  const auto log = [&](const std::string& line) {
    if (!o.quiet) note(line + '\n');
  };
  o.service.log = log;
  o.service.admission.kv_bytes = static_cast<double>(o.kv_mib) * (1 << 20);
  if (!o.calibration.empty()) {
    LLADA_TRY(o.service.temperatures, load_temperatures(o.calibration));
  }
  o.service.ping_seconds = static_cast<double>(o.ping_seconds);
  o.service.kept_prefix_bytes = o.prefix_mib << 20;
  std::atomic<serve::Server*> sockets = nullptr;
  o.service.connections = [&] {
    const serve::Server* const open = sockets;  // once: it may be taken away at any time
    return open != nullptr ? open->counts() : serve::ServerCounts();
  };
  if (keys.empty() && o.address.socket.empty() && !serve::is_loopback(o.address.host))
    note(fmt::format("llada serve: warning: anyone who reaches {} can send requests: no key is set (--api-key-file)\n",
                     o.address.host));
  const BlockedSignals blocked;
  serve::Service service(o.service);
  service.set_keys(std::move(keys));
  if (!o.store.empty())
    if (const Status kept = service.keep_batches(o.store, {.disk_bytes = o.store_mib << 20}); !kept)
      return std::unexpected(Error{kept.error().kind, "--store: " + kept.error().message});
  Signals signals(blocked, [&] {
    auto again = read_keys(o);
    if (!again) return log_line({{"event", "keys"}, {"error", again.error().message}});
    service.set_keys(std::move(*again));
    log_line({{"event", "keys"}, {"error", nullptr}});
  });
  LLADA_TRY(const auto server,
            serve::Server::open(o.address, o.limits, [&](auto exchange) { service.handle(std::move(exchange)); }));
  sockets = server.get();
  const std::string where = o.address.socket.empty()
                                ? fmt::format("http://{}", fmt::join(server->addresses(), " and http://"))
                                : "unix:" + o.address.socket;
  const auto load = [&]() -> Status {
    LLADA_TRY(auto model, open_model(o.model, o.quiet));
    return service.set_model(std::move(model));
  };
  const Status loaded = load();
  if (loaded) {
    signals.loaded();
    note(fmt::format("llada serve: {} is ready at {}\n", one_line(service.name()), where));
    signals.wait_for_end();
    log_line({{"event", "shutdown"}, {"seconds", o.drain_seconds}});
    service.drain(static_cast<double>(o.drain_seconds));
  }
  server->finish(2);  // answers are still being written
  sockets = nullptr;
  LLADA_TRY_STATUS(loaded);
  return 0;
}

}  // namespace

Work setup_serve(CLI::App& app) {
  auto o = std::make_shared<ServeOptions>();
  add_model_options(app, o->model);
  constexpr const char *kPlace = "Address", *kLoad = "Load";
  const auto text = [&](const char* name, std::string& value, const char* type, const char* help,
                        const std::string& group) {
    return app.add_option(name, value, help)->type_name(type)->group(group);
  };
  text("--host", o->address.host, "NAME", "where to listen: a name or address (localhost: this machine alone)", kPlace);
  add_integer_option(app, "--port", o->address.port, 0, 65535,
                     "port; 0: any free one, which the start line names (8080)")
      ->group(kPlace);
  text("--socket", o->address.socket, "PATH", "a UNIX socket in place of --host and --port", further(kPlace));
  text("--api-key-file", o->keys_path, "FILE",
       "keys that requests must have, one a line; read again on SIGHUP; also LLADA_API_KEY in the environment", kPlace);
  const auto texts = [&](const char* name, std::vector<std::string>& values, const char* type, const char* help) {
    app.add_option(name, values, help)->type_name(type)->allow_extra_args(false)->group(further(kPlace));
  };
  texts(
      "--allow-host", o->hosts, "NAME",
      "a further name by which requests may call the server, as one behind a proxy; * for any; repeatable (localhost, "
      "--host and addresses)");
  texts("--cors", o->origins, "ORIGIN",
        "an origin whose pages may ask, or *; repeatable, or a list with commas (none but the server's own page)");
  app.add_flag("--strict", o->service.strict, "refuse fields of a request that have no effect here")
      ->group(further(kPlace));
  app.add_flag("--strict-model", o->service.strict_model, "refuse requests that name another model than the one here")
      ->group(further(kPlace));
  text("--alias", o->service.name, "NAME", "the model's name in answers (the file's name)", further(kPlace));
  add_integer_option(app, "--parallel", o->service.admission.running, 1, 4096, "answers computed at a time (8)")
      ->group(kLoad);
  add_integer_option(app, "--queue", o->service.admission.waiting, 0, 1 << 20,
                     "requests that may wait, and their answers beyond one each; further requests get status 429 (256)")
      ->group(kLoad);
  add_integer_option(
      app, "--kv-memory", o->kv_mib, 0, int64_t{1} << 32,
      "MiB that answers may hold until they are handed on: keys and values, logits, text; the others wait; 0: no bound "
      "(0)")
      ->group(kLoad);
  add_integer_option(app, "--prefix-memory", o->prefix_mib, 0, int64_t{1} << 32,
                     "MiB of a block-causal model's keys and values kept between requests (1024)")
      ->group(further(kLoad));
  add_integer_option(app, "--row-budget", o->service.row_budget, 0, 1 << 20,
                     "rows of a shared forward; 0: learned from the forwards that are run (0)")
      ->group(further(kLoad));
  app.add_option("--calibration", o->calibration, "temperatures of decisions, which llada decide --calibrate wrote")
      ->type_name("FILE")
      ->group(further(kLoad));
  app.add_option_function<std::string>(
         "--timeout",
         [o](const std::string& value) {
           const auto seconds = parse_integer(value, 1, 1'000'000);
           if (!seconds) throw CLI::ValidationError("--timeout", seconds.error().message);
           o->service.answer_seconds = o->service.admission.wait_seconds = static_cast<double>(*seconds);
         },
         "seconds that an answer may take, and may wait (3600)")
      ->type_name("N")
      ->group(further(kLoad));
  add_integer_option(app, "--max-connections", o->limits.connections, 1, 1 << 20, "connections open at a time (1024)")
      ->group(further(kLoad));
  add_integer_option(app, "--max-body", o->limits.body_bytes, 1024, int64_t{1} << 30, "bytes of a request (4194304)")
      ->group(further(kLoad));
  text("--store", o->store, "DIR", "a folder for files and batches (/v1/files, /v1/batches); none: they are refused",
       further(kLoad));
  add_integer_option(app, "--store-limit", o->store_mib, 1, int64_t{1} << 32, "MiB of these files together (10240)")
      ->group(further(kLoad));
  add_integer_option(app, "--ping", o->ping_seconds, 0, 1'000'000,
                     "seconds of silence after which a stream sends a comment; 0: never (15)")
      ->group(further(kLoad));
  add_integer_option(app, "--drain", o->drain_seconds, 0, 1'000'000,
                     "seconds for answers under way once SIGTERM has come (25)")
      ->group(further(kLoad));
  app.add_flag("-q,--quiet", o->quiet, "do not log each request")->group("Output");
  app.footer(
      "The address in a browser shows a page on which answers form. Decoding options stand in the requests "
      "(docs/server.md); without any the preset is that of llada run.\n\n"
      "Examples:\n"
      "  llada serve model.gguf\n"
      "  llada serve model.gguf --host 0.0.0.0 --api-key-file keys.txt --parallel 16\n"
      "  curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", \"content\": "
      "\"Hi\"}]}'");
  return [o]() -> Result<int> {
    return_freed_memory();
    read_environment(o->model.load);
    if (os::has_variable(kKeyVariable)) o->environment_keys = os::variable(kKeyVariable);
    return run(*o);
  };
}

}  // namespace llada::cli
