#include "cli/output_file.h"

#include <utility>

#include "cli/terminal.h"

namespace llada::cli {

Result<OutputFile> OutputFile::open(const std::string& path) {
  OutputFile out;
  out.stdout_ = path == "-";
  if (!path.empty() && !out.stdout_) {
    LLADA_TRY(auto file, AtomicFile::create(path));
    out.file_.emplace(std::move(file));
  }
  return out;
}

Status OutputFile::write(std::string_view bytes) {
  if (stdout_) return print(bytes);
  return file_ ? file_->write(bytes.data(), bytes.size()) : Status();
}

Status OutputFile::commit() { return file_ ? file_->commit() : Status(); }

Status OutputFile::report(std::string_view text) const {
  if (!stdout_) return print(text);
  note(text);
  return {};
}

std::string refuse_stdout(const std::string& path) { return path == "-" ? "found '-', needed the name of a file" : ""; }

CLI::Option* only_file(CLI::Option* option) { return option->check(refuse_stdout, ""); }

}  // namespace llada::cli
