// llada pull: a model from Hugging Face into the cache that its own tools use, and a list of that cache.
#include <fmt/ranges.h>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "engine/inspect.h"
#include "hub/cache.h"
#include "json/parse.h"

namespace llada::cli {
namespace {

struct PullOptions {
  std::string what, revision = "main";
  bool list = false, remove = false, offline = false, json = false;
  Overrides overrides;
};

Status show_cache(const std::string& folder, bool json) {
  const auto snapshots = hub::list_cache(folder);
  if (json) {
    auto list = Json::array();
    for (const auto& s : snapshots)
      list.push_back({{"repository", s.repository},
                      {"commit", s.commit},
                      {"revisions", s.revisions},
                      {"files", s.files},
                      {"bytes", s.bytes},
                      {"path", s.path}});
    return print(json_line({{"cache", folder}, {"snapshots", std::move(list)}}));
  }
  std::string out = fmt::format("{}{}\n", one_line(folder), snapshots.empty() ? ": no models" : "");
  for (const auto& s : snapshots)
    out += fmt::format(
        "{:>7}  {:>3} file{}  {}  {}\n", bytes_text(static_cast<double>(s.bytes)), s.files, s.files == 1 ? " " : "s",
        one_line(s.repository),
        s.revisions.empty() ? s.commit.substr(0, 12) : one_line(fmt::format("{}", fmt::join(s.revisions, ", "))));
  return print(out);
}

Status remove_cached(const std::string& folder, const hub::Request& request, bool json) {
  const std::string name = request.repository.full_name();
  if (!request.what.empty())
    return invalid("--delete: found '{}' behind {}, needed OWNER/NAME alone", request.what, name);
  uint64_t bytes = 0;
  for (const auto& s : hub::list_cache(folder)) bytes += s.repository == name ? s.bytes : 0;
  LLADA_TRY_STATUS(hub::Cache(folder, request.repository).remove());
  return print(json ? json_line({{"removed", name}, {"bytes", bytes}})
                    : fmt::format("{}: {} removed\n", name, bytes_text(static_cast<double>(bytes))));
}

Result<int> run(const PullOptions& o) {
  LLADA_TRY(auto settings, hub_settings_from_environment());
  settings.offline |= o.offline;
  if (o.list && o.remove) return invalid("found --list and --delete, needed one of the two");
  if (o.list != o.what.empty())
    return invalid("{}",
                   o.list ? "found OWNER/NAME beside --list, needed one of the two" : "needs OWNER/NAME, or --list");
  if (o.list) {
    LLADA_TRY_STATUS(show_cache(settings.cache, o.json));
    return 0;
  }
  LLADA_TRY(const auto request, hub::parse_request(o.what, o.revision));
  if (o.remove) {
    LLADA_TRY_STATUS(remove_cached(settings.cache, request, o.json));
    return 0;
  }
  const auto pulled = pull_and_show(settings, request, o.overrides, nullptr);
  if (!pulled.result && pulled.signal != 0) {
    note(fmt::format("llada pull: {}\n", one_line(pulled.result.error().message)));
    return 128 + pulled.signal;
  }
  if (!pulled.result) return std::unexpected(pulled.result.error());
  const hub::Pulled& p = *pulled.result;
  if (o.json) {
    LLADA_TRY_STATUS(print(json_line(
        {{"path", p.path}, {"commit", p.commit}, {"bytes", p.bytes}, {"downloaded_bytes", p.downloaded_bytes}})));
    return 0;
  }
  LLADA_TRY_STATUS(print(one_line(p.path) + "\n"));
  note(fmt::format("{}, {} of them downloaded now; llada run -hf {}{} -p '...'\n",
                   bytes_text(static_cast<double>(p.bytes)), bytes_text(static_cast<double>(p.downloaded_bytes)),
                   one_line(o.what), words_of(o.overrides)));
  return 0;
}

}  // namespace

Work setup_pull(CLI::App& app) {
  auto o = std::make_shared<PullOptions>();
  app.add_option(
      "REPOSITORY", o->what,
      "OWNER/NAME on Hugging Face, or OWNER/NAME:FILE; a GGUF file may be named by its type, as in :Q8_0; or a "
      "short name, as in llada recommend");
  app.add_option("--revision", o->revision, "a branch, tag or commit (main)")->type_name("NAME");
  app.add_flag("--offline", o->offline, "answer from the cache alone, as with HF_HUB_OFFLINE=1");
  app.add_flag("--list", o->list, "show what is cached");
  app.add_flag("--delete", o->remove, "remove all that is cached of REPOSITORY");
  app.add_flag("--json", o->json, "one JSON object on stdout");
  add_override_options(app, o->overrides, further("Settings that a model's files lack"));
  app.footer(
      "Examples:\n"
      "  llada pull GSAI-ML/LLaDA-8B-Instruct\n"
      "  llada pull sdar-1.7b\n"
      "  llada pull OWNER/NAME-GGUF:Q8_0\n"
      "  llada pull --list\n"
      "  llada pull --delete GSAI-ML/LLaDA-8B-Instruct\n"
      "The last line of stdout is the path. Files are shared with Hugging Face's own tools (HF_HOME, HF_HUB_CACHE). A "
      "download that was stopped goes on where it was. HF_TOKEN opens repositories that need access.");
  return [o]() -> Result<int> { return run(*o); };
}

}  // namespace llada::cli
