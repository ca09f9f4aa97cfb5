#include "hub/hub.h"

#include <filesystem>
#include <fstream>
#include <map>

#include "base/file.h"
#include "base/os.h"
#include "formats/gguf.h"
#include "formats/printable.h"
#include "hub/cache.h"
#include "hub/file_download.h"
#include "hub/http.h"
#include "hub/listing.h"

namespace llada::hub {
namespace {

std::string path_of(const Cache& cache, const std::string& commit, const Choice& choice) {
  if (choice.folder) return cache.snapshot(commit);
  return cache.snapshot(commit) + "/" + (choice.joined.empty() ? choice.files.front() : choice.joined);
}

int64_t bytes_of(const Cache& cache, const std::string& commit, const Choice& choice) {
  int64_t sum = 0;
  for (const std::string& file : choice.files)
    if (const auto info = os::info(cache.snapshot(commit) + "/" + file)) sum += info->bytes;
  return sum;
}

// done_to_them: "downloaded", "put together".
Status check_room(const std::string& name, const std::string& folder, int64_t bytes, std::string_view done_to_them) {
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  if (error) return failed("{}: {}", folder, error.message());
  if (space.available >= static_cast<uint64_t>(bytes)) return {};
  const auto gb = [](auto count) { return static_cast<double>(count) / 1e9; };
  return failed("{}: {:.2f} GB are to be {}, and {} has {:.2f} GB free on its file system (HF_HOME names another)",
                name, gb(bytes), done_to_them, folder, gb(space.available));
}

// Puts the pieces of a file together, once all are there, under a name that it gets when it is known to be a whole GGUF
// file. They stay beside it, as the cache folder has them, so that nobody downloads them again.
Status join(const Cache& cache, const Request& request, const std::string& commit, const Choice& choice,
            const PullEvents& events) {
  if (choice.joined.empty() || cache.has(commit, choice.joined)) return {};
  const std::string folder = cache.snapshot(commit) + "/", whole = folder + choice.joined;
  const std::string unchecked = whole + ".unchecked", name = request.repository.full_name();
  const int64_t total = bytes_of(cache, commit, choice);
  LLADA_TRY_STATUS(check_room(name, cache.snapshot(commit), total, "put together"));
  LLADA_TRY(auto file, AtomicFile::create(unchecked));
  std::vector<char> bytes(size_t{4} << 20);
  for (const std::string& piece : choice.files) {
    std::ifstream in(std::filesystem::path(folder + piece), std::ios::binary);
    while (in) {
      if (events.stopped && events.stopped())
        return failed("{}: stopped while its pieces were put together; the same command goes on from these",
                      printable(choice.joined));
      in.read(bytes.data(), std::ssize(bytes));
      LLADA_TRY_STATUS(file.write(bytes.data(), static_cast<size_t>(in.gcount())));
      if (events.progress) events.progress(static_cast<int64_t>(file.position()), total, choice.joined);
    }
    if (!in.eof()) return failed("{}: cannot read", folder + piece);
  }
  LLADA_TRY_STATUS(file.commit());
  const auto is_gguf = [&]() -> Status {
    LLADA_TRY(const auto mapped, MappedFile::open(unchecked));
    LLADA_TRY(const auto parsed, GgufFile::parse(mapped.bytes(), printable(choice.joined)));
    return {};
  };
  std::error_code failure;
  if (const Status status = is_gguf(); !status) {
    std::filesystem::remove(unchecked, failure);
    return invalid("{}: {} pieces put together are no whole file: {}", name, choice.files.size(),
                   status.error().message);
  }
  std::filesystem::rename(unchecked, whole, failure);
  if (failure && !cache.has(commit, choice.joined))  // by another process
    return failed("{}: cannot rename: {}", unchecked, failure.message());
  if (events.say)
    events.say(fmt::format("{}: put together; its {} pieces stay in the cache, which takes the room twice",
                           printable(choice.joined), choice.files.size()));
  return {};
}

struct Cached {
  std::string commit;
  Choice choice;
};

Result<Cached> find_cached(const Cache& cache, const Request& request) {
  const std::string name = request.repository.full_name();
  const auto commit = cache.commit_of(request.revision);
  if (!commit) return invalid("{}: revision {} is not in the cache", name, printable(request.revision));
  LLADA_TRY(Choice choice, choose_files(cache.files_of(*commit), request.what, name));
  return Cached{*commit, std::move(choice)};
}

Result<Pulled> from_cache(const Cache& cache, const Request& request, const PullEvents& events) {
  LLADA_TRY(const Cached found, find_cached(cache, request));
  LLADA_TRY_STATUS(join(cache, request, found.commit, found.choice, events));
  return Pulled{.path = path_of(cache, found.commit, found.choice),
                .commit = found.commit,
                .bytes = bytes_of(cache, found.commit, found.choice),
                .downloaded_bytes = 0,
                .from_cache = true};
}

Result<Listing> ask_listing(const Connection& c) {
  const std::string address = fmt::format("{}/api/models/{}/revision/{}?blobs=true", c.settings.endpoint,
                                          c.request.repository.full_name(), escaped(c.request.revision, false));
  LLADA_TRY(const HttpAnswer answer,
            ask_patiently(c, "the list of files", [&] { return c.http.get(address, kMaxListingBytes); }));
  const std::string source = c.request.repository.full_name() + ": the list of files";
  LLADA_TRY(auto listing, parse_listing(answer.body, source));
  if (is_commit(c.request.revision) && listing.commit != c.request.revision)
    return failed("{}: found commit {}, asked for {}", source, listing.commit, c.request.revision);
  return listing;
}

struct Wanted {
  std::string path;
  RemoteHead head;
};

Result<Pulled> download(const Connection& c, const Listing& listing) {
  const std::string name = c.request.repository.full_name();
  std::vector<std::string> names;
  std::map<std::string, int64_t> listed;
  for (const RemoteFile& file : listing.files) {
    names.push_back(file.path);
    listed[file.path] = file.bytes;
  }
  LLADA_TRY(Choice choice, choose_files(names, c.request.what, name));
  if (!choice.joined.empty() && c.cache.has(listing.commit, choice.joined)) choice = {.files = {choice.joined}};
  Pulled pulled{.path = path_of(c.cache, listing.commit, choice), .commit = listing.commit};
  std::vector<Wanted> wanted;  // a file of a commit never changes, so a link stays right
  size_t small = 0;            // of these, before the weights
  int64_t total = 0, done = 0, missing = 0;
  for (size_t i = 0; i < choice.files.size(); ++i) {
    const std::string& path = choice.files[i];
    if (c.cache.has(listing.commit, path)) continue;
    LLADA_TRY(RemoteHead head, ask_head(c, listing.commit, path, listed[path]));
    total += head.bytes;
    missing += head.bytes - bytes_there(c.cache, head);
    wanted.push_back({path, std::move(head)});
    if (i < choice.small) small = wanted.size();
  }
  const Announced announced{total + bytes_of(c.cache, listing.commit, choice), listing.architecture};
  if (!choice.joined.empty()) missing += announced.bytes;  // the pieces, and the file that they are put together to
  if (!wanted.empty() || missing > 0) {
    LLADA_TRY_STATUS(c.cache.make_folders());
    LLADA_TRY_STATUS(check_room(name, c.settings.cache, missing,
                                choice.joined.empty() ? "downloaded" : "downloaded and put together"));
  }
  for (size_t i = 0; i <= wanted.size(); ++i) {
    if (i == small) {
      Status judged;
      if (choice.folder && c.events.judge) judged = c.events.judge(pulled.path);
      if (judged && i < wanted.size() && c.events.weigh) judged = c.events.weigh(announced);
      if (!judged && i < wanted.size()) judged.error().message += "; its weights were not downloaded";
      LLADA_TRY_STATUS(judged);
    }
    if (i == wanted.size()) break;
    const Wanted& file = wanted[i];
    const auto progress = [&](int64_t bytes) {
      if (c.events.progress) c.events.progress(done + bytes, total, file.path);
    };
    LLADA_TRY(const int64_t received, fetch_blob(c, listing.commit, file.path, file.head, progress));
    LLADA_TRY_STATUS(c.cache.link(listing.commit, file.path, file.head.etag));
    pulled.downloaded_bytes += received;
    done += file.head.bytes;
    progress(0);
  }
  LLADA_TRY_STATUS(join(c.cache, c.request, listing.commit, choice, c.events));
  LLADA_TRY_STATUS(c.cache.point(c.request.revision, listing.commit));
  pulled.bytes = bytes_of(c.cache, listing.commit, choice);
  return pulled;
}

}  // namespace

Result<Pulled> pull(const HubSettings& settings, const Request& request, bool prefer_cache, const PullEvents& events) {
  const Cache cache(settings.cache, request.repository);
  if (settings.offline) {
    auto cached = from_cache(cache, request, events);
    if (!cached) cached.error().message += " (offline: the hub was not asked)";
    return cached;
  }
  auto http = Http::create({.token = settings.token,
                            .certificates = settings.certificates,
                            .stall_seconds = settings.stall_seconds,
                            .stopped = events.stopped});
  if (!http) {
    auto cached = from_cache(cache, request, events);
    return cached ? std::move(cached) : std::unexpected(http.error());
  }
  HubSettings patience = settings;
  if (prefer_cache && find_cached(cache, request)) patience.attempts = 1;
  const Connection asking{patience, request, events, cache, **http};
  const auto listing = ask_listing(asking);
  if (!listing) {
    if (!prefer_cache || listing.error().kind != ErrorKind::failed || asking.stopped())
      return std::unexpected(listing.error());
    auto cached = from_cache(cache, request, events);
    if (!cached) return std::unexpected(listing.error());
    asking.say(fmt::format("{}; using the copy in the cache", listing.error().message));
    return cached;
  }
  return download({settings, request, events, cache, **http}, *listing);
}

}  // namespace llada::hub
