#include "study/sim/profile.h"

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>

#include "base/check.h"
#include "base/file.h"
#include "formats/printable.h"
#include "json/parse.h"
#include "study/sim/builtin_profiles.h"

namespace llada {
namespace {

struct NumberField {
  const char* path;
  const char* unit;
  double least, most;
  Number& (*get)(Profile&);
};

constexpr double kTiny = 1e-6, kHuge = 1e9;

#define UNIT(unit)                                                                                            \
  NumberField{#unit ".matmul_gflops", "GFLOP/s", kTiny, kHuge,                                                \
              [](Profile& p) -> Number& { return p.unit.matmul_gflops; }},                                    \
      NumberField{#unit ".stream_gb_per_s", "GB/s", kTiny, kHuge,                                             \
                  [](Profile& p) -> Number& { return p.unit.stream_gb_per_s; }},                              \
      NumberField{#unit ".attention_gflops", "GFLOP/s", kTiny, kHuge,                                         \
                  [](Profile& p) -> Number& { return p.unit.attention_gflops; }},                             \
      NumberField{#unit ".elementwise_gb_per_s", "GB/s", kTiny, kHuge,                                        \
                  [](Profile& p) -> Number& { return p.unit.elementwise_gb_per_s; }},                         \
      NumberField{#unit ".activation_bytes", "bytes", 1, 8,                                                   \
                  [](Profile& p) -> Number& { return p.unit.activation_bytes; }},                             \
      NumberField{#unit ".row_tile", "rows", 1, 4096, [](Profile& p) -> Number& { return p.unit.row_tile; }}, \
      NumberField{#unit ".op_us", "us", 0, kHuge, [](Profile& p) -> Number& { return p.unit.op_us; }},        \
      NumberField{#unit ".batch_us", "us", 0, kHuge, [](Profile& p) -> Number& { return p.unit.batch_us; }},  \
      NumberField{#unit ".batch_kernels", "kernels", 1, 1e6,                                                  \
                  [](Profile& p) -> Number& { return p.unit.batch_kernels; }},                                \
      NumberField {                                                                                           \
#unit ".watts", "W", 0, 1000, [](Profile & p) -> Number& { return p.unit.watts; }                         \
  }

constexpr std::array kFields = {
    UNIT(npu),
    UNIT(cpu),
    NumberField{"ddr.gb_per_s", "GB/s", kTiny, kHuge, [](Profile& p) -> Number& { return p.ddr_gb_per_s; }},
    NumberField{"window.reserve_gib", "GiB", 0, 1024, [](Profile& p) -> Number& { return p.reserve_gib; }},
    NumberField{"window.sessions", "sessions", 1, 64, [](Profile& p) -> Number& { return p.sessions; }},
    NumberField{"window.session_hop_us", "us", 0, kHuge, [](Profile& p) -> Number& { return p.session_hop_us; }},
    NumberField{"copy.gb_per_s", "GB/s", kTiny, kHuge, [](Profile& p) -> Number& { return p.copy_gb_per_s; }},
    NumberField{"power.map_watts", "W", 0, 1000, [](Profile& p) -> Number& { return p.map_watts; }},
    NumberField{"power.dma_watts", "W", 0, 1000, [](Profile& p) -> Number& { return p.dma_watts; }},
    NumberField{"power.idle_watts", "W", 0, 1000, [](Profile& p) -> Number& { return p.idle_watts; }},
};
#undef UNIT

constexpr NumberField kWindow{"window.gib", "GiB", 1e-3, 1024, [](Profile& p) -> Number& { return *p.window_gib; }};
constexpr NumberField kRival{"rival.tokens_per_s", "tokens/s", kTiny, kHuge,
                             [](Profile& p) -> Number& { return p.rival_tokens_per_s; }};
#define EXPERTS(name, unit, least)                                                              \
  NumberField {                                                                                 \
    "experts." #name, unit, least, kHuge, [](Profile& p) -> Number& { return p.experts->name; } \
  }
constexpr std::array kExperts = {EXPERTS(link_gb_per_s, "GB/s", kTiny), EXPERTS(piece_us, "us", 0),
                                 EXPERTS(host_first_us, "us", 0),       EXPERTS(host_expert_us, "us", 0),
                                 EXPERTS(device_expert_us, "us", 0),    EXPERTS(device_member_us, "us", 0)};
#undef EXPERTS
constexpr size_t kLongest = 2000;  // characters of a description or a source

// Walks one profile. `origin` and the path of the present field stand in every error.
class Reader {
 public:
  Reader(const Json& root, std::string_view origin) : root_(root), origin_(origin) {}

  Result<Profile> run() {
    LLADA_TRY_STATUS(fields(root_, "",
                            {"name", "description", "npu", "cpu", "ddr", "window", "map", "copy", "power", "head",
                             "logits", "rival", "experts", "dsp", "uncertain"},
                            {"rival", "experts", "dsp"}));
    LLADA_TRY(profile_.name, text(root_, "name"));
    if (profile_.name.empty() ||
        profile_.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") != std::string::npos)
      return wrong("name", "a name of lower-case letters, digits, '-', '_' and '.'");
    LLADA_TRY(profile_.description, text(root_, "description"));
    LLADA_TRY_STATUS(unit("npu", profile_.npu));
    LLADA_TRY_STATUS(unit("cpu", profile_.cpu));
    LLADA_TRY_STATUS(fields(root_["ddr"], "ddr", {"gb_per_s"}));
    LLADA_TRY_STATUS(fields(root_["window"], "window", {"gib", "reserve_gib", "sessions", "session_hop_us"}));
    LLADA_TRY_STATUS(fields(root_["copy"], "copy", {"gb_per_s"}));
    LLADA_TRY_STATUS(fields(root_["power"], "power", {"map_watts", "dma_watts", "idle_watts"}));
    for (const NumberField& field : kFields) LLADA_TRY_STATUS(number(field));
    if (!root_["window"]["gib"].is_null()) {
      profile_.window_gib.emplace();
      LLADA_TRY_STATUS(number(kWindow));
      if (profile_.reserve_gib.value >= profile_.window_gib->value)
        return wrong("window.reserve_gib", "less than window.gib");
    }
    LLADA_TRY_STATUS(map());
    LLADA_TRY(profile_.head_on_npu, one_of("head", "npu", "cpu"));
    LLADA_TRY(profile_.logits_all_rows, one_of("logits", "all", "wanted"));
    if (root_.contains("rival")) {
      LLADA_TRY_STATUS(fields(root_["rival"], "rival", {"name", "tokens_per_s"}));
      LLADA_TRY(profile_.rival, text(root_["rival"], "name", "rival."));
      if (profile_.rival.empty()) return wrong("rival.name", "a name");
      LLADA_TRY_STATUS(number(kRival));
    }
    if (root_.contains("experts")) {
      const Json& experts = root_["experts"];
      LLADA_TRY_STATUS(fields(experts, "experts",
                              {"own_memory", "copied", "grouped", "link_gb_per_s", "piece_us", "host_first_us",
                               "host_expert_us", "device_expert_us", "device_member_us"}));
      profile_.experts.emplace();
      for (const auto& [key, value] :
           {std::pair{"own_memory", &profile_.experts->own_memory}, std::pair{"copied", &profile_.experts->copied},
            std::pair{"grouped", &profile_.experts->grouped}}) {
        if (!experts[key].is_boolean()) return wrong(fmt::format("experts.{}", key), "true or false");
        *value = experts[key].get<bool>();
      }
      for (const NumberField& field : kExperts) LLADA_TRY_STATUS(number(field));
    }
    if (root_.contains("dsp")) {
      LLADA_TRY(profile_.dsp, parse_measured_dsp(root_["dsp"], origin_));
    }
    LLADA_TRY_STATUS(uncertain());
    return std::move(profile_);
  }

 private:
  std::unexpected<Error> wrong(std::string_view path, std::string_view needed) const {
    return invalid("{}: {}: needed {}", origin_, printable(path), needed);
  }

  Status fields(const Json& object, std::string_view path, std::initializer_list<std::string_view> known,
                std::initializer_list<std::string_view> optional = {}) const {
    if (!object.is_object()) return wrong(path, "an object");
    const std::string prefix = path.empty() ? "" : std::string(path) + ".";
    for (const auto& [key, value] : object.items())
      if (std::ranges::find(known, key) == known.end())
        return invalid("{}: {}{}: unknown field, needed one of {}", origin_, prefix, printable(key),
                       fmt::join(known, ", "));
    for (const std::string_view key : known)
      if (!object.contains(key) && std::ranges::find(optional, key) == optional.end())
        return invalid("{}: {}{}: missing", origin_, prefix, key);
    return {};
  }

  Result<std::string> text(const Json& object, std::string_view key, std::string_view prefix = "") const {
    const Json& value = object[std::string(key)];
    const std::string path = std::string(prefix) + std::string(key);
    if (!value.is_string()) return wrong(path, "a string");
    const auto& found = value.get_ref<const std::string&>();
    if (found.size() > kLongest) return wrong(path, fmt::format("at most {} characters", kLongest));
    // Sources are printed on one line.
    if (std::ranges::any_of(found, [](char c) { return static_cast<unsigned char>(c) < 0x20; }))
      return wrong(path, "text without control characters");
    return found;
  }

  Result<bool> one_of(const char* key, std::string_view yes, std::string_view no) const {
    LLADA_TRY(const std::string value, text(root_, key));
    if (value != yes && value != no)
      return invalid("{}: {}: found '{}', needed {} or {}", origin_, key, printable(value), yes, no);
    return value == yes;
  }

  Result<double> real(const Json& value, const std::string& path, const NumberField& field) const {
    if (!value.is_number()) return wrong(path, fmt::format("a number in {}", field.unit));
    const double found = value.get<double>();
    if (!(found >= field.least && found <= field.most))
      return invalid("{}: {}: found {}, needed {} to {} {}", origin_, path, found, field.least, field.most, field.unit);
    return found;
  }

  Status read(const Json& object, const std::string& path, const NumberField& field, Number& out) const {
    LLADA_TRY_STATUS(fields(object, path, {"value", "source", "trust", "low", "high"}, {"low", "high"}));
    LLADA_TRY(out.value, real(object["value"], path + ".value", field));
    LLADA_TRY(out.source, text(object, "source", path + "."));
    if (out.source.empty()) return wrong(path + ".source", "where the number comes from");
    LLADA_TRY(const std::string trust, text(object, "trust", path + "."));
    if (trust != "H" && trust != "M" && trust != "L" && trust != "I")
      return invalid("{}: {}.trust: found '{}', needed H, M, L or I", origin_, path, printable(trust));
    out.trust = trust[0];
    if (object.contains("low") != object.contains("high")) return wrong(path, "both low and high, or neither");
    if (object.contains("low")) {
      LLADA_TRY(out.low, real(object["low"], path + ".low", field));
      LLADA_TRY(out.high, real(object["high"], path + ".high", field));
      if (*out.low > out.value || *out.high < out.value) return wrong(path, "low <= value <= high");
    }
    return {};
  }

  Status number(const NumberField& field) {
    const std::string_view path = field.path;
    const size_t dot = path.find('.');
    const Json& object = root_[std::string(path.substr(0, dot))][std::string(path.substr(dot + 1))];
    return read(object, field.path, field, field.get(profile_));
  }

  Status unit(const char* key, UnitProfile& out) const {
    const Json& object = root_[key];
    LLADA_TRY_STATUS(
        fields(object, key,
               {"matmul_gflops", "stream_gb_per_s", "attention_gflops", "elementwise_gb_per_s", "activation_bytes",
                "row_tile", "op_us", "batch_us", "batch_kernels", "watts", "overlap", "ops", "types"}));
    if (!object["overlap"].is_boolean()) return wrong(fmt::format("{}.overlap", key), "true or false");
    out.overlap = object["overlap"].get<bool>();
    const auto words = [&](const char* name, const std::function<bool(const std::string&)>& take) -> Status {
      const Json& list = object[name];
      const std::string path = fmt::format("{}.{}", key, name);
      if (!list.is_array() || list.empty()) return wrong(path, "a list of names");
      for (const Json& word : list)
        if (!word.is_string() || !take(word.get<std::string>()))
          return invalid("{}: {}: found {}, which is unknown or listed twice", origin_, path,
                         printable(word.is_string() ? word.get_ref<const std::string&>() : std::string("no name")));
      return {};
    };
    LLADA_TRY_STATUS(words("ops", [&](const std::string& word) {
      for (int k = 0; k < kOpKindCount; ++k) {
        const auto kind = static_cast<OpKind>(k);
        if (word != name(kind)) continue;
        if (std::ranges::count(out.ops, kind) > 0) return false;
        out.ops.push_back(kind);
        return true;
      }
      return false;
    }));
    return words("types", [&](const std::string& word) {
      const auto type = dtype_from_name(word);
      if (!type || std::ranges::count(out.types, *type) > 0) return false;
      out.types.push_back(*type);
      return true;
    });
  }

  Status map() {
    const Json& object = root_["map"];
    LLADA_TRY_STATUS(fields(object, "map", {"default", "variants"}));
    const Json& variants = object["variants"];
    if (!variants.is_object() || variants.empty() || variants.size() > 16)
      return wrong("map.variants", "an object of 1 to 16 variants");
    static constexpr NumberField kCall{"", "us", 0, kHuge, nullptr};
    for (const auto& [key, value] : variants.items()) {
      if (key.empty() || key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") != std::string::npos)
        return wrong("map.variants", "names of lower-case letters, digits, '-' and '_'");
      const std::string path = "map.variants." + key;
      LLADA_TRY_STATUS(fields(value, path, {"us_per_call", "us_per_mb"}));
      MapVariant variant{.name = key, .us_per_call = {}, .us_per_mb = {}};
      LLADA_TRY_STATUS(read(value["us_per_call"], path + ".us_per_call", kCall, variant.us_per_call));
      LLADA_TRY_STATUS(read(value["us_per_mb"], path + ".us_per_mb", kCall, variant.us_per_mb));
      profile_.map_variants.push_back(std::move(variant));
    }
    LLADA_TRY(profile_.map_default, text(object, "default", "map."));
    if (!variants.contains(profile_.map_default)) return wrong("map.default", "the name of a variant");
    return {};
  }

  Status uncertain() {
    const Json& list = root_["uncertain"];
    if (!list.is_array() || list.size() != 3) return wrong("uncertain", "the paths of three numbers");
    const auto all = numbers(profile_);
    for (const Json& entry : list) {
      if (!entry.is_string()) return wrong("uncertain", "the paths of three numbers");
      const auto& path = entry.get_ref<const std::string&>();
      const auto found = std::ranges::find(all, path, &NamedNumber::path);
      if (found == all.end())
        return invalid("{}: uncertain: found '{}', which is no number of this profile", origin_, printable(path));
      if (!found->number->low) return wrong(path, "low and high, because uncertain names it");
      profile_.uncertain.push_back(path);
    }
    return {};
  }

  const Json& root_;
  const std::string origin_;
  Profile profile_;
};

}  // namespace

const MapVariant& Profile::map(std::string_view variant) const {
  for (const MapVariant& v : map_variants)
    if (v.name == variant) return v;
  for (const MapVariant& v : map_variants)
    if (v.name == map_default) return v;
  LLADA_CHECK(!map_variants.empty());
  return map_variants.front();
}

Result<Profile> parse_profile(std::string_view json, std::string_view origin) {
  LLADA_TRY(const Json root, parse_json_object(json, origin));
  return Reader(root, origin).run();
}

std::vector<Profile> builtin_profiles() {
  std::vector<Profile> profiles;
  for (const auto& [file, text] : kBuiltinProfiles) {
    auto profile = parse_profile(text, file);
    LLADA_CHECK(profile.has_value());
    profiles.push_back(std::move(*profile));
  }
  return profiles;
}

Result<Profile> load_profile(const std::string& name_or_path) {
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json")) {
    constexpr size_t kLimit = size_t{1} << 20;
    LLADA_TRY(const std::string text, read_any_file(name_or_path, kLimit));
    return parse_profile(text, name_or_path);
  }
  std::vector<std::string> names;
  for (Profile& profile : builtin_profiles()) {
    if (profile.name == name_or_path) return std::move(profile);
    names.push_back(profile.name);
  }
  return invalid("profile: found '{}', needed a .json file or one of {}", printable(name_or_path),
                 fmt::join(names, ", "));
}

std::vector<NamedNumber> numbers(const Profile& profile) {
  auto& p = const_cast<Profile&>(profile);  // the accessors serve reading and writing; nothing is written here
  std::vector<NamedNumber> all;
  for (const NumberField& field : kFields) {
    if (std::string_view(field.path) == "window.reserve_gib" && p.window_gib)
      all.push_back({kWindow.path, kWindow.unit, &*p.window_gib});
    all.push_back({field.path, field.unit, &field.get(p)});
  }
  for (const MapVariant& v : profile.map_variants) {
    all.push_back({"map.variants." + v.name + ".us_per_call", "us", &v.us_per_call});
    all.push_back({"map.variants." + v.name + ".us_per_mb", "us/MB", &v.us_per_mb});
  }
  if (profile.experts)
    for (const NumberField& field : kExperts) all.push_back({field.path, field.unit, &field.get(p)});
  if (!profile.rival.empty()) all.push_back({kRival.path, kRival.unit, &profile.rival_tokens_per_s});
  return all;
}

std::string profile_text(const Profile& profile) {
  Json json = {{"name", profile.name}, {"description", profile.description}};
  for (const auto& [path, unit, number] : numbers(profile)) {
    std::string pointer = "/" + path;
    std::ranges::replace(pointer, '.', '/');
    Json& entry = json[Json::json_pointer(pointer)];
    entry["value"] = number->value;
    if (number->low) entry["low"] = *number->low, entry["high"] = *number->high;
    entry["trust"] = std::string(1, number->trust);
    entry["source"] = number->source;
  }
  for (const auto& [key, unit] : {std::pair{"npu", &profile.npu}, std::pair{"cpu", &profile.cpu}}) {
    json[key]["overlap"] = unit->overlap;
    for (const OpKind kind : unit->ops) json[key]["ops"].push_back(name(kind));
    for (const DType type : unit->types) json[key]["types"].push_back(traits(type).name);
  }
  if (!profile.window_gib) json["window"]["gib"] = nullptr;
  json["map"]["default"] = profile.map_default;
  json["head"] = profile.head_on_npu ? "npu" : "cpu";
  json["logits"] = profile.logits_all_rows ? "all" : "wanted";
  if (!profile.rival.empty()) json["rival"]["name"] = profile.rival;
  if (profile.experts) {
    json["experts"]["own_memory"] = profile.experts->own_memory;
    json["experts"]["copied"] = profile.experts->copied;
    json["experts"]["grouped"] = profile.experts->grouped;
  }
  if (profile.dsp)
    json["dsp"] = {{"arch", profile.dsp->arch}, {"threads", profile.dsp->threads}, {"module", profile.dsp->module}};
  json["uncertain"] = profile.uncertain;
  return json.dump(2) + '\n';
}

Profile with_number(Profile profile, std::string_view path, double value) {
  for (const NamedNumber& named : numbers(profile)) {
    if (named.path != path) continue;
    const_cast<Number*>(named.number)->value = value;  // points into `profile`, which is ours
    return profile;
  }
  LLADA_CHECK(false);
  return profile;
}

}  // namespace llada
