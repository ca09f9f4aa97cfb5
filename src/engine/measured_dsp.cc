#include "engine/measured_dsp.h"

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "json/fields.h"

namespace llada {

Result<MeasuredDsp> parse_measured_dsp(const Json& dsp, std::string_view origin) {
  LLADA_TRY(const Fields fields, Fields::of(dsp, std::string(origin), "dsp"));
  MeasuredDsp found;
  LLADA_TRY(found.arch, fields.integer("arch", 1, 999));
  LLADA_TRY(found.threads, fields.integer("threads", 1, 8));
  LLADA_TRY(found.module, fields.text("module"));
  constexpr size_t kLongest = 2000;
  const auto strange = [](char c) { return static_cast<unsigned char>(c) < 0x20 || std::strchr("/?&;", c) != nullptr; };
  if (!found.module.ends_with(".so") || found.module.size() > kLongest || std::ranges::any_of(found.module, strange))
    return fields.unfit("module", "the name of a .so file");
  if (fields.has("unit")) {
    LLADA_TRY(found.unit, fields.text("unit"));
  }
  if (fields.has("host_share")) {
    LLADA_TRY(found.host_share, fields.real("host_share", 0, 0.999));
  }
  LLADA_TRY_STATUS(fields.finish());
  return found;
}

Result<MeasuredDsp> read_measured_dsp(const std::string& path) {
  constexpr size_t kLimit = size_t{1} << 20;
  LLADA_TRY(const std::string text, read_any_file(path, kLimit));
  LLADA_TRY(const Fields root, Fields::parse(text, path));
  const Json* dsp = root.find("dsp");
  if (dsp == nullptr) return root.unfit("dsp", "the output of 'llada-study doctor --device hexagon'");
  LLADA_TRY(MeasuredDsp found, parse_measured_dsp(*dsp, path));
  if (!root.has("window")) return found;
  LLADA_TRY(const Fields window, root.object("window"));
  if (!window.has("gib")) return found;
  LLADA_TRY(const Fields gib, window.object("gib"));
  LLADA_TRY(found.window_gib, gib.real("value", 1e-3, 1024));
  return found;
}

}  // namespace llada
