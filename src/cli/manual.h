// The manual pages and the shells' completions, made of the same options as the help: the options that a command
// registers, and the words of a field of decode/fields.h. The build calls the programs for them (cmake/manual.cmake),
// so that they cannot say anything else.
#pragma once
#include <string>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/program.h"

namespace llada::cli {

// roff: the page of one of the program's commands, llada-COMMAND(1), or of the program, llada(1), where `command` is
// empty. version: "0.1.0".
Result<std::string> manual_page(const Program& which, std::string_view command, std::string_view version);

// shell: bash, zsh or fish. A script for the place where that looks for them.
Result<std::string> completion(const Program& which, std::string_view shell);

}  // namespace llada::cli
