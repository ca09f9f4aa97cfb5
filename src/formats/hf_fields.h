// Members of one object of config.json, each read with its range. Errors name the file, the member and its value.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada {

// A member that is null counts as left out. Where several names are given the first that is there counts.
class HfFields {
 public:
  using Names = std::initializer_list<std::string_view>;

  // Both are kept by reference. where: the object's path with a dot behind it, or nothing.
  HfFields(const nlohmann::json& object, std::string where, std::string_view file)
      : object_(object), where_(std::move(where)), file_(file) {}

  const nlohmann::json* find(std::string_view name) const;
  const nlohmann::json* find(Names names) const;
  // Of the names the one that find() found, else the first.
  std::string_view spelling(Names names) const;
  std::unexpected<Error> wrong(std::string_view name, const nlohmann::json& value, std::string_view needed) const;

  // An exact double is an integer, too: some writers print 4096.0. Without `absent` it is needed.
  Result<int64_t> integer(Names names, std::optional<int64_t> absent = std::nullopt) const;
  Result<double> real(Names names, double absent) const;
  Result<float> number(Names names, double absent) const;  // real(), in single precision
  Result<bool> boolean(Names names, bool absent) const;
  // One token id or a list of at most 64; none: left out.
  Result<std::vector<int32_t>> tokens(std::string_view name) const;
  Result<HfFields> object(std::string_view name) const;
  // Refuses a value that is none of these.
  Status only(std::string_view name, std::initializer_list<nlohmann::json> allowed) const;

 protected:
  const nlohmann::json& object_;
  std::string where_;
  std::string_view file_;
};

}  // namespace llada
