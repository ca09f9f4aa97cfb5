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

// "; did you mean X?" where one of `known` is a slip of the finger away or begins with `word`, else nothing.
std::string suggestion(std::string_view word, std::span<const std::string> known);

// Options that other programs spell with one dash and several letters, as CLI11 can read them. Invalid: one that
// nothing here does.
Result<Arguments> known_words(const CLI::App& app, Arguments arguments);

// Behind the parse: whether an option was given without text, as an unset variable of a shell has it.
Status refuse_empty(const CLI::App& app);

// "; did you mean llada inspect MODEL?" for a command of another program, else nothing.
std::string foreign_command(std::string_view word);

// Further names of the option that known_words() takes, with one dash: -hf.
std::vector<std::string_view> other_short_names(const CLI::App& app, const CLI::Option& option);

std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error);

// A line of the library about a model's options, with their names as flags.
std::string with_flags(std::string text);

// The same for an error; one that begins with an option's long name has the name that stands in `arguments` in its
// place: "-n: ...".
Error as_typed(Error error, const CLI::App& app, const Arguments& arguments);

}  // namespace llada::cli
