// llada_options: keys and values from the lists that there are, decoding's (decode/fields.h) and own_options.cc.
#include "api/options.h"

#include <algorithm>

#include "engine/decode_choice.h"

namespace llada::api {
namespace {

const OwnOption* find_own(std::string_view key) {
  const auto all = own_options();
  const auto found = std::ranges::find(all, key, [](const OwnOption& o) { return std::string_view(o.key); });
  return found == all.end() ? nullptr : &*found;
}

int32_t used_for_what(std::string_view key) {
  if (const OwnOption* own = find_own(key)) return own->used_for;
  return key == "seed" || key == "cfg_scale" ? LLADA_FOR_REQUEST | LLADA_FOR_SCORE : LLADA_FOR_REQUEST;
}

// The last word about what an option sets stands.
Outcome set(Chosen& chosen, std::string_view key, std::string_view text) {
  if (const OwnOption* own = find_own(key)) {
    if (const Status status = own->set(chosen, text); !status)
      return refuse(LLADA_ERROR_INVALID, "{}: {}", key, status.error().message);
    return LLADA_OK;
  }
  LLADA_TRY(auto setting, decode::setting(key, text));
  decode::DecodeOptions scratch;
  LLADA_TRY_STATUS(set_field(scratch, key, text));
  const auto target = [](const decode::Field& f) { return f.target.empty() ? f.key : f.target; };
  std::erase_if(chosen.settings, [&](const decode::Setting& s) { return target(*s.field) == target(*setting.field); });
  chosen.settings.push_back(std::move(setting));
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

std::expected<Chosen, ApiError> read_options(const llada_options* options, int32_t allowed) {
  if (options == nullptr) return Chosen{};
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
  return object->chosen;
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

void llada_options_free(llada_options* options) { strike(Kind::options, options); }

llada_status llada_options_set(llada_options* options, const char* key, const char* value) {
  return with<OptionsObject>(options, [&](OptionsObject& object) -> Outcome {
    LLADA_TRY(const auto name, read_text("key", key, LLADA_TEXT));
    LLADA_TRY(const auto text, read_text("value", value, LLADA_TEXT));
    const std::lock_guard lock(object.mutex);
    Chosen next = object.chosen;
    LLADA_TRY_STATUS(set(next, name, text));
    object.keys.emplace(name);
    object.chosen = std::move(next);
    return LLADA_OK;
  });
}

void llada_options_clear(llada_options* options) {
  with<OptionsObject>(options, [&](OptionsObject& object) -> Outcome {
    const std::lock_guard lock(object.mutex);
    object.chosen = {};
    object.keys.clear();
    return LLADA_OK;
  });
}

llada_status llada_option_describe(size_t index, llada_option_info* info) {
  return guarded(nullptr, [&]() -> Outcome {
    const auto own = own_options();
    if (index < own.size()) {
      const OwnOption& o = own[index];
      return fill("info", info, {0, o.used_for, *o.unit == '\0', o.key, o.unit, o.values, o.initial, o.help, o.group});
    }
    if (index - own.size() >= described().size()) return LLADA_END;
    const Described& o = described()[index - own.size()];
    return fill("info", info,
                {0, used_for_what(o.key), o.is_switch, o.key.c_str(), o.unit.c_str(), o.values.c_str(),
                 o.initial.c_str(), o.help.c_str(), o.group.c_str()});
  });
}
