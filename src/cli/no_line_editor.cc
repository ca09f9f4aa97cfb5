// Where libedit is missing: lines come as the terminal gives them.
#include "cli/line_reader.h"

namespace llada::cli {

std::unique_ptr<LineReader> make_line_editor(const std::string&) { return nullptr; }

}  // namespace llada::cli
