#include "serve/work/batches.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <random>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/os.h"
#include "engine/prompt.h"
#include "serve/work/batch.h"
#include "serve/work/service.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

int64_t now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

std::string new_id(std::string_view kind) {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{:08x}", kind, random(), random(), random());
}

Json file_json(const std::string& id, const std::string& name, const std::string& purpose, int64_t bytes,
               int64_t expires) {
  Json json = {{"id", id},         {"object", "file"},   {"bytes", bytes},       {"created_at", now()},
               {"filename", name}, {"purpose", purpose}, {"status", "processed"}};
  if (expires > 0) json["expires_at"] = expires;
  return json;
}

std::unexpected<ApiError> missing(std::string_view kind, const std::string& id) {
  return std::unexpected(ApiError(404, fmt::format("there is no {} {}", kind, in_quotes(id)), "id", "not_found"));
}

// The answers of a batch, in files that have their ids from its own: what is found there after a kill is what it had.
std::string output_id(const std::string& batch) { return fmt::format("{}{}-output", kFileId, batch); }
std::string error_id(const std::string& batch) { return fmt::format("{}{}-error", kFileId, batch); }

// Whether it is a name that this server gives: the user's own files are left alone.
bool is_file_id(std::string_view name) {
  if (!name.starts_with(kFileId)) return false;
  const std::string_view batch = "file-batch_", end = name.substr(name.rfind('-'));
  const bool of_batch = name.starts_with(batch) && (end == "-output" || end == "-error");
  name = of_batch ? name.substr(batch.size(), name.size() - batch.size() - end.size()) : name.substr(kFileId.size());
  return name.size() == 24 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// A file that nobody else may open, as it is found or made.
Status keep_private(const std::string& path) {
  const Descriptor file(os::open(path, os::kRead | os::kWrite | os::kCreate | os::kOwnersAlone));
  if (file.get() < 0 || !os::set_mode(file.get(), os::kOwnersMode))
    return std::unexpected(file_error(path, "write", errno));
  return {};
}

int64_t size_of(const std::string& path) {
  const auto info = os::info(path);
  return info ? info->bytes : 0;
}

}  // namespace

Result<std::unique_ptr<Batches>> Batches::open(Service& service, const std::string& folder, const BatchLimits& limits) {
  if (const std::string_view why = Store::absence(); !why.empty()) return failed("{}", why);
  if (!os::make_private_folder(folder) && errno != EEXIST) return std::unexpected(file_error(folder, "create", errno));
  std::unique_ptr<Batches> batches(new Batches(service, folder, limits));
  for (const char* name : {"/lock", "/objects.sqlite"}) LLADA_TRY_STATUS(keep_private(folder + name));
  LLADA_TRY(auto lock, FileLock::open(folder + "/lock"));
  batches->lock_.emplace(std::move(lock));
  if (!batches->lock_->try_hold()) return invalid("{}: another server uses it", folder);
  LLADA_TRY(batches->store_, Store::open(folder + "/objects.sqlite"));
  LLADA_TRY_STATUS(batches->read_store());
  return batches;
}

Batches::~Batches() { stop(); }

Status Batches::read_store() {
  LLADA_TRY(const auto stored, store_->all());
  std::set<std::string> known;
  for (const StoredObject& object : stored) {
    known.insert({object.id, output_id(object.id), error_id(object.id)});
    auto kept = KeptObject::read(object);
    if (!kept) {
      service_.log({{"event", "store"},
                    {"id", object.id},
                    {"error", fmt::format("{}: {}: {}; it is kept, and not shown", path_of("objects.sqlite"),
                                          in_quotes(object.id), kept.error().message)}});
      continue;
    }
    if (kept->is_open())
      unlisted_[object.id] = size_of(path_of(output_id(object.id))) + size_of(path_of(error_id(object.id)));
    objects_.put(std::move(*kept));
  }
  for (const auto& [time, id] : objects_.ended())
    for (const auto& file : {output_id(id), error_id(id)})
      if (objects_.find(file) == nullptr) known.erase(file);
  remove_strays(known);
  return {};
}

// Files that nobody knows of: the server was killed before their objects were kept.
void Batches::remove_strays(const std::set<std::string>& known) const {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, none)) {
    const std::string name = entry.path().filename().string();
    if (!is_file_id(name)) continue;
    if (known.contains(name))
      static_cast<void>(keep_private(entry.path().string()));
    else
      std::filesystem::remove(entry.path(), none);
  }
}

void Batches::start() {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable() && !stopping_) thread_ = std::thread([this] { run(); });
}

void Batches::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status Batches::put(std::vector<KeptObject> objects, const std::vector<std::string>& removed) {
  std::vector<StoredObject> stored;
  for (const KeptObject& object : objects) stored.push_back(object.stored());
  LLADA_TRY_STATUS(store_->change(stored, removed));
  const std::lock_guard lock(mutex_);
  for (KeptObject& object : objects) objects_.put(std::move(object));
  for (const std::string& id : removed) objects_.remove(id);
  return {};
}

// Of work that was to add so many bytes. The log has the path, which is nobody's business over HTTP.
ApiError Batches::storage_error(const Error& error, size_t bytes) const {
  constexpr size_t kObject = size_t{64} << 10;  // what the database may take for one
  const bool full = !check_free_space(path_of("objects.sqlite"), bytes + kObject);
  service_.log({{"event", "store"}, {"error", fmt::format("{}: {}", folder_, error.message)}});
  ApiError told(error);
  if (full) told.status = 507, told.code = "disk_full";
  return told;
}

// The lock is held.
int64_t Batches::held_bytes() const {
  int64_t bytes = objects_.bytes();
  for (const auto& [id, more] : unlisted_) bytes += more;
  return bytes;
}

KeptObject Batches::kept(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return *objects_.find(id);
}

Answered<Json> Batches::find(std::string_view asker, std::string_view kind, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const KeptObject* const found = objects_.find(id);
  if (found == nullptr || found->json.at("object") != kind || !found->seen_by(asker)) return missing(kind, id);
  return found->json;
}

std::vector<Json> Batches::all(std::string_view asker, std::string_view kind) const {
  const std::lock_guard lock(mutex_);
  return objects_.all(kind, asker);
}

Answered<Json> Batches::add_file(const std::string& asker, const std::string& name, const std::string& purpose,
                                 std::string_view bytes, int64_t seconds) {
  const int64_t size = std::ssize(bytes);
  const Json file = file_json(new_id(kFileId), name, purpose, size, seconds > 0 ? now() + seconds : 0);
  const std::string id = file.at("id"), path = path_of(id);
  {
    const std::lock_guard lock(mutex_);
    const auto is_file = [](const auto& entry) { return entry.first.starts_with(kFileId); };
    if (objects_.files() + std::ranges::count_if(unlisted_, is_file) >= limits_.files)
      return std::unexpected(ApiError(400, fmt::format("found {} files, needed fewer; delete some", limits_.files),
                                      "file", "too_many_files"));
    const int64_t held = held_bytes();
    if (held + size > limits_.disk_bytes)
      return std::unexpected(ApiError(400,
                                      fmt::format("file: found {} bytes beside {} of other files, needed {} at most "
                                                  "together; delete some",
                                                  size, held, limits_.disk_bytes),
                                      "file", "disk_limit"));
    unlisted_[id] = size;
  }
  const Status kept = within_memory([&]() -> Status {
    LLADA_TRY_STATUS(check_free_space(path, bytes.size()));
    LLADA_TRY_STATUS(keep_private(path));
    LLADA_TRY_STATUS(write_file(path, bytes));
    const std::lock_guard change(changing_);
    return put({{file, asker}});
  });
  {
    const std::lock_guard lock(mutex_);
    unlisted_.erase(id);
  }
  if (!kept) {
    os::remove(path);
    return std::unexpected(storage_error(kept.error(), bytes.size()));
  }
  return file;
}

Answered<Json> Batches::remove_file(const std::string& asker, const std::string& id) {
  const std::lock_guard change(changing_);
  LLADA_TRY(const Json file, find(asker, "file", id));
  {
    const std::lock_guard lock(mutex_);
    if (const std::string reader = objects_.reader_of(id); !reader.empty())
      return std::unexpected(ApiError(400, fmt::format("the batch {} reads this file", reader), "id", "file_in_use"));
  }
  if (const Status gone = put({}, {id}); !gone) return std::unexpected(storage_error(gone.error(), 0));
  os::remove(path_of(id));
  return Json{{"id", id}, {"object", "file"}, {"deleted", true}};
}

// Of those that have ended the oldest go.
void Batches::keep_few_batches() {
  std::vector<std::string> removed;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [time, id] : objects_.ended()) {
      if (objects_.batches() - std::ssize(removed) < limits_.batches) break;
      removed.push_back(id);
    }
  }
  if (!removed.empty()) static_cast<void>(put({}, removed));
}

Answered<Json> Batches::add_batch(const std::string& asker, Json batch) {
  const std::lock_guard change(changing_);
  LLADA_TRY(const Json file, find(asker, "file", batch.at("input_file_id")));
  const auto open = [&] {
    const std::lock_guard lock(mutex_);
    return std::ssize(objects_.open());
  };
  if (open() >= limits_.unfinished)
    return std::unexpected(ApiError(429,
                                    fmt::format("found {} batches that have not ended, needed fewer; try again "
                                                "later",
                                                limits_.unfinished),
                                    "", "too_many_batches"));
  keep_few_batches();
  Json json = {{"id", new_id(kBatchId)}, {"object", "batch"}};
  json.update(batch);
  json.update({{"errors", nullptr},
               {"status", "validating"},
               {"output_file_id", nullptr},
               {"error_file_id", nullptr},
               {"created_at", now()},
               {"expires_at", now() + json.at("seconds").get<int64_t>()},
               {"request_counts", {{"total", 0}, {"completed", 0}, {"failed", 0}}}});
  for (const char* time :
       {"in_progress_at", "finalizing_at", "completed_at", "failed_at", "expired_at", "cancelling_at", "cancelled_at"})
    json[time] = nullptr;
  json.erase("seconds");
  if (const Status kept = put({{json, asker}}); !kept) return std::unexpected(storage_error(kept.error(), 0));
  changed_.notify_all();
  return json;
}

Answered<Json> Batches::cancel_batch(const std::string& asker, const std::string& id) {
  const std::lock_guard change(changing_);
  LLADA_TRY(const Json seen, find(asker, "batch", id));
  KeptObject object = kept(id);
  Json& batch = object.json;
  if (!object.is_open())
    return std::unexpected(ApiError(
        400, fmt::format("status: found {}, needed a batch that has not ended", batch.at("status").dump()), "id"));
  if (batch["status"] != "cancelling") {
    batch["status"] = "cancelling", batch["cancelling_at"] = now();
    if (const Status changed = put({object}); !changed) return std::unexpected(storage_error(changed.error(), 0));
  }
  const auto is_worked_on = [&] {
    const std::lock_guard lock(mutex_);
    return worked_on_ == id;
  };
  // One that waits need not wait for those before it. Where the disk refuses that, it ends in its turn.
  if (!is_worked_on()) static_cast<void>(end_batch(id, "cancelled", ""));
  changed_.notify_all();
  return batch;
}

void Batches::remove_expired() {
  const std::lock_guard change(changing_);
  std::vector<std::string> removed;
  {
    const std::lock_guard lock(mutex_);
    removed = objects_.expired(now());
  }
  if (removed.empty() || !put({}, removed)) return;
  for (const std::string& id : removed) os::remove(path_of(id));
}

// Waits for one; empty: the server ends. The oldest first.
std::string Batches::next_batch() {
  for (;;) {
    remove_expired();
    std::unique_lock change(changing_);  // nobody ends the one that is chosen
    std::unique_lock lock(mutex_);
    worked_on_.clear();
    if (stopping_) return "";
    if (!objects_.open().empty()) return worked_on_ = objects_.open().begin()->second;
    change.unlock();
    changed_.wait_for(lock, std::chrono::minutes(1));
  }
}

void Batches::run() {
  for (std::string id;;) {
    try {
      id = next_batch();
      if (id.empty()) return;
      work_on(id);
      continue;
    } catch (const std::bad_alloc&) {  // a line of the log would take memory too
    } catch (const std::exception& error) {
      service_.log({{"event", "batch"}, {"id", id}, {"error", error.what()}});
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [this] { return stopping_; });
  }
}

void Batches::work_on(const std::string& id) {
  auto whole = answer(id, false);
  std::string status;
  {
    const std::lock_guard lock(mutex_);
    const Json& batch = objects_.find(id)->json;
    if (!whole) {
      status = "failed";
    } else if (*whole) {
      status = "completed";
    } else if (batch.at("status") == "cancelling") {
      status = "cancelled";
    } else if (batch.at("expires_at").get<int64_t>() <= now()) {
      status = "expired";
    }
    if (status.empty() || (stopping_ && !whole)) return;  // it goes on another time
  }
  if (status == "expired") {
    whole = answer(id, true);
    if (whole && !*whole) return;
  }
  finish(id, status, whole ? "" : without_folders(whole.error().message));
}

bool Batches::goes_on(const std::string& id, int64_t expires) const {
  const std::lock_guard lock(mutex_);
  return !stopping_ && objects_.find(id)->json.at("status") != "cancelling" && now() < expires;
}

// Counts the requests of a batch that nobody has looked at.
Status Batches::count_requests(const std::string& id, const std::string& path) {
  LLADA_TRY(auto input, LineSource::open(path, kMostBatchLine));
  int64_t total = 0;
  for (;;) {
    LLADA_TRY(const auto line, input.next());
    if (!line) break;
    total += line->too_long || !is_blank(line->text) ? 1 : 0;
  }
  const std::lock_guard change(changing_);
  KeptObject batch = kept(id);
  if (batch.json["status"] == "validating") batch.json["status"] = "in_progress";
  batch.json["in_progress_at"] = now();
  batch.json["request_counts"]["total"] = total;
  return put({batch});
}

// expired: what has no answer gets that error. Whether every request has its line now.
Result<bool> Batches::answer(const std::string& id, bool expired) {
  BatchDone done;
  for (const auto& file : {output_id(id), error_id(id)}) LLADA_TRY_STATUS(keep_private(path_of(file)));
  LLADA_TRY(auto output, BatchFile::open(path_of(output_id(id)), done));
  LLADA_TRY(auto errors, BatchFile::open(path_of(error_id(id)), done));
  const Json batch = kept(id).json;
  const std::string path = path_of(batch.at("input_file_id"));
  if (batch.at("in_progress_at").is_null()) LLADA_TRY_STATUS(count_requests(id, path));
  LLADA_TRY(auto input, LineSource::open(path, kMostBatchLine));
  const int64_t expires = expired ? INT64_MAX : batch.at("expires_at").get<int64_t>();
  const int64_t answered = output.lines(), failed = errors.lines();
  BatchOptions options;
  options.url = batch.at("endpoint");
  options.salt = id;
  if (expired)
    options.refusal = "the batch has expired before this request began", options.refusal_code = "batch_expired";
  options.in_flight = std::max<int64_t>(service_.room().limits().running - 1, 1);
  options.low_priority = true;
  options.write = [&](bool is_error, std::string_view line) -> Status {
    {
      const std::lock_guard lock(mutex_);
      int64_t& bytes = unlisted_[id];
      bytes = output.bytes() + errors.bytes();
      if (held_bytes() + std::ssize(line) > limits_.disk_bytes)
        return llada::failed("the server's files take {} bytes, all that they may (--store-limit)", limits_.disk_bytes);
      bytes += std::ssize(line);
    }
    return (is_error ? errors : output).add(line);
  };
  const auto show = [&](const BatchCounts& counts) {
    const std::lock_guard lock(mutex_);
    Json& shown = objects_.find(id)->json["request_counts"];
    shown["completed"] = answered + counts.answered - counts.failed;
    shown["failed"] = failed + counts.failed;
  };
  Batch work(service_, input, done, std::move(options));
  do {
    show(work.counts());
    if (!goes_on(id, expires)) work.cancel();
  } while (work.tick());
  LLADA_TRY(const BatchCounts counts, work.finish());
  show(counts);
  LLADA_TRY_STATUS(output.sync());
  LLADA_TRY_STATUS(errors.sync());
  return counts.over;
}

void Batches::finish(const std::string& id, const std::string& status, const std::string& error) {
  const std::lock_guard change(changing_);
  const Status kept = end_batch(id, status, error);
  if (!kept) throw std::runtime_error(kept.error().message);  // tried again after a while
}

// The answers become files that clients know of.
Status Batches::end_batch(const std::string& id, const std::string& status, const std::string& error) {
  KeptObject object = kept(id);
  Json& batch = object.json;
  std::vector<KeptObject> changed;
  for (const auto& [field, file, name] : {std::tuple("output_file_id", output_id(id), "output.jsonl"),
                                          std::tuple("error_file_id", error_id(id), "error.jsonl")}) {
    const auto info = os::info(path_of(file));
    if (!info) continue;
    if (info->bytes == 0) {
      os::remove(path_of(file));
      continue;
    }
    batch[field] = file;
    changed.push_back({file_json(file, fmt::format("{}_{}", id, name), "batch_output", info->bytes, 0), object.owner});
  }
  batch["status"] = status, batch[status + "_at"] = now();
  if (!error.empty()) {
    const Json one = {{"code", "server_error"}, {"message", error}, {"param", nullptr}, {"line", nullptr}};
    batch["errors"] = {{"object", "list"}, {"data", Json::array({one})}};
  }
  changed.push_back(std::move(object));
  const Status kept = put(std::move(changed));
  if (kept) {
    const std::lock_guard lock(mutex_);
    unlisted_.erase(id);
  }
  service_.log({{"event", "batch"},
                {"id", id},
                {"status", status},
                {"error", !error.empty() ? Json(error)
                          : kept         ? Json(nullptr)
                                         : Json(kept.error().message)}});
  return kept;
}

}  // namespace llada::serve
