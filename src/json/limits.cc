#include "json/limits.h"

namespace llada {

Status check_json_limits(std::string_view text, std::string_view file, const JsonLimits& limits) {
  size_t depth = 0, values = 1, run = 0;  // run: where the present string, number or white space began
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i - run > limits.run_bytes)
      return invalid("{}: JSON text at byte {} runs on for more than {} bytes", file, run, limits.run_bytes);
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c != '"') continue;
      in_string = false;
      run = i;
    } else if (c == '"') {
      in_string = true;
      run = i;
    } else if (c == '{' || c == '[') {
      if (++depth > limits.depth) return invalid("{}: JSON nested more than {} deep at byte {}", file, limits.depth, i);
      ++values;
      run = i;
    } else if (c == '}' || c == ']') {
      if (depth > 0) --depth;
      run = i;
    } else if (c == ',' || c == ':') {
      if (c == ',') ++values;
      run = i;
    }
    // The parser would take it for the end, and not look at what follows.
    if (c == '\0') return invalid("{}: found a NUL byte at byte {}, needed JSON text", file, i);
    if (values > limits.values) return invalid("{}: JSON with more than {} values", file, limits.values);
  }
  return {};
}

}  // namespace llada
