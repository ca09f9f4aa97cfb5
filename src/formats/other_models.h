// Models that are not supported, by the names in their files: general.architecture of a GGUF file, a class or
// model_type of config.json.
#pragma once
#include <string>
#include <string_view>

namespace llada {

// The rest of a sentence about the name, such as "is an ordinary, autoregressive model's ..."; empty where it is not
// known.
std::string why_not_computed(std::string_view name);

}  // namespace llada
