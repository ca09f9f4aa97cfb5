// The cache folder of Hugging Face's tools, shared with them:
//
//   models--OWNER--NAME/blobs/ETAG                the files, named by SHA-256 (Git LFS) or Git's SHA-1 of a blob
//   models--OWNER--NAME/blobs/ETAG.incomplete     the bytes of one so far
//   models--OWNER--NAME/snapshots/COMMIT/PATH     relative links to them; where there can be none, the files themselves
//   models--OWNER--NAME/refs/REVISION             the commit that a branch or tag was at
//   .locks/models--OWNER--NAME/ETAG.lock          held (flock) by who is downloading it
//
// Source: the huggingface_hub package's documentation and behaviour; tests/hub/python_tools.py compares both (0.36,
// 2.4).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file_lock.h"
#include "hub/repository.h"

namespace llada::hub {

struct CachedSnapshot {
  std::string repository, commit;
  std::vector<std::string> revisions;  // branches and tags that point to it
  uint64_t files = 0, bytes = 0;
  std::string path;
};

class Cache {
 public:
  Cache(std::string root, const Repository& repository);

  std::optional<std::string> commit_of(const std::string& revision) const;  // a commit is its own
  std::string snapshot(const std::string& commit) const { return folder_ + "/snapshots/" + commit; }
  std::vector<std::string> files_of(const std::string& commit) const;  // complete ones, relative to the snapshot
  bool has(const std::string& commit, const std::string& path) const;

  std::string blob(const std::string& etag) const { return folder_ + "/blobs/" + etag; }
  std::string incomplete(const std::string& etag) const { return blob(etag) + ".incomplete"; }

  Status make_folders() const;
  Status link(const std::string& commit, const std::string& path, const std::string& etag) const;  // path to its blob
  Status point(const std::string& revision, const std::string& commit) const;  // writes refs/REVISION
  std::string lock_path(const std::string& etag) const;
  // Removes the repository with all commits and unfinished downloads. Invalid: it is not in the cache; failed: a
  // download is under way.
  Status remove() const;

 private:
  std::string root_, directory_, folder_;  // directory_: the last part of folder_
};

std::vector<CachedSnapshot> list_cache(const std::string& root);

}  // namespace llada::hub
