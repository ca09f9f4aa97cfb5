// Brings a model of a hub to this machine: cached files are used, missing ones are downloaded, checked and cached.
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
  int stall_seconds = 30;  // a transfer without a byte for so long is tried again
  int attempts = 5;        // at most, in a row without a byte of progress
  int backoff_ms = 1000;   // before the second attempt; doubled before each further one, at most 30 s
};

// The hub's announcement of a model before its weights are requested.
struct Announced {
  int64_t bytes = 0;              // of all of its files, those in the cache too
  std::string_view architecture;  // general.architecture of its GGUF files; empty: not said
};

struct PullEvents {
  // done: bytes of all files that are there; total: -1 where it is not known.
  std::function<void(int64_t done, int64_t total, std::string_view file)> progress = {};
  std::function<void(std::string_view line)> say = {};  // a retry, a wait for another process
  std::function<bool()> stopped = {};                   // asked several times a second
  // Called for a folder before its weights are requested, with all other files there. An error ends the download; files
  // that are there stay.
  std::function<Status(const std::string& folder)> judge = {};
  // The same for files and folders, by the hub's announcement.
  std::function<Status(const Announced&)> weigh = {};
};

struct Pulled {
  std::string path;  // of the file, or of the folder
  std::string commit;
  int64_t bytes = 0, downloaded_bytes = 0;  // of its files; of these, over the network in this call
  bool from_cache = false;                  // the hub was not asked or did not answer
};

// Invalid: no such repository, no access, no model in it that can be opened. Failed: the network, the server, the disk,
// or a stop, whose error says how to go on. Received bytes stay for the next call. prefer_cache: where the hub does not
// answer, a complete copy in the cache is used.
Result<Pulled> pull(const HubSettings& settings, const Request& request, bool prefer_cache, const PullEvents& events);

}  // namespace llada::hub
