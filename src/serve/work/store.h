// What a server keeps between its runs: objects as their routes answer them, by their ids. On disk it is an SQLite
// file; in a build without SQLite (absent_store.cc) nothing can be kept. Usable by one thread at a time.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada::serve {

struct StoredObject {
  std::string id, json;
};

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

}  // namespace llada::serve
