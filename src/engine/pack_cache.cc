#include "engine/pack_cache.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/file_lock.h"
#include "base/fnv.h"
#include "base/os.h"
#include "devices/cpu/packed_weights.h"
#include "engine/model.h"
#include "engine/open_device.h"
#include "engine/weight_reading.h"
#include "models/model_graph.h"

namespace llada {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".packed", kLockEnding = ".lock";
constexpr double kLongPacking = 5;  // seconds at every start, against a tenth of one from the disk

// The model's path as everybody names it, whether it exists or not.
std::string whole_path(const std::string& path) {
  std::error_code failure;
  const fs::path canonical = fs::weakly_canonical(fs::absolute(path, failure), failure);
  return failure ? path : canonical.string();
}

// A name that a reader recognises, of the model's path and the instruction set.
std::string packed_path(const std::string& folder, const std::string& model, std::string_view isa) {
  constexpr size_t kMostOfName = 60;
  std::string name = fs::path(model).stem().string().substr(0, kMostOfName);
  for (char& c : name)
    if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '-' && c != '_') c = '_';
  Fnv hash;
  hash.add(model);
  return fmt::format("{}/{}-{:016x}-{}{}", folder, name, hash.hash(), isa, kEnding);
}

// Whether packed_path() could have made the name: nothing else in a folder is looked at, still less removed.
bool is_packed_name(const std::string& name) {
  constexpr size_t kDigits = 16;
  const size_t isa = name.rfind('-');
  if (!name.ends_with(kEnding) || isa == std::string::npos || isa <= kDigits || name[isa - kDigits - 1] != '-')
    return false;
  return name.find_first_not_of("0123456789abcdef", isa - kDigits) == isa;
}

PackedSource source_of(const ModelFile& file) {
  FileIdentity identity;
  for (const MappedFile& part : file.files()) identity = identity.with(part.identity());
  return {whole_path(file.path()), identity};
}

// The weights to pack, their owner, and the target.
struct PackJob {
  const kernels::KernelTable* table;
  const ModelFile& file;
  const ModelGraph& graph;
  std::vector<TensorView> views;
  PackedSource source;
  std::string path;

  static Result<PackJob> create(const LoadOptions& options, const ModelFile& file, const ModelGraph& graph) {
    LLADA_TRY(const auto* table, kernels::select(options.isa));
    LLADA_TRY(auto views, weight_views(file, graph));
    PackJob job{table, file, graph, std::move(views), source_of(file), {}};
    job.path = packed_path(options.pack_cache.folder, job.source.path, kernels::packed_layout(*table));
    return job;
  }

  bool packs() const {
    for (size_t i = 0; i < views.size(); ++i)
      if (needs_packing(*table, graph.weights[i], views[i])) return true;
    return false;
  }

  // On the disk of the folder, or of the nearest one above it that is there: for two copies, as others need some too.
  bool has_room() const {
    int64_t bytes = 0;
    for (size_t i = 0; i < views.size(); ++i)
      if (needs_packing(*table, graph.weights[i], views[i]))
        bytes += table->packed_bytes(views[i].type, views[i].shape.rows(), views[i].shape.columns());
    fs::path at = fs::path(path).parent_path();
    std::error_code failure;
    while (at.has_relative_path() && !fs::exists(at, failure)) at = at.parent_path();
    const fs::space_info space = fs::space(at, failure);
    return !failure && space.available / 2 >= static_cast<uint64_t>(bytes);
  }

  Result<std::shared_ptr<const PackedWeights>> open() const {
    return PackedWeights::open(path, kernels::packed_layout(*table), source, graph.weights, views);
  }

  Result<FileLock> lock() const {
    std::error_code failure;
    const fs::path folder = fs::path(path).parent_path();
    fs::create_directories(folder, failure);
    if (failure) return std::unexpected(file_error(folder.string(), "create", failure.value()));
    return FileLock::open(path + std::string(kLockEnding));
  }

  // By whoever holds the lock. A file system without nameless files keeps the file that a killed process has begun;
  // without locks it may be another one's present work.
  Status write(const LoadOptions& options, const FileLock& lock) const {
    const std::string name = fs::path(path).filename().string();
    std::error_code ignored;
    if (lock.warning().empty())
      for (fs::directory_iterator at(fs::path(path).parent_path(), ignored), end; !ignored && at != end;
           at.increment(ignored))
        if (const std::string other = at->path().filename().string();
            other.starts_with(name + ".") && other.ends_with(".tmp"))
          os::remove(at->path().string());
    const auto reading = std::make_shared<WeightReading>(file, options.progress, options.threads);
    ThreadPool pool(options.threads);
    return write_packed_weights(path, kernels::packed_layout(*table), source, graph.weights, views, pool,
                                weight_hooks(graph, views, reading_hooks(file, reading)),
                                [&] { return reading->made(); });
  }
};

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// A model's file and its program, without a device.
struct Listed {
  ModelFile file;
  ModelGraph graph;
  static Result<Listed> open(const std::string& path) {
    LLADA_TRY(auto file, ModelFile::open(path));
    LLADA_TRY(auto graph, build_model(file.config()));
    return Listed{std::move(file), std::move(graph)};
  }
};

std::string state_of(const std::string& path, const PackedIndex& index) {
  if (!exists(index.source.path)) return "its model is gone";
  const auto model = Listed::open(index.source.path);
  if (!model) return "its model does not open";
  if (index.source.identity != source_of(model->file).identity) return "its model has changed";
  if (!kernels::select(index.isa)) return "ready";  // for another processor
  const auto views = weight_views(model->file, model->graph);
  if (!views) return "its model does not open";
  const auto opened = PackedWeights::open(path, index.isa, index.source, model->graph.weights, *views);
  return opened ? "ready" : opened.error().message.substr(std::min(opened.error().message.size(), path.size() + 2));
}

}  // namespace

std::string default_pack_folder(std::string_view xdg_cache_home, std::string_view home) {
  // A relative one is to be ignored, says the specification of base directories.
  if (const std::string cache = expand_home(xdg_cache_home, home); os::is_absolute(cache))
    return fmt::format("{}/llada/packed", cache);
  return home.empty() ? std::string() : fmt::format("{}/.cache/llada/packed", home);
}

std::shared_ptr<const PackedWeights> cached_weights(const LoadOptions& options, const ModelFile& file,
                                                    const ModelGraph& graph) {
  const PackCache& cache = options.pack_cache;
  if (cache.use == PackCache::Use::none || cache.folder.empty() || file.files().empty()) return nullptr;
  const auto warn = [&](const std::string& line) {
    if (options.warn) options.warn(line);
  };
  const auto job = PackJob::create(options, file, graph);
  if (!job || !job->packs()) return nullptr;  // an error is said again by whoever loads the model
  if (exists(job->path)) {
    auto found = job->open();
    if (found) return *found;
    warn(fmt::format("{}; the weights are packed again", found.error().message));
  } else if (cache.use == PackCache::Use::found) {
    return nullptr;
  } else if (cache.use == PackCache::Use::make_with_room) {
    if (!job->has_room()) return nullptr;
    warn(
        fmt::format("{}: packed weights are made once and kept, since this machine has less than 12 GB of memory "
                    "(llada pack --remove MODEL removes them, --pack-cache off keeps none)",
                    job->path));
  }
  auto lock = job->lock();
  if (lock && !lock->try_hold()) {
    warn(fmt::format("{}: another process is packing it; the weights are packed in memory", job->path));
    return nullptr;
  }
  if (lock && !lock->warning().empty()) warn(lock->warning());
  const Status written = lock ? job->write(options, *lock) : std::unexpected(lock.error());
  auto made = written ? job->open() : std::unexpected(written.error());
  if (made) return *made;
  warn(fmt::format("{}; the weights are packed in memory", made.error().message));
  return nullptr;
}

std::string packing_note(const PackCache& cache, const std::string& model, double seconds) {
  if (cache.use != PackCache::Use::found || cache.folder.empty() || seconds < kLongPacking) return {};
  return fmt::format("{}: packing the weights took {:.0f} s; `llada pack {}` keeps them on disk for later starts",
                     model, seconds, model);
}

Result<PackReport> make_packed(const std::string& model, const LoadOptions& options,
                               const std::function<bool()>& stop) {
  LLADA_TRY(const auto listed, Listed::open(model));
  LLADA_TRY(const auto job, PackJob::create(options, listed.file, listed.graph));
  PackReport report{job.path, std::string(kernels::packed_layout(*job.table)), 0, false};
  if (!job.packs()) return invalid("{}: no weight of the model is packed for {}", model, report.isa);
  LLADA_TRY(auto lock, job.lock());
  while (!lock.try_hold()) {
    if (stop && stop()) return failed("{}: another process is packing it", job.path);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (options.warn && !lock.warning().empty()) options.warn(lock.warning());
  auto packed = job.open();
  if (!packed) {
    LLADA_TRY_STATUS(job.write(options, lock));
    packed = job.open();
    report.made = true;
  }
  if (!packed) return std::unexpected(packed.error());
  report.bytes = static_cast<uint64_t>((*packed)->bytes());
  return report;
}

Result<PackReport> verify_packed(const std::string& model, const LoadOptions& options) {
  LLADA_TRY(const auto listed, Listed::open(model));
  LLADA_TRY(const auto job, PackJob::create(options, listed.file, listed.graph));
  if (!exists(job.path))
    return invalid("{}: has no packed weights for {} in {}; llada pack {} makes them", model,
                   kernels::packed_layout(*job.table), options.pack_cache.folder, model);
  LLADA_TRY(const auto packed, job.open());
  ThreadPool pool(options.threads);
  LLADA_TRY_STATUS(packed->verify(pool));
  return PackReport{job.path, std::string(kernels::packed_layout(*job.table)), static_cast<uint64_t>(packed->bytes()),
                    false};
}

std::vector<PackedEntry> list_packed(const std::string& folder) {
  std::vector<PackedEntry> out;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end; at.increment(failure)) {
    PackedEntry entry{at->path().string(), {}, {}, 0, {}};
    if (!is_packed_name(at->path().filename().string())) continue;
    const auto file = MappedFile::open(entry.path);
    if (!file) continue;
    entry.bytes = file->bytes().size();
    if (const auto index = parse_packed_file(file->bytes(), entry.path)) {
      entry.isa = index->isa;
      entry.model = index->source.path;
      entry.state = state_of(entry.path, *index);
    } else {
      entry.state = index.error().message.substr(std::min(index.error().message.size(), entry.path.size() + 2));
    }
    out.push_back(std::move(entry));
  }
  std::ranges::sort(out, {}, [](const PackedEntry& e) { return std::pair(e.model, e.path); });
  return out;
}

Status remove_packed(const PackedEntry& entry) {
  // The lock first: a process that makes the file would have both back, which is as if it had come later.
  os::remove(entry.path + std::string(kLockEnding));
  if (!os::remove(entry.path)) return failed("{}: cannot be removed", entry.path);
  return {};
}

}  // namespace llada
