#include "engine/options.h"

#include "engine/json_fields.h"

namespace llada {

Result<std::vector<decode::Setting>> read_settings(const JsonFields& object) {
  std::vector<decode::Setting> settings;
  for (const auto& [key, value] : object.all().items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    auto setting = decode::setting(key, text);
    if (!setting) return invalid("{}: {}", object.where(), setting.error().message);
    decode::DecodeOptions scratch;
    if (const Status status = set_field(scratch, key, text); !status)
      return invalid("{}: {}", object.where(), status.error().message);
    settings.push_back(std::move(*setting));
  }
  return settings;
}

}  // namespace llada
