// llada pack: the packed weights of a model, made ahead and kept, so that processes start at once and share them.
#include <algorithm>
#include <filesystem>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "engine/pack_cache.h"
#include "json/parse.h"

namespace llada::cli {
namespace {

struct PackOptions {
  ModelOptions model;
  bool list = false, verify = false, remove = false, prune = false, json = false;
};

Status show(const std::string& folder, const std::vector<PackedEntry>& entries, std::string_view done, bool json) {
  if (json) {
    auto list = Json::array();
    for (const PackedEntry& e : entries)
      list.push_back({{"path", e.path}, {"model", e.model}, {"isa", e.isa}, {"bytes", e.bytes}, {"state", e.state}});
    return print(json_line({{"cache", folder}, {done.empty() ? "packed" : "removed", std::move(list)}}));
  }
  std::string out = fmt::format("{}{}\n", one_line(folder),
                                !entries.empty() ? ""
                                : done.empty()   ? ": nothing"
                                                 : ": nothing to remove");
  for (const PackedEntry& e : entries)
    out += fmt::format("{:>7}  {}  {}  {}\n", bytes_text(static_cast<double>(e.bytes)), one_line(e.isa),
                       one_line(e.model.empty() ? e.path : e.model), done.empty() ? one_line(e.state) : done);
  return print(out);
}

Status clean(const PackOptions& o) {
  const std::string& folder = o.model.load.pack_cache.folder;
  auto entries = list_packed(folder);
  if (o.prune) {
    std::erase_if(entries, [](const PackedEntry& e) { return e.state == "ready"; });
  } else {
    LLADA_TRY(const std::string path, model_path(o.model));
    std::error_code ignored;
    const std::string model =
        std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored).string();
    std::erase_if(entries, [&](const PackedEntry& e) { return e.model != model && e.path != model; });
    if (entries.empty()) return invalid("{}: has no packed weights in {}", path, folder);
  }
  for (const PackedEntry& e : entries) LLADA_TRY_STATUS(remove_packed(e));
  return show(folder, entries, "removed", o.json);
}

Result<int> make(const PackOptions& o, const std::string& path) {
  PackReport report;
  {
    Progress progress("pack");
    LoadOptions load = o.model.load;
    load.progress = [&](int64_t done, int64_t total) {
      progress.update(
          static_cast<double>(done) / static_cast<double>(std::max<int64_t>(total, 1)),
          fmt::format("{} of {}", bytes_text(static_cast<double>(done)), bytes_text(static_cast<double>(total))));
    };
    load.warn = [&](const std::string& line) { progress.say(fmt::format("llada: warning: {}", one_line(line))); };
    LLADA_TRY(report, o.verify ? verify_packed(path, load) : make_packed(path, load, {}));
  }
  if (o.json) {
    LLADA_TRY_STATUS(
        print(json_line({{"path", report.path}, {"isa", report.isa}, {"bytes", report.bytes}, {"made", report.made}})));
    return 0;
  }
  LLADA_TRY_STATUS(print(fmt::format("{}: {}, packed for {}{}\n", one_line(report.path),
                                     bytes_text(static_cast<double>(report.bytes)), report.isa,
                                     o.verify      ? ", every checksum is right"
                                     : report.made ? ""
                                                   : ", was there")));
  return 0;
}

Result<int> run(PackOptions& o) {
  read_environment(o.model.load);
  const PackCache& cache = o.model.load.pack_cache;
  if (cache.use == PackCache::Use::none) return invalid("--pack-cache: found off, needed auto or a folder");
  if (cache.folder.empty()) return invalid("neither XDG_CACHE_HOME nor HOME is set: --pack-cache must name a folder");
  if (o.list + o.verify + o.remove + o.prune > 1)
    return invalid("found several of --list, --verify, --remove and --prune, needed one");
  if (o.list || o.prune) {
    if (!o.model.path.empty() || !o.model.hub.empty())
      return invalid("found MODEL beside {}, needed one of the two", o.list ? "--list" : "--prune");
    LLADA_TRY_STATUS(o.prune ? clean(o) : show(cache.folder, list_packed(cache.folder), "", o.json));
    return 0;
  }
  if (o.remove) {
    LLADA_TRY_STATUS(clean(o));
    return 0;
  }
  if (o.model.path.empty() && o.model.hub.empty()) return invalid("needs MODEL (or -hf OWNER/NAME), --list or --prune");
  LLADA_TRY(const std::string path, model_path(o.model));
  return make(o, path);
}

}  // namespace

Work setup_pack(CLI::App& app) {
  auto o = std::make_shared<PackOptions>();
  app.add_option("MODEL", o->model.path, "a GGUF file or Hugging Face folder; or -hf OWNER/NAME");
  app.add_flag("--list", o->list, "list packed weights, and whether they are used");
  app.add_flag("--verify", o->verify, "compare the packed weights of MODEL with their checksums");
  app.add_flag("--remove", o->remove, "remove the packed weights of MODEL, of every instruction set");
  app.add_flag("--prune", o->prune, "remove all whose model is gone or has changed");
  app.add_flag("--json", o->json, "one JSON object on stdout");
  add_hub_option(app, o->model, "Options");
  add_pack_cache_option(app, o->model.load, "Options");
  add_threads_option(app, o->model.load, "Options");
  app.footer(
      "The processor computes with weights in an order of its own. Without this command every process makes "
      "that copy in its memory when it starts. With it the copy is a file, as large as the weights, which "
      "every later process maps and shares. It is used without being asked for (--pack-cache off: not), made again "
      "when the model's file has "
      "changed, and made once per instruction set (LLADA_ISA).\n\n"
      "Examples:\n"
      "  llada pack llada-8b-q4_0.gguf\n"
      "  llada pack --list\n"
      "  llada pack --remove llada-8b-q4_0.gguf");
  return [o]() -> Result<int> { return run(*o); };
}

}  // namespace llada::cli
