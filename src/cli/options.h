// Option groups that commands share. Values are read strictly (a whole number, a whole word) by one table,
// whether they come from the command line or from one string such as eval's --compare "fast: --threshold 0.9
// --kv prefix".
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/session.h"

namespace llada::cli {

struct ModelOptions {
  std::string path;
  LoadOptions load;
};

// -m/--model (required), --device, --threads and --attention.
void add_model_options(CLI::App& app, ModelOptions& options);
void add_device_options(CLI::App& app, LoadOptions& options);

// LLADA_ISA, or empty: which kernels to use. The library itself never looks at the environment.
std::string isa_from_environment();
// LLADA_CDSPRPC, or empty: the library of device hexagon where --device names none.
std::string cdsprpc_from_environment();
void read_environment(LoadOptions& options);  // both

struct DecodeFlags {
  decode::DecodeOptions options;
  std::string accept_flag;    // what chose the acceptance rule: --accept, or a flag that belongs to one rule
  bool accept_named = false;  // by its name, with --accept
  std::string threshold_flag;  // what set the threshold: --threshold or --visible-threshold
  std::string revise_flag;    // what chose the way of revising
};

// --gen-length ... --remask-limit, straight into `flags`. A flag that only one rule reads chooses the rule. A
// wrong value ends the parse with CLI::ValidationError; what only together makes no sense is left to
// decode::validate(). For infilling --gen-length is refused: the gaps say it.
void add_decode_options(CLI::App& app, DecodeFlags& flags, bool infill = false);

// The same options from one string: words separated by white space, "--name value" or "--name=value".
// Validated.
Result<decode::DecodeOptions> parse_decode_options(std::string_view text);

// Whole-string numbers; nothing where text is anything else or out of range.
Result<int64_t> parse_integer(std::string_view text, int64_t least, int64_t most);

// A whole number from `least` to `most` straight into `value`; anything else ends the parse.
template <class T>
CLI::Option* add_integer_option(CLI::App& app, const std::string& name, T& value, int64_t least, int64_t most,
                                const std::string& help) {
  const auto set = [name, least, most, &value](const std::string& text) {
    const auto number = parse_integer(text, least, most);
    if (!number) throw CLI::ValidationError(name, number.error().message);
    value = static_cast<T>(*number);
  };
  return app.add_option_function<std::string>(name, set, help)->type_name("N");
}

}  // namespace llada::cli
