// Files and batches that a server keeps (/v1/files, /v1/batches). Their objects are in a Store, the files' bytes beside
// it, and a thread works on one batch after the other (serve/work/batch.h), with low priority
// (serve/work/waiting_room.h). A batch that was under way when the server ended, however it ended, goes on at the next
// start. No other server may use the folder.
//
// asker: the hash of the request's key; empty without a key. A request sees the objects that were made with its key,
// and those that were made without one. An object that this version cannot read stays in the store; the log names it.
#pragma once
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/file_lock.h"
#include "serve/http/http.h"
#include "serve/work/batch_files.h"
#include "serve/work/kept_objects.h"

namespace llada::serve {

class Service;
struct BatchCounts;

struct BatchLimits {
  int64_t disk_bytes = int64_t{10} << 30;  // of all files together
  int64_t files = 10'000, batches = 1'000, unfinished = 64;
};

class Batches {
 public:
  // Failed: the folder cannot be used, or another server uses it.
  static Result<std::unique_ptr<Batches>> open(Service& service, const std::string& folder, const BatchLimits& limits);
  ~Batches();
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  void start();  // called once the model is loaded
  void stop();   // cancels the requests under way; the batch goes on at the next start

  // Objects as OpenAI's protocol has them. seconds: until the file goes; 0: never.
  Answered<Json> add_file(const std::string& asker, const std::string& name, const std::string& purpose,
                          std::string_view bytes, int64_t seconds);
  Answered<Json> remove_file(const std::string& asker, const std::string& id);
  // With its endpoint, input_file_id, completion_window, metadata.
  Answered<Json> add_batch(const std::string& asker, Json batch);
  Answered<Json> cancel_batch(const std::string& asker, const std::string& id);
  Answered<Json> find(std::string_view asker, std::string_view kind, const std::string& id) const;  // file or batch
  std::vector<Json> all(std::string_view asker, std::string_view kind) const;                       // the newest first
  std::string path_of(const std::string& file) const { return folder_ + "/" + file; }

 private:
  Batches(Service& service, std::string folder, const BatchLimits& limits)
      : service_(service), folder_(std::move(folder)), limits_(limits) {}
  Status read_store();
  void remove_strays(const std::set<std::string>& known) const;
  void run();
  std::string next_batch();
  void work_on(const std::string& id);
  Status count_requests(const std::string& id, const std::string& path);
  Result<bool> answer(const std::string& id, bool expired);
  bool goes_on(const std::string& id, int64_t expires) const;
  void finish(const std::string& id, const std::string& status, const std::string& error);
  int64_t held_bytes() const;
  KeptObject kept(const std::string& id) const;  // one that is there
  ApiError storage_error(const Error& error, size_t bytes) const;
  // changing_ is held, and mutex_ is not.
  Status put(std::vector<KeptObject> objects, const std::vector<std::string>& removed = {});
  void remove_expired();
  void keep_few_batches();
  Status end_batch(const std::string& id, const std::string& status, const std::string& error);

  Service& service_;
  const std::string folder_;
  const BatchLimits limits_;
  std::optional<FileLock> lock_;
  // Held by whoever changes objects, from reading them until the disk has them. The requests' counts of the batch that
  // is worked on change without it.
  std::mutex changing_;
  std::unique_ptr<Store> store_;
  mutable std::mutex mutex_;  // taken after changing_, never held during disk work; guards the members below
  std::condition_variable changed_;
  KeptObjects objects_;
  std::map<std::string, int64_t> unlisted_;  // bytes of files that are no objects yet, by file or batch
  std::string worked_on_;                    // a batch
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace llada::serve
