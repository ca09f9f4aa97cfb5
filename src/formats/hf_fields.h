// Typed reading of config.json and generation_config.json, with error lines that name file, key, found and needed.
// Private to formats/.
#pragma once
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/json.h"
#include "formats/model_config.h"
#include "json/parse.h"

namespace llada {

// Members of one object of a file. A member that is null counts as left out.
class HfFields {
 public:
  using Names = std::initializer_list<std::string_view>;  // of one member; the first that is there counts

  // where: in error lines before the member's name, such as the object's path with a dot.
  HfFields(const Json& object, std::string_view file, std::string where = "")
      : object_(object), file_(file), where_(std::move(where)) {}

  // Null: not there.
  const Json* find(Names names) const {
    for (const auto name : names)
      if (const auto found = object_.find(name); found != object_.end() && !found->is_null()) return &*found;
    return nullptr;
  }

  bool contains(std::string_view name) const { return object_.contains(name); }  // or has it as null

  std::string_view spelling(Names names) const {  // the name that find() found
    for (const auto name : names)
      if (find({name}) != nullptr) return name;
    return *names.begin();
  }

  std::unexpected<Error> wrong(std::string_view name, const Json& value, std::string_view needed) const {
    return invalid("{}: {}{} is {}, {} needed", file_, where_, name, value_text(value), needed);
  }

  // Absent members give `absent` where it is set, otherwise an error.
  Result<int64_t> integer(Names names, std::optional<int64_t> absent = std::nullopt) const {
    const Json* value = find(names);
    if (value == nullptr) {
      if (absent) return *absent;
      return invalid("{}: {}{} is missing", file_, where_, fmt::join(names, " or "));
    }
    // Exact doubles are integers too: some writers print 4096.0.
    if (value->is_number_float()) {
      const double number = value->get<double>();
      if (number != std::floor(number) || std::fabs(number) > 1e15) return wrong(spelling(names), *value, "an integer");
      return static_cast<int64_t>(number);
    }
    if (!value->is_number_integer() || (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{1} << 62))
      return wrong(spelling(names), *value, "an integer");
    return value->get<int64_t>();
  }

  Result<double> number(Names names, double absent) const {
    const Json* value = find(names);
    if (value == nullptr) return absent;
    if (!value->is_number()) return wrong(spelling(names), *value, "a number");
    const double given = value->get<double>();
    if (!(given >= 0 && given <= 1e30)) return wrong(spelling(names), *value, "a finite positive number");
    return given;
  }

  // In single precision, as GGUF keeps it.
  Result<float> single(Names names, double absent) const {
    LLADA_TRY(const double given, number(names, absent));
    return static_cast<float>(given);
  }

  Result<bool> boolean(Names names, bool absent) const {
    const Json* value = find(names);
    if (value == nullptr) return absent;
    if (!value->is_boolean()) return wrong(spelling(names), *value, "true or false");
    return value->get<bool>();
  }

  // One token id, or a list of them; none where the member is left out.
  Result<std::vector<int32_t>> tokens(std::string_view name, size_t most = 64) const {
    std::vector<int32_t> ids;
    const Json* value = find({name});
    if (value == nullptr) return ids;
    const Json list = value->is_array() ? *value : Json::array({*value});
    if (list.size() > most)
      return invalid("{}: {}{} lists {} ids, at most {} needed", file_, where_, name, list.size(), most);
    for (const Json& id : list) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > std::numeric_limits<int32_t>::max())
        return wrong(name, id, "a token id");
      ids.push_back(static_cast<int32_t>(id.get<int64_t>()));
    }
    return ids;
  }

  // Checks a member that may be left out.
  Status only(std::string_view name, std::initializer_list<Json> allowed) const {
    const Json* value = find({name});
    if (value == nullptr || std::ranges::find(allowed, *value) != allowed.end()) return {};
    return wrong(name, *value, value_text(*allowed.begin()));
  }

  Result<HfFields> object(std::string_view name) const {
    const Json* value = find({name});
    if (value == nullptr) return invalid("{}: {}{} is missing, an object needed", file_, where_, name);
    if (!value->is_object()) return wrong(name, *value, "an object");
    return HfFields(*value, file_, fmt::format("{}{}.", where_, name));
  }

 private:
  const Json& object_;
  std::string_view file_;
  std::string where_;
};

// Numbers that other models compute with, and no family here: a factor of 1 changes nothing.
inline Status no_other_numbers(const HfFields& fields) {
  for (const auto name : {"attn_logit_softcapping", "query_pre_attn_scalar", "attention_multiplier", "scale_depth"})
    if (const Json* value = fields.find({name})) return fields.wrong(name, *value, "null");
  for (const auto name : {"logit_scale", "logits_scaling", "residual_multiplier", "embedding_multiplier", "scale_emb"})
    LLADA_TRY_STATUS(fields.only(name, {1, 1.0}));
  return {};
}

// The id that any of the files gives for a token; -1: none.
inline Result<int32_t> one_token(std::initializer_list<const HfFields*> files, std::string_view name) {
  for (const HfFields* one : files) {
    LLADA_TRY(const auto ids, one->tokens(name, 1));
    if (!ids.empty()) return ids.front();
  }
  return -1;
}

// The ends of an answer, of which each file may list several. eot_id is read before.
inline Status read_ends(std::initializer_list<const HfFields*> files, ModelConfig& c) {
  for (const HfFields* one : files) {
    LLADA_TRY(const auto ids, one->tokens("eos_token_id"));
    if (c.eos_id < 0 && !ids.empty()) c.eos_id = ids.front();
    for (const int32_t id : ids)
      if (id != c.eos_id && id != c.eot_id && std::ranges::count(c.end_ids, id) == 0) c.end_ids.push_back(id);
  }
  return {};
}

}  // namespace llada
