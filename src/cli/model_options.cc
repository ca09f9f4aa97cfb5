// -m, --device and the other options that say which model computes where.

#include <cstdlib>

#include "base/file.h"
#include "base/os.h"
#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/options.h"

namespace llada::cli {

static constexpr const char* kGroup = "Model and device";

void read_environment(LoadOptions& options) {
  options.isa = isa_from_environment();
  options.cdsprpc = cdsprpc_from_environment();
  if (options.pack_cache.folder.empty())
    options.pack_cache.folder = default_pack_folder(os::variable("XDG_CACHE_HOME"), os::home_folder());
}

std::string path_from_environment(const char* name) { return expand_home(os::variable(name), os::home_folder()); }

std::string cdsprpc_from_environment() { return path_from_environment("LLADA_CDSPRPC"); }

std::string isa_from_environment() { return os::variable("LLADA_ISA"); }

void add_threads_option(CLI::App& app, LoadOptions& options, const std::string& group) {
  add_integer_option(app, "-t,--threads", options.threads, 0, 1024, "threads; 0: one per physical core (0)")
      ->group(group);
}

void add_pack_cache_option(CLI::App& app, LoadOptions& options, const std::string& group) {
  PackCache& cache = options.pack_cache;
  cache.use = PackCache::Use::found;
  app.add_option_function<std::string>(
         "--pack-cache",
         [&cache](const std::string& text) {
           if (text.empty()) throw CLI::ValidationError("--pack-cache", "found '', needed off, auto or a folder");
           cache.use = text == "off"    ? PackCache::Use::none
                       : text == "auto" ? PackCache::Use::found
                                        : PackCache::Use::make;
           if (cache.use == PackCache::Use::make) cache.folder = text;
         },
         "packed weights on disk; auto: uses those of llada pack, and makes them on machines with less than 12 GB; "
         "off: uses none; a folder: uses those in it, and makes missing ones (auto)")
      ->type_name("WHERE")
      ->group(group);
}

CLI::Option* add_either_option(CLI::App& app, const std::string& name, const std::string& first,
                               const std::string& second, std::function<void(bool)> set, const std::string& help) {
  const auto read = [=, set = std::move(set)](const std::string& text) {
    if (text != first && text != second)
      throw CLI::ValidationError(name, fmt::format("found '{}', needed {} or {}", text, first, second));
    set(text == first);
  };
  return offer(app.add_option_function<std::string>(name, read, help), first + " " + second);
}

void add_override_options(CLI::App& app, Overrides& overrides, const std::string& group) {
  add_integer_option(app, "--mask-id", overrides.mask_id, 0, int64_t{1} << 24,
                     "token id of the mask, where the model's file does not say or says another")
      ->group(group);
  add_integer_option(app, "--attention-block", overrides.attention_block, 0, int64_t{1} << 20,
                     "block-causal attention over blocks of N positions, where the file does not say; 0: full")
      ->group(group);
  add_either_option(
      app, "--shift", "true", "false", [&overrides](bool shifted) { overrides.shift_logits = shifted; },
      "true: row i - 1 predicts position i, as in Dream; where the file does not say")
      ->type_name("BOOL")
      ->group(group);
}

void add_device_options(CLI::App& app, LoadOptions& options) {
  options.plugin = more_devices;
  offer(app.add_option("--device", options.device,
                       fmt::format("where to compute: cpu, {}hexagon[:...] or cuda[:budget=4GiB] (cpu)",
                                   more_devices != nullptr ? "sim:PROFILE[,window=40%,...], " : ""))
            ->type_name("NAME")
            ->group(kGroup),
        "cpu cuda hexagon");
  add_threads_option(app, options, kGroup);
  add_integer_option(app, "-c,--ctx-size", options.context, 0, int64_t{1} << 30,
                     "most positions of prompt and answer together; 0: as many as the model was trained for (0)")
      ->group(further(kGroup));
  add_either_option(
      app, "--attention", "fast", "exact", [&options](bool fast) { options.exact_attention = !fast; },
      "for rows that see 1024 positions or more; fast: reads 8-bit copies of keys and values where the processor has "
      "kernels for them (error about 1 %); exact: reads the originals (fast)")
      ->type_name("KIND")
      ->group(further(kGroup));
  add_override_options(app, options.overrides, further(kGroup));
  add_pack_cache_option(app, options, further(kGroup));
  app.add_flag_callback(
         "--no-fit-check", [&options] { options.system_root.clear(); },
         "load a model that does not fit into the memory that is left")
      ->group(further(kGroup));
}

// An unset variable of a shell gives one.
std::string refuse_empty_path(const std::string& path) {
  return path.empty() ? "'' is no path: needed a file or a folder" : "";
}

static constexpr const char* kModelHelp = "a GGUF file, folder or short name; or -hf OWNER/NAME";

static void add_named_model(CLI::App& app, ModelOptions& options, const std::string& names, const char* help) {
  app.add_option(names, options.path, help)->type_name("MODEL")->check(refuse_empty_path, "")->group(kGroup);
  add_hub_option(app, options, further(kGroup));
  add_device_options(app, options.load);
}

void add_model_options(CLI::App& app, ModelOptions& options) {
  add_named_model(app, options, "-m,--model,MODEL", kModelHelp);
}

void add_model_options(CLI::App& app, ModelOptions& options, std::optional<std::string>& first_word) {
  app.add_option("MODEL", first_word, kModelHelp)->group(kGroup);
  add_named_model(app, options, "-m,--model", "the same, at any place");
}

Result<bool> place_model(ModelOptions& options, const std::optional<std::string>& first_word, std::string& text,
                         bool has_text) {
  if (!first_word) return has_text;
  const bool is_file = os::exists(*first_word) || first_word->ends_with(".gguf") || is_short_name(*first_word);
  const std::string& named = options.path.empty() ? options.hub : options.path;
  if (named.empty() && (has_text || is_file)) {
    if (!is_file)
      return invalid("no file or folder '{}'; needed MODEL, and behind it a text in quotes (or -m MODEL)", *first_word);
    options.path = *first_word;
    return has_text;
  }
  if (has_text && is_file)
    return invalid("MODEL: found '{}' beside {} {}, needed one of the two", *first_word,
                   options.path.empty() ? "-hf" : "--model", named);
  if (has_text)
    return invalid("found '{}' and '{}', needed one text; several words stand in quotes", *first_word, text);
  text = *first_word;
  return true;
}

}  // namespace llada::cli
