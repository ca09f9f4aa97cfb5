// The manual pages and the shells' completions, made of the same options as the help: the options that a command
// registers, and the words of a field of decode/fields.h. The build calls the programs for them (cmake/manual.cmake),
// so that they always agree with the help.
#pragma once
#include <string>

#include "base/error.h"
#include "cli/program.h"

namespace llada::cli {

// The page as roff: llada-COMMAND(1) of one of the program's commands, or llada(1) of the program where `command` is
// empty. version: "0.1.0".
Result<std::string> manual_page(const Program& which, std::string_view command, std::string_view version);

// The completion script of a shell: bash, zsh or fish; any other is invalid.
Result<std::string> completion(const Program& which, std::string_view shell);

}  // namespace llada::cli
