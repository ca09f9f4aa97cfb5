// llada_options: keys and values from two lists, decoding's (decode/fields.h) and the one here: of loading, of engines,
// of scores, and of a request beside its decoding.
#include <algorithm>
#include <functional>

#include "api/objects.h"
#include "base/numbers.h"
#include "engine/decode_choice.h"
#include "engine/decode_preset.h"

namespace llada::api {
namespace {

struct OwnOption {
  int32_t used_for;
  std::string key, unit, values, initial, help, group;
  std::function<Status(OptionValues& values, std::string_view text)> set;  // invalid: "found 'x', needed ..."
};

// at: where the number stands in OptionValues; one or several places.
template <class... At>
OwnOption number(int32_t used_for, const char* key, const char* unit, int64_t least, int64_t most, const char* initial,
                 const char* help, const char* group, At... at) {
  const std::string values = fmt::format("a whole number from {} to {}", least, most);
  return {used_for, key, unit, values, initial, help, group, [=](OptionValues& c, std::string_view text) -> Status {
            const auto value = parse_number<int64_t>(text);
            if (!value || *value < least || *value > most) return invalid("found '{}', needed {}", text, values);
            ((at(c) = static_cast<std::remove_cvref_t<decltype(at(c))>>(*value)), ...);
            return {};
          }};
}

// One of two words; take(values, whether it is the first).
template <class Take>
OwnOption either(int32_t used_for, const char* key, const char* unit, const char* first, const char* second,
                 const char* initial, const char* help, const char* group, Take take) {
  const std::string values = fmt::format("{} or {}", first, second);
  return {used_for, key, unit, values, initial, help, group, [=](OptionValues& c, std::string_view text) -> Status {
            if (text != first && text != second) return invalid("found '{}', needed {}", text, values);
            take(c, text == first);
            return {};
          }};
}

// Any text but an empty one.
template <class Take>
OwnOption word(int32_t used_for, const char* key, const char* unit, const std::string& values, const char* initial,
               const char* help, const char* group, Take take) {
  return {used_for, key, unit, values, initial, help, group, [=](OptionValues& c, std::string_view text) -> Status {
            if (text.empty()) return invalid("found '', needed {}", values);
            return take(c, text);
          }};
}

Status set_order(OptionValues& c, std::string_view text) {
  LLADA_TRY(const auto words, read_words(text));
  if (!words.preset.empty()) return invalid("found '{}', needed options without a preset", text);
  LLADA_TRY(c.score.order, decode::decode_options(words.settings));
  c.order_names_block = names(words.settings, "block_length");
  return {};
}

std::vector<OwnOption> own_list() {
  constexpr const char *kModel = "Model and device", *kEngine = "Engine", *kScore = "Scoring";
  constexpr int64_t kMostThreads = 1024, kMostStreams = 1024, kMostRows = int64_t{1} << 20,
                    kMostContext = int64_t{1} << 30, kMostTokens = int64_t{1} << 24, kMostCache = int64_t{1} << 46;
  using V = OptionValues;
  using Text = std::string_view;
  return {
      word(LLADA_FOR_MODEL, "device", "NAME", "cpu, hexagon or cuda, with options", "cpu",
           "where to compute", kModel,
           [](V& c, Text text) -> Status {
             c.load.device = text;
             return {};
           }),
      number(
          LLADA_FOR_MODEL | LLADA_FOR_ENGINE, "threads", "N", 0, kMostThreads, "0",
          "0: of a model one per physical core, of an engine as many as its model", kModel,
          [](V & c) -> auto& { return c.load.threads; }, [](V & c) -> auto& { return c.engine.threads; }),
      number(
          LLADA_FOR_MODEL, "ctx_size", "N", 0, kMostContext, "0",
          "most positions of a request; 0: as many as the model was trained for", kModel,
          [](V & c) -> auto& { return c.load.context; }),
      number(
          LLADA_FOR_MODEL, "mask_id", "ID", 0, kMostTokens, "",
          "token id of the mask, where the model's file does not say or says another", kModel,
          [](V & c) -> auto& { return c.load.overrides.mask_id; }),
      number(
          LLADA_FOR_MODEL, "attention_block", "N", 0, kMostRows, "",
          "block-causal attention over blocks of N positions, where the file does not say; 0: full", kModel,
          [](V & c) -> auto& { return c.load.overrides.attention_block; }),
      either(LLADA_FOR_MODEL, "shift", "", "true", "false", "",
             "true: row i - 1 predicts position i, as in Dream; where the file does not say", kModel,
             [](V& c, bool on) { c.load.overrides.shift_logits = on; }),
      either(
          LLADA_FOR_MODEL, "attention", "KIND", "fast", "exact", "fast",
          "of rows that see 1024 positions or more: fast reads 8-bit copies of keys and values, exact the stored ones",
          kModel, [](V& c, bool fast) { c.load.exact_attention = !fast; }),
      word(LLADA_FOR_MODEL, "isa", "NAME", "a set that `llada devices` lists", "", "forces an instruction set", kModel,
           [](V& c, Text text) -> Status {
             c.load.isa = text;
             return {};
           }),
      word(LLADA_FOR_MODEL, "pack_cache", "WHERE", "off or a folder", "off",
           "a folder of packed weights, which are used, and made where they are missing: processes then share one copy",
           kModel,
           [](V& c, Text text) -> Status {
             c.load.pack_cache = {};
             if (text != "off") c.load.pack_cache = {PackCache::Use::make, std::string(text)};
             return {};
           }),
      either(LLADA_FOR_MODEL, "fit_check", "", "true", "false", "true",
             "refuses a model that does not fit into the memory that is left, before its weights are read", kModel,
             [](V& c, bool on) { c.load.system_root = on ? "/" : ""; }),
      number(
          LLADA_FOR_ENGINE, "streams", "N", 1, kMostStreams, "1",
          "requests that share forwards; the others wait in the order in which they came", kEngine,
          [](V & c) -> auto& { return c.engine.most_running; }),
      number(
          LLADA_FOR_ENGINE, "row_budget", "N", 0, kMostRows, "0",
          "rows of a shared forward; 0: learned from the forwards that are run", kEngine,
          [](V & c) -> auto& { return c.engine.row_budget; }),
      number(
          LLADA_FOR_ENGINE, "cache", "BYTES", 0, kMostCache, "0",
          "of the K/V of prompts that later requests begin with too, of a block-causal model", kEngine,
          [](V & c) -> auto& { return c.cache_bytes; }),
      word(LLADA_FOR_SCORE, "method", "METHOD", "mc, chain, exact, duel or pseudo", "chain",
           "how the log-probability of a continuation is computed (llada score --help)", kScore,
           [](V& c, Text text) -> Status {
             LLADA_TRY(c.score.method, parse_method(text));
             return {};
           }),
      number(
          LLADA_FOR_SCORE, "draws", "N", 1, kMostDraws, "128", "of method mc, whose seed is `seed`", kScore,
          [](V & c) -> auto& { return c.score.draws; }),
      number(
          LLADA_FOR_SCORE, "groups", "N", 0, kMostRows, "0",
          "of method pseudo: forwards that share the tokens; 0: one for each", kScore,
          [](V & c) -> auto& { return c.score.groups; }),
      word(LLADA_FOR_SCORE, "order", "OPTIONS", "decoding options as on the command line", "",
           "of method duel: the order in which decoding would commit", kScore, set_order),
      word(LLADA_FOR_REQUEST, "preset", "NAME",
           fmt::format("{}, or a llada tune file", fmt::join(decode_presets(), ", ")), "",
           "decoding options under a name; options beside it replace its own", "Presets",
           [](V& c, Text text) -> Status {
             c.preset = text;
             return {};
           }),
      word(LLADA_FOR_REQUEST, "stop", "TEXT", "any text but an empty one", "",
           "ends the answer before this text; each time that it is set it is one more", "Ending",
           [](V& c, Text text) -> Status {
             c.stop.emplace_back(text);
             return {};
           }),
      either(LLADA_FOR_REQUEST, "keep_steps", "", "true", "false", "false", "keeps every step for llada_request_next()",
             "Steps", [](V& c, bool on) { c.keep_steps = on; }),
  };
}

// Made once; C reads its texts.
const std::vector<OwnOption>& own_options() {
  static const auto* const all = new std::vector(own_list());
  return *all;
}

const OwnOption* find_own(std::string_view key) {
  const auto found = std::ranges::find(own_options(), key, &OwnOption::key);
  return found == own_options().end() ? nullptr : &*found;
}

int32_t used_for_what(std::string_view key) {
  if (const OwnOption* own = find_own(key)) return own->used_for;
  return key == "seed" || key == "cfg_scale" ? LLADA_FOR_REQUEST | LLADA_FOR_SCORE : LLADA_FOR_REQUEST;
}

// The last value of an option that is set twice counts.
Outcome set(OptionValues& values, std::string_view key, std::string_view text) {
  if (const OwnOption* own = find_own(key)) {
    if (const Status status = own->set(values, text); !status)
      return refuse(LLADA_ERROR_INVALID, "{}: {}", key, status.error().message);
    return LLADA_OK;
  }
  LLADA_TRY(auto setting, decode::setting(key, text));
  decode::DecodeOptions scratch;
  LLADA_TRY_STATUS(set_field(scratch, key, text));
  std::erase_if(values.settings, [&](const decode::Setting& s) { return s.field == setting.field; });
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

// Both lists as C has them, made once.
const std::vector<OwnOption>& described() {
  static const auto* const all = [] {
    auto* list = new std::vector(own_list());
    const decode::DecodeOptions initial = DecodeChoice::request_defaults().options;
    for (const decode::Field& f : decode::fields())
      list->push_back({used_for_what(f.key),
                       std::string(f.key),
                       std::string(f.unit),
                       decode::needed(f),
                       f.key == "seed" ? "" : decode::get_field(initial, f.key).value_or(""),
                       std::string(f.help),
                       std::string(decode::title(f.group)),
                       {}});
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
    if (index >= described().size()) return LLADA_END;
    const OwnOption& o = described()[index];
    return fill("info", info,
                {0, o.used_for, o.unit.empty(), o.key.c_str(), o.unit.c_str(), o.values.c_str(), o.initial.c_str(),
                 o.help.c_str(), o.group.c_str()});
  });
}
