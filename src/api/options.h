// The options of the C API that are none of decoding's: of loading, of engines, and of a request beside its decoding.
#pragma once
#include <span>

#include "api/objects.h"

namespace llada::api {

struct OwnOption {
  int32_t used_for;
  const char *key, *unit, *values, *initial, *help, *group;
  Status (*set)(Chosen& chosen, std::string_view text);  // invalid: "found 'x', needed ..."
};
std::span<const OwnOption> own_options();

}  // namespace llada::api
