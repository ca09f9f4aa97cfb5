// A model of a hub on this machine: cached files are used, missing ones are downloaded, checked and cached.
//
// Source of the protocol: Hugging Face's hub as its huggingface_hub package speaks it; tests/hub/python_tools.py lets
// both ask one server and compares their folders. The hub itself was out of reach, so two things are unsure. One is
// whether every mirror answers HEAD with x-linked-size (where none does, the listing's size is taken). The other is how
// the hub counts requests before it answers 429.
//
//   GET  {endpoint}/api/models/OWNER/NAME/revision/REVISION?blobs=true   commit and files
//   HEAD {endpoint}/OWNER/NAME/resolve/COMMIT/FILE   etag (x-linked-etag), size (x-linked-size), x-repo-commit
//   GET  the same, with Range; redirects to where the bytes are
//
// A file gets its name once all its bytes are there and their checksum is the etag's: SHA-256 for files in Git LFS,
// Git's SHA-1 for others. Until then they lie in ETAG.incomplete, from where another attempt, of this program or of
// Hugging Face's tools, goes on.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "hub/repository.h"

namespace llada::hub {

struct HubSettings {
  std::string endpoint = "https://huggingface.co";
  std::string cache;         // ~/.cache/huggingface/hub
  std::string token;         // empty: none; never in an error or a message
  std::string certificates;  // empty: the system's
  bool offline = false;
  int stall_seconds = 30;  // without a byte, after which a transfer is given up and tried again
  int attempts = 5;        // in a row without a byte of progress
  int backoff_ms = 1000;   // before the second attempt; doubled before each further one, at most 30 s
};

// The hub's announcement of a model before its weights are requested.
struct Announced {
  int64_t bytes = 0;              // of all of its files, those in the cache too
  std::string_view architecture;  // general.architecture of its GGUF files; empty: not said
};

struct PullEvents {
  // Bytes of the whole that are there; `total` is -1 where it is not known.
  std::function<void(int64_t done, int64_t total, std::string_view file)> progress = {};
  std::function<void(std::string_view line)> say = {};  // a retry, a wait for another process
  std::function<bool()> stopped = {};                   // asked several times a second
  // Judges a folder whose files are there but for the weights, before these are requested. An error ends the download;
  // files that are there stay.
  std::function<Status(const std::string& folder)> judge = {};
  // The same for the hub's announcement of files and folders.
  std::function<Status(const Announced&)> weigh = {};
};

struct Pulled {
  std::string path;  // of the file, or of the folder
  std::string commit;
  int64_t bytes = 0, downloaded_bytes = 0;  // of its files; of these over the network in this call
  bool from_cache = false;                  // the hub was not asked, or did not answer
};

// Errors: invalid where the request or the repository is wrong (no such one, no access, nothing that can be opened),
// failed where the network, the server or the disk is. Received bytes stay for the next call. A stop is
// ErrorKind::failed with the way to go on. prefer_cache: an answer that does not come is no error while a whole copy is
// there.
Result<Pulled> pull(const HubSettings& settings, const Request& request, bool prefer_cache, const PullEvents& events);

}  // namespace llada::hub
