#include "hub/hub.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/file.h"
#include "formats/part_name.h"
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
  for (const std::string& file : choice.files) {
    struct stat info {};
    if (::stat((cache.snapshot(commit) + "/" + file).c_str(), &info) == 0) sum += info.st_size;
  }
  return sum;
}

// Puts the pieces of a file together, once all are there, under a name that it gets at the end. They stay beside it, as
// the cache folder has them, so that nobody downloads them again.
Status join(const Cache& cache, const std::string& commit, const Choice& choice, const PullEvents& events) {
  if (choice.joined.empty() || cache.has(commit, choice.joined)) return {};
  const std::string folder = cache.snapshot(commit) + "/";
  LLADA_TRY(auto whole, AtomicFile::create(folder + choice.joined));
  std::vector<char> bytes(size_t{4} << 20);
  for (const std::string& piece : choice.files) {
    std::ifstream in(folder + piece, std::ios::binary);
    while (in) {
      if (events.stopped && events.stopped())
        return failed("{}: stopped while its pieces were put together; the same command goes on from these",
                      printable(choice.joined));
      in.read(bytes.data(), std::ssize(bytes));
      LLADA_TRY_STATUS(whole.write(bytes.data(), static_cast<size_t>(in.gcount())));
    }
    if (!in.eof()) return failed("{}: cannot read", folder + piece);
  }
  return whole.commit();
}

Result<Pulled> from_cache(const Cache& cache, const Request& request, const PullEvents& events) {
  const std::string name = request.repository.full_name();
  const auto commit = cache.commit_of(request.revision);
  if (!commit) return invalid("{}: revision {} is not in the cache", name, printable(request.revision));
  LLADA_TRY(const Choice choice, choose_files(cache.files_of(*commit), request.what, name));
  if (!choice.joined.empty() && cut_name(choice.files.front()).count == 0)  // some may be missing
    return invalid("{}: {} is in the cache in pieces of which no name says how many there are", name,
                   printable(choice.joined));
  LLADA_TRY_STATUS(join(cache, *commit, choice, events));
  return Pulled{.path = path_of(cache, *commit, choice),
                .commit = *commit,
                .bytes = bytes_of(cache, *commit, choice),
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

Status check_room(const std::string& name, const std::string& folder, int64_t bytes, bool joins) {
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  if (error) return failed("{}: {}", folder, error.message());
  if (space.available >= static_cast<uint64_t>(bytes)) return {};
  const auto gb = [](auto count) { return static_cast<double>(count) / 1e9; };
  return failed(
      "{}: {:.2f} GB are to be downloaded{}, and {} has {:.2f} GB free on its file system (HF_HOME names another)",
      name, gb(bytes), joins ? " and put together" : "", folder, gb(space.available));
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
    LLADA_TRY_STATUS(check_room(name, c.settings.cache, missing, !choice.joined.empty()));
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
  LLADA_TRY_STATUS(join(c.cache, listing.commit, choice, c.events));
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
  if (prefer_cache && from_cache(cache, request, events)) patience.attempts = 1;
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
