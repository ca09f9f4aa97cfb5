#include "serve/work/batch_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "base/file.h"
#include "base/os.h"
#include "json/parse.h"

namespace llada::serve {
namespace {

Status check_encoding(std::string_view first, const std::string& name) {
  if (first.starts_with("\xFF\xFE") || first.starts_with("\xFE\xFF"))
    return invalid("{}: found UTF-16 or UTF-32, needed UTF-8", name);
  return {};
}

std::unexpected<Error> foreign(const std::string& where) {
  return invalid("{}: found no answer of a batch; needed a new file, or the output of an earlier run", where);
}

// What a line of an earlier run answers.
Status note_done(const std::string& text, const std::string& where, BatchDone& done) {
  constexpr JsonLimits kLimits{.depth = 32, .values = size_t{1} << 24, .run_bytes = size_t{1} << 28};
  const auto line = parse_ordered_object(text, where, kLimits);
  const auto field = [&](const char* name) { return line ? line->root.value(name, Json()) : Json(); };
  if (field("response").is_null() && field("error").is_null()) return foreign(where);
  if (const auto id = field("custom_id"); id.is_string()) {
    done.ids.insert(id.get<std::string>());
    return {};
  }
  if (const auto error = field("error"); error.is_object())
    if (const auto number = error.value("line", Json()); number.is_number_integer()) {
      done.lines.insert(number.get<int64_t>());
      return {};
    }
  return foreign(where);
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ > os::kStderr) os::close(fd_);
}

Result<LineSource> LineSource::open(const std::string& path, size_t most_bytes) {
  LineSource source;
  source.most_bytes_ = most_bytes;
  source.name_ = path == "-" ? "stdin" : path;
  source.file_ = Descriptor(path == "-" ? os::kStdin : os::open(path, os::kRead));
  if (source.file_.get() < 0) return std::unexpected(file_error(path, "open", errno));
  const auto info = os::info(source.file_.get());
  if (!info) return std::unexpected(file_error(source.name_, "look at", errno));
  if (info->kind == os::FileKind::folder) return invalid("{}: is a folder, needed a file of requests", source.name_);
  if (info->kind == os::FileKind::regular) source.size_ = info->bytes;
  return source;
}

bool LineSource::is_file(const std::string& path) const {
  const auto own = os::info(file_.get()), other = os::info(path);
  return own && other && own->kind == os::FileKind::regular && os::same_file(*own, *other);
}

// Whether the buffer holds all of the next line, which is looked for once in each byte. Of one that is too long it
// holds little.
bool LineSource::has_line() {
  searched_ = std::min(buffer_.find('\n', searched_), buffer_.size());
  if (searched_ < buffer_.size() || ended_) return true;
  if (buffer_.size() - begin_ > most_bytes_) {
    if (dropped_ == 0) kept_ = buffer_.substr(begin_, 200);
    dropped_ += static_cast<int64_t>(buffer_.size() - begin_);
    begin_ = buffer_.size();
  }
  buffer_.erase(0, std::exchange(begin_, 0));
  searched_ = buffer_.size();
  return false;
}

Status LineSource::read_more() {
  char bytes[size_t{64} << 10];
  const int64_t n = os::read(file_.get(), bytes, sizeof bytes);
  if (n < 0 && errno == EAGAIN) return {};
  if (n < 0) return failed("{}: read failed: {}", name_, std::strerror(errno));
  ended_ = n == 0;
  buffer_.append(bytes, static_cast<size_t>(n));
  return {};
}

Result<bool> LineSource::ready(std::chrono::milliseconds time) {
  if (has_line()) return true;
  if (!os::wait_readable(file_.get(), static_cast<int>(time.count()))) return false;
  LLADA_TRY_STATUS(read_more());
  return has_line();
}

Result<std::optional<LineSource::Line>> LineSource::next() {
  while (!has_line()) LLADA_TRY_STATUS(read_more());
  const bool last = searched_ == buffer_.size();
  const size_t size = searched_ - begin_;
  if (last && size == 0 && dropped_ == 0) return std::nullopt;
  Line line{.text = {}, .number = ++lines_, .too_long = dropped_ > 0 || size > most_bytes_, .ended = !last};
  line.text = dropped_ > 0 ? std::move(kept_) : buffer_.substr(begin_, line.too_long ? 200 : size);
  taken_ += std::exchange(dropped_, 0) + static_cast<int64_t>(size) + (last ? 0 : 1);
  begin_ = searched_ = searched_ + (last ? 0 : 1);
  if (line.number == 1) {
    LLADA_TRY_STATUS(check_encoding(line.text, name_));
    if (line.text.starts_with("\xEF\xBB\xBF")) line.text.erase(0, 3);
  }
  return line;
}

Result<BatchFile> BatchFile::open(const std::string& path, BatchDone& done) {
  BatchFile file;
  file.path_ = path == "-" ? "stdout" : path;
  if (path == "-") {
    file.file_ = Descriptor(os::kStdout);
    return file;
  }
  const auto old = os::info(path);
  file.regular_ = !old || old->kind == os::FileKind::regular;
  const unsigned more = file.regular_ ? os::kRead | os::kCreate | os::kAppend : 0;
  file.file_ = Descriptor(os::open(path, os::kWrite | more));
  if (file.file_.get() < 0) return std::unexpected(file_error(path, "write", errno));
  if (!file.regular_) return file;
  LLADA_TRY(auto lock, FileLock::open(path));
  file.lock_ = std::make_unique<FileLock>(std::move(lock));
  if (!file.lock_->try_hold()) return invalid("{}: another process writes answers to it", path);
  LLADA_TRY_STATUS(file.read_back(done));
  return file;
}

Status BatchFile::read_back(BatchDone& done) {
  LLADA_TRY(auto source, LineSource::open(path_, std::numeric_limits<size_t>::max()));
  for (;;) {
    LLADA_TRY(const auto line, source.next());
    if (!line) return {};
    const std::string where = fmt::format("{}:{}", path_, line->number);
    if (!line->ended) {  // the process that wrote it was killed
      const size_t common = std::min(line->text.size(), kBatchLineBegin.size());
      if (line->text.substr(0, common) != kBatchLineBegin.substr(0, common)) return foreign(where);
      if (!os::resize(file_.get(), bytes_)) return std::unexpected(file_error(path_, "cut its torn last line", errno));
      return {};
    }
    LLADA_TRY_STATUS(note_done(line->text, where, done));
    bytes_ = source.position(), ++lines_;
  }
}

Status BatchFile::add(std::string_view line) {
  for (std::string_view rest = line; !rest.empty();) {
    const int64_t n = os::write(file_.get(), rest.data(), rest.size());
    if (n < 0 && errno == EAGAIN) {  // a pipe that does not wait, as a parent process may leave it
      static_cast<void>(os::wait_writable(file_.get(), 100));
      continue;
    }
    if (n < 0) {
      const int code = errno;
      if (regular_ && rest.size() < line.size()) static_cast<void>(os::resize(file_.get(), bytes_));
      return failed("{}: cannot write: {}", path_, std::strerror(code));
    }
    rest.remove_prefix(static_cast<size_t>(n));
  }
  bytes_ += static_cast<int64_t>(line.size()), ++lines_;
  return {};
}

Status BatchFile::sync() {
  if (regular_ && !os::sync(file_.get())) return failed("{}: cannot write: {}", path_, std::strerror(errno));
  return {};
}

}  // namespace llada::serve
