// The objects of files and batches that a server keeps between its runs: their rows on disk, and in memory by id.
// Counts and orders are kept too, so that only listing goes through all objects. Used by one thread at a time.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/http/http.h"

namespace llada::serve {

struct StoredObject {
  std::string id, json;
};

// The rows: an SQLite file; in a build without SQLite (absent_store.cc) nothing can be kept. Usable by one thread at a
// time.
class Store {
 public:
  // Why this build keeps nothing; empty: it does.
  static std::string_view absence();
  // Creates the file where it is missing.
  static Result<std::unique_ptr<Store>> open(const std::string& path);
  virtual ~Store() = default;

  virtual Result<std::vector<StoredObject>> all() = 0;
  // Puts and removes all of them or none; when it returns they survive a loss of power.
  virtual Status change(std::span<const StoredObject> put, std::span<const std::string> removed) = 0;
};

inline constexpr std::string_view kFileId = "file-", kBatchId = "batch_";  // the beginnings of ids

struct KeptObject {
  Json json;            // as clients see it: a file or a batch with all fields that this server reads
  std::string owner{};  // who sees it: one who asks with that hash of a key; empty: everybody

  // Invalid: it lacks such a field, or has another type there.
  static Result<KeptObject> read(const StoredObject& stored);
  StoredObject stored() const;

  std::string id() const { return json.at("id"); }
  bool is_file() const { return json.at("object") == "file"; }
  bool is_open() const;  // a batch that has not ended
  bool seen_by(std::string_view asker) const { return owner.empty() || owner == asker; }
};

class KeptObjects {
 public:
  KeptObject* find(const std::string& id);
  const KeptObject* find(const std::string& id) const;
  void put(KeptObject object);  // in the place of one with its id
  void remove(const std::string& id);

  // The newest first.
  std::vector<Json> all(std::string_view kind, std::string_view asker) const;
  int64_t files() const { return files_; }
  int64_t batches() const { return std::ssize(objects_) - files_; }
  int64_t bytes() const { return bytes_; }  // of files
  // Ids of batches that have not ended, the oldest first, and of those that have.
  const std::set<std::pair<int64_t, std::string>>& open() const { return open_; }
  const std::set<std::pair<int64_t, std::string>>& ended() const { return ended_; }
  std::string reader_of(const std::string& file) const;  // a batch that has not ended; empty: none
  std::vector<std::string> expired(int64_t now) const;   // files that no such batch reads

 private:
  void count(const KeptObject& object, int64_t sign);

  std::map<std::string, KeptObject> objects_;
  std::set<std::pair<int64_t, std::string>> open_, ended_;  // batches by the time of their making
  std::set<std::pair<int64_t, std::string>> expiring_;      // files by the time when they go
  std::set<std::pair<std::string, std::string>> readers_;   // files with the batches that read them and have not ended
  int64_t files_ = 0, bytes_ = 0;
};

}  // namespace llada::serve
