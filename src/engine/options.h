// The options of a run for those above the engine: decode's struct, the list of its fields, and how texts and JSON
// become options.
#pragma once
#include <vector>

#include "decode/fields.h"
#include "decode/settings.h"

namespace llada {

class JsonFields;

// {"gen_length": 64, "credit": true, "kv": "dual"}: keys and values as in decode/fields.h. Invalid: "WHERE: KEY: found
// ..., needed ...".
Result<std::vector<decode::Setting>> read_settings(const JsonFields& object);

}  // namespace llada
