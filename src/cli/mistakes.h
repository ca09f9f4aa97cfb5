// The message for a wrong command line: the wrong word, as it was typed, and the word that was probably meant.
#pragma once
#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada::cli {

using Arguments = std::vector<std::string>;

// "; did you mean X?" where one of `known` differs from `word` by one or two letters or begins with it, else nothing.
std::string suggestion(std::string_view word, std::span<const std::string> known);

// Rewrites options of other programs (-sys, -hf, --conversation) to those that do the same here, as CLI11 reads them,
// and "--NAME=" to an empty value. Invalid: an option with one dash that has no counterpart here.
Result<Arguments> known_words(const CLI::App& app, Arguments arguments);

// After the parse: an error where an option has an empty value, as from an unset variable of a shell.
Status refuse_empty(const CLI::App& app);

// "; did you mean llada inspect MODEL?" for a command of another program, else nothing.
std::string foreign_command(std::string_view word);

// Names with one dash that known_words() rewrites to this option: -hf.
std::vector<std::string_view> other_short_names(const CLI::App& app, const CLI::Option& option);

std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error);

// A message of the library with its option names as flags: "mask_id" becomes "--mask-id".
std::string with_flags(std::string text);

// The same for an error. Where its message begins with an option, that becomes the name that the user typed in
// `arguments`: "-n: ...".
Error as_typed(Error error, const CLI::App& app, const Arguments& arguments);

}  // namespace llada::cli
