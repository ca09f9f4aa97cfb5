#include "engine/measured_dsp.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/file.h"
#include "json/parse.h"

namespace llada {

Result<MeasuredDsp> parse_measured_dsp(const Json& dsp, std::string_view origin) {
  const auto wrong = [&](std::string_view field, std::string_view needed) {
    return invalid("{}: dsp{}: needed {}", origin, field, needed);
  };
  if (!dsp.is_object() || dsp.size() != 3 || !dsp.contains("arch") || !dsp.contains("threads") ||
      !dsp.contains("module"))
    return wrong("", "an object with arch, threads and module");
  MeasuredDsp found;
  for (const auto& [key, most, out] :
       {std::tuple{"arch", 999, &found.arch}, std::tuple{"threads", 8, &found.threads}}) {
    const Json& value = dsp[key];
    if (!value.is_number_integer() || value.get<int64_t>() < 1 || value.get<int64_t>() > most)
      return wrong(fmt::format(".{}", key), fmt::format("a whole number from 1 to {}", most));
    *out = value.get<int>();
  }
  const Json& module = dsp["module"];
  constexpr size_t kLongest = 2000;
  if (module.is_string() && module.get_ref<const std::string&>().size() <= kLongest) found.module = module;
  const auto strange = [](char c) { return static_cast<unsigned char>(c) < 0x20 || std::strchr("/?&;", c) != nullptr; };
  if (!found.module.ends_with(".so") || std::ranges::any_of(found.module, strange))
    return wrong(".module", "the name of a .so file");
  return found;
}

Result<MeasuredDsp> read_measured_dsp(const std::string& path) {
  constexpr size_t kLimit = size_t{1} << 20;
  LLADA_TRY(const std::string text, read_any_file(path, kLimit));
  LLADA_TRY(const Json root, parse_json_object(text, path));
  if (!root.contains("dsp"))
    return invalid("{}: dsp: missing, needed the output of 'llada-study doctor --device hexagon'", path);
  LLADA_TRY(MeasuredDsp found, parse_measured_dsp(root["dsp"], path));
  const auto window = root.find("window");
  if (window == root.end() || !window->is_object() || !window->contains("gib") || (*window)["gib"].is_null())
    return found;
  const Json& gib = (*window)["gib"];
  if (gib.is_object() && gib.contains("value") && gib["value"].is_number()) found.window_gib = gib["value"];
  if (!(found.window_gib >= 1e-3 && found.window_gib <= 1024))
    return invalid("{}: window.gib: needed a value from 0.001 to 1024 GiB", path);
  return found;
}

}  // namespace llada
