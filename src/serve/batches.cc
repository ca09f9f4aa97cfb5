#include "serve/batches.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <random>
#include <set>
#include <utility>

#include "base/file.h"
#include "engine/prompt.h"
#include "serve/batch.h"
#include "serve/service.h"

namespace llada::serve {
namespace {

constexpr std::string_view kFileId = "file-";  // an id's beginning

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

// Of an object that is a file; else 0.
int64_t file_bytes(const Json& object) { return object.at("object") == "file" ? object.at("bytes").get<int64_t>() : 0; }

bool is_finished(const Json& batch) {
  static const std::set<std::string> kFinished = {"completed", "failed", "expired", "cancelled"};
  return kFinished.contains(batch.at("status").get<std::string>());
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
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0 || ::fchmod(file.get(), 0600) != 0) return std::unexpected(file_error(path, "write", errno));
  return {};
}

int64_t size_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

std::optional<ApiError> as_api_error(const Status& status) {
  return status ? std::nullopt : std::optional<ApiError>(ApiError(500, without_folders(status.error().message)));
}

}  // namespace

Result<std::unique_ptr<Batches>> Batches::open(Service& service, const std::string& folder, const BatchLimits& limits) {
  if (const std::string_view why = Store::absence(); !why.empty()) return failed("{}", why);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return std::unexpected(file_error(folder, "create", errno));
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
  for (const StoredObject& object : stored) {
    Json json = Json::parse(object.json, nullptr, false);
    if (!json.is_object() || json.value("id", "") != object.id)
      return invalid("{}: found no object of a server at {}", path_of("objects.sqlite"), in_quotes(object.id));
    if (json.at("object") == "batch" && !is_finished(json))
      unlisted_[object.id] = size_of(path_of(output_id(object.id))) + size_of(path_of(error_id(object.id)));
    listed_bytes_ += file_bytes(json);
    objects_.emplace(object.id, std::move(json));
  }
  remove_strays();
  return {};
}

// Files that nobody knows of: the server was killed before their objects were kept.
void Batches::remove_strays() const {
  std::set<std::string> known;
  for (const auto& [id, object] : objects_) {
    known.insert(id);
    if (object.at("object") == "batch" && !is_finished(object)) known.insert({output_id(id), error_id(id)});
  }
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, none)) {
    const std::string name = entry.path().filename();
    if (!is_file_id(name)) continue;
    if (known.contains(name))
      static_cast<void>(keep_private(entry.path()));
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

Status Batches::put(std::vector<Json> objects, const std::vector<std::string>& removed) {
  std::vector<StoredObject> stored;
  for (const Json& object : objects) stored.push_back({object.at("id").get<std::string>(), dump(object)});
  LLADA_TRY_STATUS(store_->change(stored, removed));
  const std::lock_guard lock(mutex_);
  const auto listed = [&](const std::string& id) {
    const auto found = objects_.find(id);
    return found == objects_.end() ? 0 : file_bytes(found->second);
  };
  for (size_t i = 0; i < objects.size(); ++i) {
    listed_bytes_ += file_bytes(objects[i]) - listed(stored[i].id);
    objects_[stored[i].id] = std::move(objects[i]);
  }
  for (const std::string& id : removed) {
    listed_bytes_ -= listed(id);
    objects_.erase(id);
  }
  return {};
}

// The lock is held.
int64_t Batches::held_bytes() const {
  int64_t bytes = listed_bytes_;
  for (const auto& [id, more] : unlisted_) bytes += more;
  return bytes;
}

Answered<Json> Batches::find(std::string_view kind, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(id);
  if (found == objects_.end() || found->second.at("object") != kind) return missing(kind, id);
  return found->second;
}

std::vector<Json> Batches::all(std::string_view kind) const {
  std::vector<Json> found;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, object] : objects_)
      if (object.at("object") == kind) found.push_back(object);
  }
  std::ranges::stable_sort(found, std::greater(),
                           [](const Json& json) { return json.at("created_at").get<int64_t>(); });
  return found;
}

Answered<Json> Batches::add_file(const std::string& name, const std::string& purpose, std::string_view bytes,
                                 int64_t seconds) {
  const int64_t size = std::ssize(bytes);
  const Json file = file_json(new_id(kFileId), name, purpose, size, seconds > 0 ? now() + seconds : 0);
  const std::string id = file.at("id"), path = path_of(id);
  {
    const std::lock_guard lock(mutex_);
    const auto is_file = [](const auto& entry) { return entry.first.starts_with(kFileId); };
    if (std::ranges::count_if(objects_, is_file) + std::ranges::count_if(unlisted_, is_file) >= limits_.files)
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
    return put({file});
  });
  {
    const std::lock_guard lock(mutex_);
    unlisted_.erase(id);
  }
  if (const auto error = as_api_error(kept)) {
    ::unlink(path.c_str());
    return std::unexpected(*error);
  }
  return file;
}

Answered<Json> Batches::remove_file(const std::string& id) {
  const std::lock_guard change(changing_);
  LLADA_TRY(const Json file, find("file", id));
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, object] : objects_)
      if (object.at("object") == "batch" && object.at("input_file_id") == id && !is_finished(object))
        return std::unexpected(ApiError(400, fmt::format("the batch {} reads this file", name), "id", "file_in_use"));
  }
  if (const auto error = as_api_error(put({}, {id}))) return std::unexpected(*error);
  ::unlink(path_of(id).c_str());
  return Json{{"id", id}, {"object", "file"}, {"deleted", true}};
}

// Of those that have ended the oldest go.
void Batches::keep_few_batches() {
  std::vector<std::pair<int64_t, std::string>> ended;
  int64_t count = 0;
  for (const Json& batch : all("batch")) {
    ++count;
    if (is_finished(batch)) ended.emplace_back(batch.at("created_at").get<int64_t>(), batch.at("id"));
  }
  std::ranges::sort(ended);
  std::vector<std::string> removed;
  for (size_t i = 0; i < ended.size() && count - std::ssize(removed) >= limits_.batches; ++i)
    removed.push_back(ended[i].second);
  if (!removed.empty()) static_cast<void>(put({}, removed));
}

Answered<Json> Batches::add_batch(Json batch) {
  const std::lock_guard change(changing_);
  LLADA_TRY(const Json file, find("file", batch.at("input_file_id")));
  const auto batches = all("batch");
  if (std::ranges::count_if(batches, std::not_fn(is_finished)) >= limits_.unfinished)
    return std::unexpected(ApiError(429,
                                    fmt::format("found {} batches that have not ended, needed fewer; try again "
                                                "later",
                                                limits_.unfinished),
                                    "", "too_many_batches"));
  keep_few_batches();
  Json json = {{"id", new_id("batch_")}, {"object", "batch"}};
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
  if (const auto error = as_api_error(put({json}))) return std::unexpected(*error);
  changed_.notify_all();
  return json;
}

Answered<Json> Batches::cancel_batch(const std::string& id) {
  const std::lock_guard change(changing_);
  LLADA_TRY(Json batch, find("batch", id));
  if (is_finished(batch))
    return std::unexpected(ApiError(
        400, fmt::format("status: found {}, needed a batch that has not ended", batch.at("status").dump()), "id"));
  if (batch["status"] != "cancelling") {
    batch["status"] = "cancelling", batch["cancelling_at"] = now();
    if (const auto error = as_api_error(put({batch}))) return std::unexpected(*error);
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

// Files whose time is over, but for those that a batch still reads.
std::set<std::string> Batches::expired_files() const {
  const std::lock_guard lock(mutex_);
  std::set<std::string> read, expired;
  for (const auto& [id, object] : objects_)
    if (object.at("object") == "batch" && !is_finished(object))
      read.insert(object.at("input_file_id").get<std::string>());
  for (const auto& [id, object] : objects_)
    if (object.at("object") == "file" && object.value("expires_at", INT64_MAX) < now() && !read.contains(id))
      expired.insert(id);
  return expired;
}

void Batches::remove_expired() {
  const std::lock_guard change(changing_);
  const auto expired = expired_files();
  const std::vector<std::string> removed(expired.begin(), expired.end());
  if (removed.empty() || !put({}, removed)) return;
  for (const std::string& id : removed) ::unlink(path_of(id).c_str());
}

// Waits for one; empty: the server ends. The oldest first.
std::string Batches::next_batch() {
  for (;;) {
    remove_expired();
    std::unique_lock change(changing_);  // nobody ends the one that is chosen
    std::unique_lock lock(mutex_);
    worked_on_.clear();
    if (stopping_) return "";
    const Json* next = nullptr;
    for (const auto& [id, object] : objects_)
      if (object.at("object") == "batch" && !is_finished(object) &&
          (next == nullptr || object.at("created_at") < next->at("created_at")))
        next = &object;
    if (next != nullptr) return worked_on_ = next->at("id");
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
    const Json& batch = objects_.at(id);
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
  return !stopping_ && objects_.at(id).at("status") != "cancelling" && now() < expires;
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
  Json batch = *find("batch", id);
  if (batch["status"] == "validating") batch["status"] = "in_progress";
  batch["in_progress_at"] = now();
  batch["request_counts"]["total"] = total;
  return put({batch});
}

// expired: what has no answer gets that error. Whether every request has its line now.
Result<bool> Batches::answer(const std::string& id, bool expired) {
  BatchDone done;
  for (const auto& file : {output_id(id), error_id(id)}) LLADA_TRY_STATUS(keep_private(path_of(file)));
  LLADA_TRY(auto output, BatchFile::open(path_of(output_id(id)), done));
  LLADA_TRY(auto errors, BatchFile::open(path_of(error_id(id)), done));
  const Json batch = *find("batch", id);
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
  options.in_flight = std::max<int64_t>(service_.admission().limits().running - 1, 1);
  options.gives_way = true;
  options.may_begin = [this] { return service_.admission().counts().waiting == 0; };
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
  options.proceed = [&](const BatchCounts& counts) {
    {
      const std::lock_guard lock(mutex_);
      Json& shown = objects_.at(id)["request_counts"];
      shown["completed"] = answered + counts.answered - counts.failed;
      shown["failed"] = failed + counts.failed;
    }
    return goes_on(id, expires);
  };
  LLADA_TRY(const BatchCounts counts, run_batch(service_, input, done, options));
  static_cast<void>(options.proceed(counts));
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
  Json batch = *find("batch", id);
  std::vector<Json> changed;
  for (const auto& [field, file, name] : {std::tuple("output_file_id", output_id(id), "output.jsonl"),
                                          std::tuple("error_file_id", error_id(id), "error.jsonl")}) {
    struct stat info {};
    if (::stat(path_of(file).c_str(), &info) != 0) continue;
    if (info.st_size == 0) {
      ::unlink(path_of(file).c_str());
      continue;
    }
    batch[field] = file;
    changed.push_back(file_json(file, fmt::format("{}_{}", id, name), "batch_output", info.st_size, 0));
  }
  batch["status"] = status, batch[status + "_at"] = now();
  if (!error.empty()) {
    const Json one = {{"code", "server_error"}, {"message", error}, {"param", nullptr}, {"line", nullptr}};
    batch["errors"] = {{"object", "list"}, {"data", Json::array({one})}};
  }
  changed.push_back(std::move(batch));
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
