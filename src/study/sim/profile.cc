#include "study/sim/profile.h"

#include <algorithm>
#include <array>
#include <functional>

#include "base/check.h"
#include "base/file.h"
#include "formats/printable.h"
#include "json/fields.h"
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
    #unit ".watts", "W", 0, 1000, [](Profile& p) -> Number& { return p.unit.watts; }                          \
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
constexpr std::array kDivide = {
    NumberField{"divide.host_rate", "of cpu.matmul_gflops", 1e-3, 1,
                [](Profile& p) -> Number& { return p.divide->host_rate; }},
    NumberField{"divide.meet_us", "us", 0, kHuge, [](Profile& p) -> Number& { return p.divide->meet_us; }},
    NumberField{"divide.exchange_gb_per_s", "GB/s", kTiny, kHuge,
                [](Profile& p) -> Number& { return p.divide->exchange_gb_per_s; }},
};
constexpr size_t kLongest = 2000;  // characters of a description or a source

// Walks one profile.
class Reader {
 public:
  explicit Reader(const Fields& root) : root_(root) {}

  Result<Profile> run() {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
    LLADA_TRY(profile_.name, text(root_, "name"));
    if (profile_.name.empty() || profile_.name.find_first_not_of(kLetters) != std::string::npos)
      return root_.unfit("name", "a name of lower-case letters, digits, '-', '_' and '.'");
    LLADA_TRY(profile_.description, text(root_, "description"));
    LLADA_TRY_STATUS(part("npu", [&](const Fields& npu) { return unit(npu, profile_.npu); }));
    LLADA_TRY_STATUS(part("cpu", [&](const Fields& cpu) { return unit(cpu, profile_.cpu); }));
    LLADA_TRY_STATUS(part("ddr"));
    LLADA_TRY_STATUS(part("window", [&](const Fields& window) -> Status {
      if (!window.has("gib")) return {};
      profile_.window_gib.emplace();
      LLADA_TRY_STATUS(number(window, kWindow));
      if (profile_.reserve_gib.value >= profile_.window_gib->value)
        return window.fault("reserve_gib",
                            fmt::format("found {} GiB, needed less than window.gib", profile_.reserve_gib.value));
      return {};
    }));
    LLADA_TRY_STATUS(part("copy"));
    LLADA_TRY_STATUS(part("power"));
    LLADA_TRY_STATUS(part("map", [&](const Fields& map) { return variants(map); }));
    LLADA_TRY(profile_.head_on_npu, one_of("head", "npu", "cpu"));
    LLADA_TRY(profile_.logits_all_rows, one_of("logits", "all", "wanted"));
    if (root_.has("rival"))
      LLADA_TRY_STATUS(part("rival", [&](const Fields& rival) -> Status {
        LLADA_TRY(profile_.rival, text(rival, "name"));
        return number(rival, kRival);
      }));
    if (root_.has("experts"))
      LLADA_TRY_STATUS(part("experts", [&](const Fields& experts) -> Status {
        auto& e = profile_.experts.emplace();
        LLADA_TRY(e.own_memory, experts.boolean("own_memory"));
        LLADA_TRY(e.copied, experts.boolean("copied"));
        LLADA_TRY(e.grouped, experts.boolean("grouped"));
        for (const NumberField& field : kExperts) LLADA_TRY_STATUS(number(experts, field));
        return {};
      }));
    if (root_.has("divide"))
      LLADA_TRY_STATUS(part("divide", [&](const Fields& divide) -> Status {
        profile_.divide.emplace();
        for (const NumberField& field : kDivide) LLADA_TRY_STATUS(number(divide, field));
        return {};
      }));
    if (const Json* dsp = root_.find("dsp")) {
      LLADA_TRY(profile_.dsp, parse_measured_dsp(*dsp, root_.source()));
    }
    LLADA_TRY_STATUS(uncertain());
    LLADA_TRY_STATUS(root_.finish());
    return std::move(profile_);
  }

 private:
  // The object of that name: its numbers of kFields, and what `further` reads.
  Status part(const std::string& name, const std::function<Status(const Fields&)>& further = {}) {
    LLADA_TRY(const Fields fields, root_.object(name));
    for (const NumberField& field : kFields)
      if (std::string_view(field.path).starts_with(name + ".")) LLADA_TRY_STATUS(number(fields, field));
    if (further) LLADA_TRY_STATUS(further(fields));
    return fields.finish();
  }

  // A text that is printed on one line.
  Result<std::string> text(const Fields& fields, std::string_view name) const {
    LLADA_TRY(std::string found, fields.text(name));
    if (found.empty() || found.size() > kLongest ||
        std::ranges::any_of(found, [](char c) { return static_cast<unsigned char>(c) < 0x20; }))
      return fields.unfit(name, fmt::format("1 to {} characters, none a control character", kLongest));
    return found;
  }

  Result<bool> one_of(const char* name, std::string_view yes, std::string_view no) const {
    LLADA_TRY(const std::string value, root_.text(name));
    if (value != yes && value != no) return root_.unfit(name, fmt::format("{} or {}", yes, no));
    return value == yes;
  }

  Status number(const Fields& object, const NumberField& field) {
    const std::string_view path = field.path;
    return read(object, path.substr(path.find('.') + 1), field, field.get(profile_));
  }

  Status read(const Fields& object, std::string_view name, const NumberField& field, Number& out) const {
    LLADA_TRY(const Fields number, object.object(name));
    const auto real = [&](const char* which) -> Result<double> {
      const auto found = number.real(which, field.least, field.most);
      if (!found)
        return number.unfit(which, fmt::format("a number from {} to {} {}", field.least, field.most, field.unit));
      return found;
    };
    LLADA_TRY(out.value, real("value"));
    LLADA_TRY(out.source, text(number, "source"));
    LLADA_TRY(const std::string trust, number.text("trust"));
    if (trust != "H" && trust != "M" && trust != "L" && trust != "I") return number.unfit("trust", "H, M, L or I");
    out.trust = trust[0];
    if (number.has("low") || number.has("high")) {
      LLADA_TRY(out.low, real("low"));
      LLADA_TRY(out.high, real("high"));
      if (*out.low > out.value || *out.high < out.value) return object.unfit(name, "low <= value <= high");
    }
    return number.finish();
  }

  Status unit(const Fields& fields, UnitProfile& out) const {
    LLADA_TRY(out.overlap, fields.boolean("overlap"));
    const auto words = [&](const char* name, const std::function<bool(const std::string&)>& take) -> Status {
      LLADA_TRY(const Json* list, fields.list(name));
      if (list->empty()) return fields.unfit(name, "a list of names");
      for (const Json& word : *list)
        if (!word.is_string() || !take(word.get_ref<const std::string&>()))
          return fields.wrong(name, word, "names that are known here, each once");
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

  Status variants(const Fields& map) {
    LLADA_TRY(const Fields all, map.object("variants"));
    if (all.all().empty() || all.all().size() > 16) return map.unfit("variants", "an object of 1 to 16 variants");
    static constexpr NumberField kCall{"", "us", 0, kHuge, nullptr};
    for (const auto& [key, value] : all.all().items()) {
      if (key.empty() || key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") != std::string::npos)
        return map.unfit("variants", "names of lower-case letters, digits, '-' and '_'");
      LLADA_TRY(const Fields fields, all.object(key));
      MapVariant variant{.name = key, .us_per_call = {}, .us_per_mb = {}};
      LLADA_TRY_STATUS(read(fields, "us_per_call", kCall, variant.us_per_call));
      LLADA_TRY_STATUS(read(fields, "us_per_mb", kCall, variant.us_per_mb));
      LLADA_TRY_STATUS(fields.finish());
      profile_.map_variants.push_back(std::move(variant));
    }
    LLADA_TRY(profile_.map_default, map.text("default"));
    if (!all.has(profile_.map_default)) return map.unfit("default", "the name of a variant");
    return {};
  }

  Status uncertain() {
    LLADA_TRY(const auto paths, root_.texts("uncertain"));
    if (paths.size() != 3) return root_.unfit("uncertain", "the paths of three numbers");
    const auto all = numbers(profile_);
    for (const std::string& path : paths) {
      const auto found = std::ranges::find(all, path, &NamedNumber::path);
      if (found == all.end()) return root_.wrong("uncertain", path, "a number of this profile");
      if (!found->number->low) return root_.fault(path, "needed low and high, because uncertain names it");
      profile_.uncertain.push_back(path);
    }
    return {};
  }

  const Fields& root_;
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
  LLADA_TRY(const Fields root, Fields::parse(json, std::string(origin)));
  return Reader(root).run();
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
  if (profile.divide)
    for (const NumberField& field : kDivide) all.push_back({field.path, field.unit, &field.get(p)});
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
  if (profile.dsp && profile.dsp->host_share > 0) json["dsp"]["host_share"] = profile.dsp->host_share;
  if (profile.dsp && !profile.dsp->unit.empty()) json["dsp"]["unit"] = profile.dsp->unit;
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
