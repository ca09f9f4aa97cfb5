// The files that a command writes because an option names them. "-" is stdout where lines or numbers go one after the
// other into it; every other option refuses "-" (only_file).
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"

namespace llada::cli {

class OutputFile {
 public:
  // path: empty: nothing is written. A file that could not be written later is refused here.
  static Result<OutputFile> open(const std::string& path);
  Status write(std::string_view bytes);
  Status commit();  // puts the file in place (AtomicFile)

  // Prints the command's other output: on stdout, but on stderr where stdout has the file.
  Status report(std::string_view text) const;

 private:
  OutputFile() = default;
  std::optional<AtomicFile> file_;
  bool stdout_ = false;
};

// Makes the option refuse "-": its file is read again, or is written beside the output on stdout.
CLI::Option* only_file(CLI::Option* option);
std::string refuse_stdout(const std::string& path);  // the error for "-", else empty

}  // namespace llada::cli
