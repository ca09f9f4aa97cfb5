#include "hub/file_download.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "base/os.h"
#include "formats/printable.h"
#include "hub/listing.h"

namespace llada::hub {
namespace {

constexpr size_t kMaxPageBytes = size_t{1} << 20;
constexpr int kMostBackoffMs = 30'000;

int64_t number(std::string_view text) {  // -1: none
  return std::max<int64_t>(parse_number<int64_t>(text).value_or(-1), -1);
}

std::unexpected<Error> stop_error(const Connection& c) {
  return failed("{}: stopped; the same command goes on from here", c.request.repository.full_name());
}

// False when a stop came first.
bool pause(const Connection& c, int64_t milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (std::chrono::steady_clock::now() < end) {
    if (c.stopped()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min<int64_t>(milliseconds, 50)));
  }
  return !c.stopped();
}

bool may_pass(const HttpAnswer& answer) { return answer.status == 0 || answer.status == 429 || answer.status >= 500; }

std::string reason_of(const HttpAnswer& answer) {
  return answer.status == 0 ? printable(answer.failure) : fmt::format("the server answered {}", answer.status);
}

// A name without an address rarely gets one within seconds: two attempts, and no long pause between them.
int most_attempts(const Connection& c, const HttpAnswer& answer) {
  return answer.unknown_host ? std::min(c.settings.attempts, 2) : c.settings.attempts;
}

int64_t backoff(const Connection& c, int attempt, const HttpAnswer& answer) {
  const int64_t own = std::min<int64_t>(int64_t{c.settings.backoff_ms} << std::min(attempt, 10), kMostBackoffMs);
  const int64_t asked = number(answer.header("retry-after"));  // seconds; the date form is not taken
  return asked < 0 ? own : std::clamp<int64_t>(asked * 1000, own, kMostBackoffMs);
}

std::unexpected<Error> refusal(const Connection& c, const std::string& what, const HttpAnswer& answer) {
  const std::string name = c.request.repository.full_name();
  const std::string code = answer.header("x-error-code");
  const std::string page = c.settings.endpoint + "/" + name;
  if (answer.status == 401 || answer.status == 403) {
    if (code == "GatedRepo")
      return invalid(
          "{}: the repository is gated (answer {}); accept its terms at {}, then set HF_TOKEN to a token of "
          "yours",
          name, answer.status, page);
    return invalid("{}: no access (answer {}): there is no such repository, or it is private{}", name, answer.status,
                   c.settings.token.empty() ? "; HF_TOKEN is not set" : " and the token does not open it");
  }
  if (answer.status == 404)
    return code == "RevisionNotFound"
               ? invalid("{}: no revision '{}' (answer 404)", name, printable(c.request.revision))
               : invalid("{}: not found at {} (answer 404): {}", name, c.settings.endpoint, what);
  return failed("{}: {}: the server answered {}", name, what, answer.status);
}

struct Descriptor {
  int fd = -1;
  explicit Descriptor(int f) : fd(f) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) os::close(fd);
  }
};

// A blob that is being filled: the file and the checksum of the bytes in it.
class Partial {
 public:
  Partial(const std::string& path, const RemoteHead& head) : path_(path), head_(head) {}

  Status open(const Connection& c) {
    file_.fd = os::open(path_, os::kRead | os::kWrite | os::kCreate);
    if (file_.fd < 0) return failed("{}: cannot create: {}", path_, std::strerror(errno));
    const auto info = os::info(file_.fd);
    if (!info || info->kind != os::FileKind::regular) return failed("{}: not a regular file", path_);
    if (info->bytes > head_.bytes) return restart();
    LLADA_TRY_STATUS(start_sum());
    std::vector<std::byte> buffer(size_t{1} << 20);
    while (bytes_ < info->bytes) {
      if (c.stopped()) return stop_error(c);
      const int64_t n = os::read_at(file_.fd, buffer.data(), buffer.size(), bytes_);
      if (n < 0) return failed("{}: read failed: {}", path_, std::strerror(errno));
      if (n == 0) return failed("{}: became shorter while it was read: {} of {} bytes", path_, bytes_, info->bytes);
      sum_->update({buffer.data(), static_cast<size_t>(n)});
      bytes_ += n;
    }
    return {};
  }

  Status restart() {
    if (!os::resize(file_.fd, 0)) return failed("{}: cannot be emptied: {}", path_, std::strerror(errno));
    return start_sum();
  }

  // False where the disk takes no more; error() says why.
  bool append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const int64_t n = os::write_at(file_.fd, bytes.data(), bytes.size(), bytes_);
      if (n <= 0) {
        write_error_ = n < 0 ? errno : ENOSPC;
        return false;
      }
      sum_->update(bytes.first(static_cast<size_t>(n)));
      bytes_ += n;
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return true;
  }

  Status disk() const {
    if (write_error_ == 0) return {};
    return failed("{}: write failed: {}", path_, std::strerror(write_error_));
  }

  // The sum is over afterwards.
  bool is_right() { return sum_->hex() == head_.etag; }

  Status name(const std::string& path) {
    if (!os::sync(file_.fd)) return failed("{}: fsync failed: {}", path_, std::strerror(errno));
    if (!os::replace(path_, path)) return failed("{}: rename failed: {}", path, std::strerror(errno));
    return {};
  }

  int64_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  Status start_sum() {
    bytes_ = 0;
    LLADA_TRY(sum_, is_sha256(head_.etag) ? Checksum::sha256() : Checksum::git_blob(head_.bytes));
    return {};
  }

  std::string path_;
  const RemoteHead& head_;
  Descriptor file_{-1};
  std::unique_ptr<Checksum> sum_;
  int64_t bytes_ = 0;
  int write_error_ = 0;
};

// The first byte of "bytes 100-199/200"; -1: not said.
int64_t range_begin(std::string_view text) {
  if (!text.starts_with("bytes ")) return -1;
  text.remove_prefix(6);
  return number(text.substr(0, std::min(text.find('-'), text.size())));
}

Status hold(FileLock& lock, const Connection& c, const std::string& path) {
  if (!lock.try_hold()) {
    c.say(fmt::format("another process is downloading {}; waiting for it", printable(path)));
    do
      if (!pause(c, 200)) return stop_error(c);
    while (!lock.try_hold());
  }
  if (!lock.warning().empty() && !std::exchange(c.told_of_locks, true)) c.say(printable(lock.warning()));
  return {};
}

// Fills `partial` up to the size that the head promised.
Status fill(const Connection& c, const std::string& address, const std::string& path, const RemoteHead& head,
            Partial& partial, int64_t& received, const std::function<void(int64_t)>& progress) {
  int attempt = 0;
  int64_t furthest = partial.bytes();
  while (partial.bytes() < head.bytes) {
    const int64_t before = partial.bytes();
    bool too_long = false, begun = false, wrong_range = false;
    size_t page_bytes = 0;
    Status restarted;
    const BodySink sink = [&](const HttpAnswer& answer, std::span<const std::byte> bytes) {
      if (answer.status != 200 && answer.status != 206)  // an error's page, which nobody reads
        return (page_bytes += bytes.size()) < kMaxPageBytes;
      if (!std::exchange(begun, true) && before > 0) {
        wrong_range = answer.status == 206 && range_begin(answer.header("content-range")) != before;
        if (wrong_range) return false;
        if (answer.status == 200) restarted = partial.restart();  // the server knows no ranges
        if (!restarted) return false;
      }
      too_long = static_cast<int64_t>(bytes.size()) > head.bytes - partial.bytes();
      if (too_long || !partial.append(bytes)) return false;
      received += static_cast<int64_t>(bytes.size());
      if (progress) progress(partial.bytes());
      return true;
    };
    const HttpAnswer answer = c.http.download(address, before, sink);
    LLADA_TRY_STATUS(restarted);
    LLADA_TRY_STATUS(partial.disk());
    if (answer.stopped || c.stopped()) return stop_error(c);
    if (too_long) {
      os::remove(partial.path());
      return failed("{}: the server sends more than the {} bytes that it announced", printable(path), head.bytes);
    }
    if (partial.bytes() == head.bytes) break;
    if (answer.status >= 400 && !may_pass(answer) && answer.status != 416) return refusal(c, printable(path), answer);
    if (answer.status == 416 || wrong_range) LLADA_TRY_STATUS(partial.restart());
    if (partial.bytes() > std::exchange(furthest, std::max(furthest, partial.bytes()))) attempt = 0;
    const std::string why = wrong_range ? "the server sends another part than was asked for"
                            : answer.status == 0 || answer.status >= 400 ? reason_of(answer)
                                                                         : "the connection ended";
    if (++attempt >= most_attempts(c, answer))
      return failed("{}: {} after {} of {} bytes, {} times without progress; the same command goes on from there",
                    printable(path), why, partial.bytes(), head.bytes, attempt);
    const int64_t wait = backoff(c, attempt - 1, answer);
    c.say(fmt::format("{}: {} after {} of {} bytes; trying again in {:.0f} s", printable(path), why, partial.bytes(),
                      head.bytes, static_cast<double>(wait) / 1000));
    if (!pause(c, wait)) return stop_error(c);
  }
  return {};
}

}  // namespace

std::string escaped(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '.' || c == '~' || (keep_slashes && c == '/');
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Result<HttpAnswer> ask_patiently(const Connection& c, const std::string& what, const std::function<HttpAnswer()>& ask) {
  for (int attempt = 0;; ++attempt) {
    HttpAnswer answer = ask();
    if (answer.stopped || c.stopped()) return stop_error(c);
    if (answer.status >= 200 && answer.status < 400) return answer;
    if (!may_pass(answer)) return refusal(c, what, answer);
    if (attempt + 1 >= most_attempts(c, answer))
      return failed("{}: {}: {} ({} attempts at {})", c.request.repository.full_name(), what, reason_of(answer),
                    attempt + 1, c.settings.endpoint);
    const int64_t wait = backoff(c, attempt, answer);
    c.say(fmt::format("{}: {}; trying again in {:.0f} s", what, reason_of(answer), static_cast<double>(wait) / 1000));
    if (!pause(c, wait)) return stop_error(c);
  }
}

std::string file_address(const Connection& c, const std::string& commit, const std::string& path) {
  return fmt::format("{}/{}/resolve/{}/{}", c.settings.endpoint, c.request.repository.full_name(), commit,
                     escaped(path, true));
}

Result<RemoteHead> ask_head(const Connection& c, const std::string& commit, const std::string& path,
                            int64_t listed_bytes) {
  const std::string shown = printable(path);
  std::string address = file_address(c, commit, path);
  std::map<std::string, std::string> said;  // x-... of redirects within the hub, which the last answer may lack
  HttpAnswer answer;
  for (int hop = 0;; ++hop) {
    LLADA_TRY(answer, ask_patiently(c, shown, [&] { return c.http.head(address); }));
    const std::string& location = answer.header("location");
    for (const auto& [name, value] : answer.headers)
      if (name.starts_with("x-")) said.insert_or_assign(name, value);
    // Within the hub (a renamed repository) redirects are followed; the one to where the bytes are has said all.
    const bool inside = answer.status >= 300 && location.starts_with('/') && !location.starts_with("//");
    if (!inside) break;
    if (hop == 5) return failed("{}: redirected {} times", shown, hop + 1);
    address =
        c.settings.endpoint.substr(0, c.settings.endpoint.find('/', c.settings.endpoint.find("://") + 3)) + location;
  }
  const auto value = [&](const std::string& name) { return said.contains(name) ? said[name] : std::string(); };
  RemoteHead head{.etag = value("x-linked-etag"), .bytes = number(value("x-linked-size"))};
  if (head.etag.empty()) head.etag = answer.header("etag");
  std::string_view etag = head.etag;
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.starts_with('"') && etag.ends_with('"')) etag = etag.substr(1, etag.size() - 2);
  head.etag = std::string(etag);
  if (!is_commit(head.etag) && !is_sha256(head.etag))
    return failed("{}: its etag '{}' is neither a SHA-256 nor a SHA-1, so the file could not be checked", shown,
                  printable(head.etag));
  if (const std::string told = value("x-repo-commit"); !told.empty() && told != commit)
    return failed("{}: asked for commit {}, found {} in the answer of the server", shown, commit, printable(told));
  if (head.bytes < 0 && answer.status < 300) head.bytes = number(answer.header("content-length"));
  if (head.bytes < 0) head.bytes = listed_bytes;
  if (head.bytes < 0 || head.bytes > kMaxFileBytes) return failed("{}: the server does not say its size", shown);
  return head;
}

int64_t bytes_there(const Cache& cache, const RemoteHead& head) {
  if (const auto whole = os::info(cache.blob(head.etag)); whole && whole->bytes == head.bytes) return head.bytes;
  if (const auto part = os::info(cache.incomplete(head.etag)); part && part->bytes <= head.bytes) return part->bytes;
  return 0;
}

Result<int64_t> fetch_blob(const Connection& c, const std::string& commit, const std::string& path,
                           const RemoteHead& head, const std::function<void(int64_t)>& progress) {
  const std::string blob = c.cache.blob(head.etag);
  LLADA_TRY(auto lock, FileLock::open(c.cache.lock_path(head.etag)));
  LLADA_TRY_STATUS(hold(lock, c, path));
  // A blob has its name after its checksum; another size is an accident of the disk.
  if (const auto there = os::info(blob); there && there->bytes == head.bytes) return 0;
  const std::string address = file_address(c, commit, path);
  int64_t received = 0;
  for (bool resumed = true; resumed;) {
    Partial partial(c.cache.incomplete(head.etag), head);
    LLADA_TRY_STATUS(partial.open(c));
    resumed = partial.bytes() > 0;
    if (progress) progress(partial.bytes());
    LLADA_TRY_STATUS(fill(c, address, path, head, partial, received, progress));
    if (partial.is_right()) {
      LLADA_TRY_STATUS(partial.name(blob));
      return received;
    }
    os::remove(partial.path());
    if (resumed)
      c.say(fmt::format("{}: the bytes of an earlier attempt are not the file's beginning; it is downloaded anew",
                        printable(path)));
  }
  return failed("{}: its checksum is not {}, the one that the server announced; the file was damaged on the way",
                printable(path), head.etag);
}

}  // namespace llada::hub
