#include "hub/cache.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/os.h"

namespace llada::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxRefBytes = 200;
constexpr std::string_view kPrefix = "models--";

Status make_folder(const std::string& path) {
  std::error_code failure;
  fs::create_directories(path, failure);
  if (failure) return failed("{}: cannot create: {}", path, failure.message());
  return {};
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Regular files below `folder`, links followed, relative to it. Unreadable ones are left out.
std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code failure;
  for (fs::recursive_directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) out.push_back(it->path().lexically_relative(folder).string());
  }
  std::ranges::sort(out);
  return out;
}

std::string first_word(std::string text) {
  text.erase(std::min(text.find_first_of(" \r\n\t"), text.size()));
  return text;
}

}  // namespace

Cache::Cache(std::string root, const Repository& repository)
    : root_(std::move(root)),
      directory_(fmt::format("{}{}--{}", kPrefix, repository.owner, repository.name)),
      folder_(root_ + "/" + directory_) {}

std::optional<std::string> Cache::commit_of(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  const auto text = read_file(folder_ + "/refs/" + revision, kMaxRefBytes);
  if (!text) return std::nullopt;
  std::string commit = first_word(*text);
  return is_commit(commit) ? std::optional(std::move(commit)) : std::nullopt;
}

std::vector<std::string> Cache::files_of(const std::string& commit) const { return files_below(snapshot(commit)); }

bool Cache::has(const std::string& commit, const std::string& path) const {
  std::error_code ignored;
  return fs::is_regular_file(snapshot(commit) + "/" + path, ignored);
}

std::string Cache::lock_path(const std::string& etag) const {
  return fmt::format("{}/.locks/{}/{}.lock", root_, directory_, etag);
}

Status Cache::remove() const {
  std::error_code failure;
  if (!fs::is_directory(folder_, failure)) return invalid("{}: nothing of it is cached", folder_);
  std::vector<FileLock> held;
  for (fs::directory_iterator at(folder_of(lock_path("")), failure), end; !failure && at != end;
       at.increment(failure)) {
    LLADA_TRY(auto lock, FileLock::open(at->path().string()));
    if (!lock.try_hold()) return failed("{}: a download of it is under way", folder_);
    held.push_back(std::move(lock));
  }
  fs::remove_all(folder_, failure);
  if (failure) return failed("{}: cannot remove: {}", folder_, failure.message());
  return {};
}

Status Cache::make_folders() const {
  LLADA_TRY_STATUS(make_folder(folder_ + "/blobs"));
  LLADA_TRY_STATUS(make_folder(folder_ + "/snapshots"));
  LLADA_TRY_STATUS(make_folder(folder_ + "/refs"));
  return make_folder(fmt::format("{}/.locks/{}", root_, directory_));
}

Status Cache::link(const std::string& commit, const std::string& path, const std::string& etag) const {
  const std::string name = snapshot(commit) + "/" + path;
  LLADA_TRY_STATUS(make_folder(folder_of(name)));
  std::string target;  // from the folder of `name` up to that of the repository
  for (int64_t i = 0; i < 2 + std::ranges::count(path, '/'); ++i) target += "../";
  target += "blobs/" + etag;
  std::error_code ignored;
  if (fs::is_symlink(name, ignored) && fs::read_symlink(name, ignored) == target) return {};
  // Beside it and then in its place, so that the name is never without a file.
  const std::string beside = fmt::format("{}.{}.tmp", name, os::process_id());
  os::remove(beside);
  const std::string file = blob(etag);
  const auto made = [&] {
    if (os::symbolic_link(target, beside)) return true;
    if (!os::links_are_absent(errno)) return false;
    // A file system without symbolic links, which may have hard ones. Otherwise the file itself moves there, as
    // Hugging Face's tools do it.
    return os::link(file, beside) || os::replace(file, beside);
  };
  if (!made() || !os::replace(beside, name)) {
    Error error{ErrorKind::failed, fmt::format("{}: cannot link: {}", name, std::strerror(errno))};
    os::remove(beside);
    return std::unexpected(std::move(error));
  }
  return {};
}

Status Cache::point(const std::string& revision, const std::string& commit) const {
  if (is_commit(revision)) return {};
  const std::string path = folder_ + "/refs/" + revision;
  LLADA_TRY_STATUS(make_folder(folder_of(path)));
  LLADA_TRY(auto file, AtomicFile::create(path));
  LLADA_TRY_STATUS(file.write(commit.data(), commit.size()));
  return file.commit();
}

std::vector<CachedSnapshot> list_cache(const std::string& root) {
  std::vector<CachedSnapshot> out;
  std::error_code failure;
  for (fs::directory_iterator it(root, failure), end; !failure && it != end; it.increment(failure)) {
    const std::string directory = it->path().filename().string();
    const size_t between = directory.find("--", kPrefix.size());
    if (!directory.starts_with(kPrefix) || between == std::string::npos) continue;
    const Repository repository{directory.substr(kPrefix.size(), between - kPrefix.size()),
                                directory.substr(between + 2)};
    if (!looks_like_repository(repository.full_name())) continue;
    const Cache cache(root, repository);
    std::map<std::string, std::vector<std::string>> revisions;
    for (const std::string& revision : files_below(it->path().string() + "/refs"))
      if (const auto commit = cache.commit_of(revision)) revisions[*commit].push_back(revision);
    std::error_code ignored;
    for (fs::directory_iterator at(it->path() / "snapshots", ignored); !ignored && at != end; at.increment(ignored)) {
      CachedSnapshot snapshot;
      snapshot.repository = repository.full_name();
      snapshot.commit = at->path().filename().string();
      if (!is_commit(snapshot.commit)) continue;
      snapshot.path = cache.snapshot(snapshot.commit);
      snapshot.revisions = revisions[snapshot.commit];
      for (const std::string& file : cache.files_of(snapshot.commit)) {
        std::error_code gone;
        const auto bytes = fs::file_size(snapshot.path + "/" + file, gone);
        if (gone) continue;
        ++snapshot.files;
        snapshot.bytes += bytes;
      }
      out.push_back(std::move(snapshot));
    }
  }
  std::ranges::sort(out, {}, [](const CachedSnapshot& s) { return std::pair(s.repository, s.commit); });
  return out;
}

}  // namespace llada::hub
