// The findings of `llada doctor`: as lines for people, or as a list in JSON.
#pragma once
#include <string>
#include <vector>

#include "json/parse.h"

namespace llada::cli {

struct Finding {
  enum class Kind { good, less, bad };  // as it should be; slower or smaller than it could be; does not work
  Kind kind = Kind::good;
  std::string what, text;  // "window", "3.25 GiB ..."
};

std::string finding_line(const Finding& finding);
Json findings_json(const std::vector<Finding>& findings);

}  // namespace llada::cli
