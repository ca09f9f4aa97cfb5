// Option groups that commands share. Decoding options come from the list in decode/fields.h. They may stand on the
// command line, in a preset or in one string such as eval's --compare "fast: --threshold 0.9 --kv prefix".
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "engine/decode_choice.h"
#include "engine/session.h"

namespace llada::cli {

struct ModelOptions {
  std::string path, hub;  // one of the two: a file or folder, a repository (cli/hub_access.h)
  LoadOptions load;
};

// -m/--model, --hf-repo, --device, --threads, --attention and --pack-cache. The model may stand without -m too.
void add_model_options(CLI::App& app, ModelOptions& options);
std::string refuse_empty_path(const std::string& path);  // for CLI::Option::check; empty: no error
// The same for a command with a text: `MODEL TEXT`. Call it before the text's own positional option is added. Once the
// words are read, place_model() says which of the two a single word is.
void add_model_options(CLI::App& app, ModelOptions& options, std::optional<std::string>& first_word);

// The first word is the text where -m or -hf names the model, or where it is the only word and names no file; else it
// is the model. has_text: whether a text was given otherwise. Returns whether there is a text now.
Result<bool> place_model(ModelOptions& options, const std::optional<std::string>& first_word, std::string& text,
                         bool has_text);
void add_device_options(CLI::App& app, LoadOptions& options);
// Devices that --device offers beside the engine's own; program() sets them.
inline const DevicePlugin* more_devices = nullptr;
void add_override_options(CLI::App& app, Overrides& overrides, const std::string& group);  // --mask-id, ...
void add_threads_option(CLI::App& app, LoadOptions& options, const std::string& group);
void add_pack_cache_option(CLI::App& app, LoadOptions& options, const std::string& group);

// The path in an environment variable, with "~/" in front as HOME; empty where it is not set.
std::string path_from_environment(const char* name);
// LLADA_ISA, or empty: which kernels to use. The library itself never looks at the environment.
std::string isa_from_environment();
// LLADA_CDSPRPC, or empty: the library of device hexagon where --device names none.
std::string cdsprpc_from_environment();
void read_environment(LoadOptions& options);  // sets both, and the folders of the user's caches

// The decoding options of a command line.
class DecodeFlags : public DecodeChoice {
 public:
  // As DecodeChoice::resolve(); errors name the flag in place of the option's key.
  Status resolve(const std::optional<decode::ModelKind>& kind = {});
  // One option as in a command line, dashes or not, or preset-decode; it replaces an earlier value. A switch needs no
  // text. An error leaves all options as they were.
  Status set(std::string_view name, const std::string& text, const decode::ModelKind& kind);
  // An error of the model or the engine, with the flag in place of the option's key.
  Error named(Error error) const;

 private:
  friend void add_decode_options(CLI::App&, DecodeFlags&, bool);
};

// --preset-decode and a flag for every field. A wrong value ends the parse with CLI::ValidationError. For infilling
// --gen-length is refused: the gaps say it. Help names the defaults that `flags` have by now.
void add_decode_options(CLI::App& app, DecodeFlags& flags, bool infill = false);

// The start of options in a string that name no preset: nothing (one token per forward, a fixed length), a length that
// follows the answer, or the defaults of `run`.
enum class StartFrom { nothing, open_length, defaults };

// The same options from one string: words separated by white space, "--name value" or "--name=value". Validated;
// kind as in DecodeChoice::resolve().
Result<DecodeFlags> parse_decode_flags(std::string_view text, StartFrom start,
                                       const std::optional<decode::ModelKind>& kind = {});
Result<decode::DecodeOptions> parse_decode_options(std::string_view text,
                                                   const std::optional<decode::ModelKind>& kind = {},
                                                   StartFrom start = StartFrom::nothing);

// `llada help options`: every option with its values, its default and its effect, in lines of 80 columns.
std::string decode_options_help();

// The whole number that the text is; an error where it is anything else or out of range.
Result<int64_t> parse_integer(std::string_view text, int64_t least, int64_t most);

// Adds an option of two words, which a shell completes; `set` gets true for the first. Any other word ends the parse.
CLI::Option* add_either_option(CLI::App& app, const std::string& name, const std::string& first,
                               const std::string& second, std::function<void(bool)> set, const std::string& help);

// Adds an option that sets `value` to a whole number from `least` to `most`; anything else ends the parse.
template <class T>
CLI::Option* add_integer_option(CLI::App& app, const std::string& names, T& value, int64_t least, int64_t most,
                                const std::string& help) {
  const std::string name = names.substr(names.rfind(',') + 1);
  const auto set = [name, least, most, &value](const std::string& text) {
    const auto number = parse_integer(text, least, most);
    if (!number) throw CLI::ValidationError(name, number.error().message);
    value = static_cast<T>(*number);
  };
  return app.add_option_function<std::string>(names, set, help)->type_name("N");
}

}  // namespace llada::cli
