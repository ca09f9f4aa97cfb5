// llada_options: keys and values from two lists, decoding's (decode/fields.h) and the one here: of loading, of engines,
// of scores, and of a request beside its decoding.
#include <algorithm>
#include <charconv>

#include "api/objects.h"
#include "engine/decode_choice.h"
#include "study/devices.h"

namespace llada::api {
namespace {

struct OwnOption {
  int32_t used_for;
  const char *key, *unit, *values, *initial, *help, *group;
  Status (*set)(OptionValues& values, std::string_view text);  // invalid: "found 'x', needed ..."
};

constexpr const char* kModel = "Model and device";
constexpr const char *kEngine = "Engine", *kScore = "Scoring";

template <class T>
Status read_whole(std::string_view text, int64_t least, int64_t most, T& out) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return invalid("found '{}', needed a whole number from {} to {}", text, least, most);
  out = static_cast<T>(value);
  return {};
}

constexpr int64_t kMostThreads = 1024, kMostStreams = 1024, kMostRows = int64_t{1} << 20,
                  kMostContext = int64_t{1} << 30, kMostTokens = int64_t{1} << 24, kMostCache = int64_t{1} << 46;

Status set_device(OptionValues& c, std::string_view text) {
  if (text.empty()) return invalid("found '', needed a device");
  c.load.device = text;
  c.load.plugin = &study_devices();
  return {};
}
Status set_threads(OptionValues& c, std::string_view text) {
  LLADA_TRY_STATUS(read_whole(text, 0, kMostThreads, c.load.threads));
  c.engine.threads = c.load.threads;
  return {};
}
Status set_ctx_size(OptionValues& c, std::string_view text) {
  return read_whole(text, 0, kMostContext, c.load.context);
}
Status set_mask_id(OptionValues& c, std::string_view text) {
  return read_whole(text, 0, kMostTokens, c.load.overrides.mask_id);
}
Status set_attention_block(OptionValues& c, std::string_view text) {
  return read_whole(text, 0, kMostRows, c.load.overrides.attention_block);
}
Status set_shift(OptionValues& c, std::string_view text) {
  if (text != "true" && text != "false") return invalid("found '{}', needed true or false", text);
  c.load.overrides.shift_logits = text == "true";
  return {};
}
Status set_attention(OptionValues& c, std::string_view text) {
  if (text != "fast" && text != "exact") return invalid("found '{}', needed fast or exact", text);
  c.load.exact_attention = text == "exact";
  return {};
}
Status set_isa(OptionValues& c, std::string_view text) {
  c.load.isa = text;
  return {};
}
Status set_pack_cache(OptionValues& c, std::string_view text) {
  if (text.empty()) return invalid("found '', needed off or a folder");
  if (text == "off")
    c.load.pack_cache = {};
  else
    c.load.pack_cache = {PackCache::Use::make, std::string(text)};
  return {};
}
Status set_fit_check(OptionValues& c, std::string_view text) {
  if (text != "true" && text != "false") return invalid("found '{}', needed true or false", text);
  c.load.system_root = text == "true" ? "/" : "";
  return {};
}
Status set_streams(OptionValues& c, std::string_view text) {
  return read_whole(text, 1, kMostStreams, c.engine.most_running);
}
Status set_row_budget(OptionValues& c, std::string_view text) {
  return read_whole(text, 0, kMostRows, c.engine.row_budget);
}
Status set_cache(OptionValues& c, std::string_view text) { return read_whole(text, 0, kMostCache, c.cache_bytes); }
Status set_method(OptionValues& c, std::string_view text) {
  LLADA_TRY(c.score.method, parse_method(text));
  return {};
}
Status set_draws(OptionValues& c, std::string_view text) { return read_whole(text, 1, kMostDraws, c.score.draws); }
Status set_groups(OptionValues& c, std::string_view text) { return read_whole(text, 0, kMostRows, c.score.groups); }
Status set_order(OptionValues& c, std::string_view text) {
  LLADA_TRY(const auto words, read_words(text));
  if (!words.preset.empty()) return invalid("found '{}', needed options without a preset", text);
  LLADA_TRY(c.score.order, decode::decode_options(words.settings));
  return {};
}
Status set_preset(OptionValues& c, std::string_view text) {
  if (text.empty()) return invalid("found '', needed a name or a file");
  c.preset = text;
  return {};
}
Status set_stop(OptionValues& c, std::string_view text) {
  if (text.empty()) return invalid("found '', needed text");
  c.stop.emplace_back(text);
  return {};
}
Status set_keep_steps(OptionValues& c, std::string_view text) {
  if (text != "true" && text != "false") return invalid("found '{}', needed true or false", text);
  c.keep_steps = text == "true";
  return {};
}

constexpr OwnOption kOwn[] = {
    {LLADA_FOR_MODEL, "device", "NAME", "cpu, sim:PROFILE, hexagon or cuda, with options", "cpu", "where to compute",
     kModel, set_device},
    {LLADA_FOR_MODEL | LLADA_FOR_ENGINE, "threads", "N", "a whole number from 0 to 1024", "0",
     "0: of a model one per physical core, of an engine as many as its model", kModel, set_threads},
    {LLADA_FOR_MODEL, "ctx_size", "N", "a whole number from 0 to 1073741824", "0",
     "most positions of a request; 0: as many as the model was trained for", kModel, set_ctx_size},
    {LLADA_FOR_MODEL, "mask_id", "ID", "a whole number from 0 to 16777216", "",
     "token id of the mask, where the model's file does not say or says another", kModel, set_mask_id},
    {LLADA_FOR_MODEL, "attention_block", "N", "a whole number from 0 to 1048576", "",
     "block-causal attention over blocks of N positions, where the file does not say; 0: full", kModel,
     set_attention_block},
    {LLADA_FOR_MODEL, "shift", "", "true or false", "",
     "true: row i - 1 predicts position i, as in Dream; where the file does not say", kModel, set_shift},
    {LLADA_FOR_MODEL, "attention", "KIND", "fast or exact", "fast",
     "of rows that see 1024 positions or more: fast reads 8-bit copies of keys and values, exact the stored ones",
     kModel, set_attention},
    {LLADA_FOR_MODEL, "isa", "NAME", "a set that `llada devices` lists", "", "forces an instruction set", kModel,
     set_isa},
    {LLADA_FOR_MODEL, "pack_cache", "WHERE", "off or a folder", "off",
     "a folder of packed weights, which are used, and made where they are missing: processes then share one copy",
     kModel, set_pack_cache},
    {LLADA_FOR_MODEL, "fit_check", "", "true or false", "true",
     "refuses a model that does not fit into the memory that is left, before its weights are read", kModel,
     set_fit_check},
    {LLADA_FOR_ENGINE, "streams", "N", "a whole number from 1 to 1024", "1",
     "requests that share forwards; the others wait in the order in which they came", kEngine, set_streams},
    {LLADA_FOR_ENGINE, "row_budget", "N", "a whole number from 0 to 1048576", "0",
     "rows of a shared forward; 0: learned from the forwards that are run", kEngine, set_row_budget},
    {LLADA_FOR_ENGINE, "cache", "BYTES", "a whole number from 0", "0",
     "of the K/V of prompts that later requests begin with too, of a block-causal model", kEngine, set_cache},
    {LLADA_FOR_SCORE, "method", "METHOD", "mc, chain, exact, duel or pseudo", "chain",
     "how the log-probability of a continuation is computed (llada score --help)", kScore, set_method},
    {LLADA_FOR_SCORE, "draws", "N", "a whole number from 1 to 65536", "128", "of method mc, whose seed is `seed`",
     kScore, set_draws},
    {LLADA_FOR_SCORE, "groups", "N", "a whole number from 0 to 1048576", "0",
     "of method pseudo: forwards that share the tokens; 0: one for each", kScore, set_groups},
    {LLADA_FOR_SCORE, "order", "OPTIONS", "decoding options as on the command line", "",
     "of method duel: the order in which decoding would commit", kScore, set_order},
    {LLADA_FOR_REQUEST, "preset", "NAME",
     "exact, balanced, fast, long, npu, llada2, llada2.1, llada2.2, sdar, fast-dllm-v2, wedlm, nemotron, "
     "nemotron-spec, or a llada tune file",
     "", "decoding options under a name; options beside it replace its own", "Presets", set_preset},
    {LLADA_FOR_REQUEST, "stop", "TEXT", "any text but an empty one", "",
     "ends the answer before this text; each time that it is set it is one more", "Ending", set_stop},
    {LLADA_FOR_REQUEST, "keep_steps", "", "true or false", "false", "keeps every step for llada_request_next()",
     "Steps", set_keep_steps},
};

const OwnOption* find_own(std::string_view key) {
  const auto* found = std::ranges::find(kOwn, key, [](const OwnOption& o) { return std::string_view(o.key); });
  return found == std::end(kOwn) ? nullptr : found;
}

int32_t used_for_what(std::string_view key) {
  if (const OwnOption* own = find_own(key)) return own->used_for;
  return key == "seed" || key == "cfg_scale" ? LLADA_FOR_REQUEST | LLADA_FOR_SCORE : LLADA_FOR_REQUEST;
}

// Of options that set the same member the last one counts.
Outcome set(OptionValues& values, std::string_view key, std::string_view text) {
  if (const OwnOption* own = find_own(key)) {
    if (const Status status = own->set(values, text); !status)
      return refuse(LLADA_ERROR_INVALID, "{}: {}", key, status.error().message);
    return LLADA_OK;
  }
  LLADA_TRY(auto setting, decode::setting(key, text));
  decode::DecodeOptions scratch;
  LLADA_TRY_STATUS(set_field(scratch, key, text));
  const auto target = [](const decode::Field& f) { return f.target.empty() ? f.key : f.target; };
  std::erase_if(values.settings, [&](const decode::Setting& s) { return target(*s.field) == target(*setting.field); });
  values.settings.push_back(std::move(setting));
  return LLADA_OK;
}

const char* call_of(int32_t used_for) {
  switch (used_for) {
    case LLADA_FOR_MODEL:
      return "llada_model_load()";
    case LLADA_FOR_ENGINE:
      return "llada_engine_create()";
    case LLADA_FOR_REQUEST:
      return "a request";
    default:
      return "a score";
  }
}

// Texts of the list as C has them, made once.
struct Described {
  std::string key, unit, values, initial, help, group;
  bool is_switch;
};

const std::vector<Described>& described() {
  static const auto* const all = [] {
    auto* list = new std::vector<Described>;
    const decode::DecodeOptions initial = DecodeChoice::request_defaults().options;
    for (const decode::Field& f : decode::fields())
      list->push_back({std::string(f.key), std::string(f.unit), f.is_switch() ? "true or false" : decode::needed(f),
                       f.key == "seed" ? "" : decode::get_field(initial, f.key).value_or(""), std::string(f.help),
                       std::string(decode::title(f.group)), f.is_switch()});
    return list;
  }();
  return *all;
}

}  // namespace

std::expected<OptionValues, ApiError> read_options(const llada_options* options, int32_t allowed) {
  if (options == nullptr) return OptionValues{};
  const auto object = live<OptionsObject>(options);
  if (!object)
    return refuse(LLADA_ERROR_HANDLE,
                  "options: found a handle that was freed or is of another kind, needed null or one "
                  "that is open");
  const std::lock_guard lock(object->mutex);
  for (const std::string& key : object->keys) {
    const int32_t used_for = used_for_what(key);
    if ((used_for & allowed) == 0) return refuse(LLADA_ERROR_INVALID, "{}: is no option of {}", key, call_of(allowed));
  }
  return object->values;
}

}  // namespace llada::api

using namespace llada::api;

llada_status llada_options_create(int32_t api_version, llada_options** options) {
  return guarded(nullptr, [&]() -> Outcome {
    LLADA_TRY_STATUS(check_version(api_version));
    LLADA_TRY_STATUS(check_out("options", options));
    hand_out(std::make_shared<OptionsObject>(), options);
    return LLADA_OK;
  });
}

void llada_options_free(llada_options* options) { release(Kind::options, options); }

llada_status llada_options_set(llada_options* options, const char* key, const char* value) {
  return with<OptionsObject>(options, [&](OptionsObject& object) -> Outcome {
    LLADA_TRY(const auto name, read_text("key", key, LLADA_TEXT));
    LLADA_TRY(const auto text, read_text("value", value, LLADA_TEXT));
    const std::lock_guard lock(object.mutex);
    OptionValues next = object.values;
    LLADA_TRY_STATUS(set(next, name, text));
    object.keys.emplace(name);
    object.values = std::move(next);
    return LLADA_OK;
  });
}

void llada_options_clear(llada_options* options) {
  with<OptionsObject>(options, [&](OptionsObject& object) -> Outcome {
    const std::lock_guard lock(object.mutex);
    object.values = {};
    object.keys.clear();
    return LLADA_OK;
  });
}

llada_status llada_option_describe(size_t index, llada_option_info* info) {
  return guarded(nullptr, [&]() -> Outcome {
    if (index < std::size(kOwn)) {
      const OwnOption& o = kOwn[index];
      return fill("info", info, {0, o.used_for, *o.unit == '\0', o.key, o.unit, o.values, o.initial, o.help, o.group});
    }
    if (index - std::size(kOwn) >= described().size()) return LLADA_END;
    const Described& o = described()[index - std::size(kOwn)];
    return fill("info", info,
                {0, used_for_what(o.key), o.is_switch, o.key.c_str(), o.unit.c_str(), o.values.c_str(),
                 o.initial.c_str(), o.help.c_str(), o.group.c_str()});
  });
}
