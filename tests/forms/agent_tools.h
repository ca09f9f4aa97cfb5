// Lists of functions in the shape of those that coding agents and servers of the Model Context Protocol send with their
// first request: 20 to 60 of them, long descriptions, and bounds that no answer reaches.
#pragma once
#include <random>
#include <string>

#include "base/error.h"

namespace llada::forms {

class AgentTools {
 public:
  explicit AgentTools(unsigned seed) : random_(seed) {}

  // A list for tools_text().
  std::string list(int tools) {
    std::string out;
    for (int i = 0; i < tools; ++i) out += (i ? ",\n " : "[") + tool(i);
    return out + "]";
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  std::string prose(int words) {
    static const char* kWords[] = {"the",     "file",    "path",     "absolute", "returns", "when",    "use",
                                   "never",   "command", "to",       "of",       "a",       "results", "directory",
                                   "pattern", "must",    "optional", "limit",    "issue"};
    std::string out;
    for (int i = 0; i < words; ++i) out += std::string(i ? " " : "") + kWords[below(std::size(kWords))];
    return out;
  }

  std::string name(int i) {
    static const char* kVerbs[] = {"read",   "write",  "edit",   "list", "search",
                                   "create", "delete", "update", "run",  "get"};
    static const char* kNouns[] = {"file", "directory", "issue", "pull_request", "notebook", "memory", "task", "page"};
    return fmt::format("mcp__{}_{}_{}", kVerbs[i % 10], kNouns[i / 10 % 8], i);
  }

  std::string string() {
    static const int kLongest[] = {100, 255, 500, 1000, 4096, 65536};
    switch (below(6)) {
      case 0:
        return R"("type": "string", "enum": ["content", "files_with_matches", "count", "open", "closed"])";
      case 1:
        return R"("type": "string", "format": "uri")";
      case 2:
        return R"("type": "string", "default": "")";
      case 3:
        return fmt::format(R"("type": "string", "minLength": 1, "maxLength": {})", kLongest[below(6)]);
      default:
        return fmt::format(R"("type": "string", "maxLength": {})", kLongest[below(6)]);
    }
  }

  std::string schema(int depth) {
    std::string out = "{\"description\": \"" + prose(6 + below(12)) + "\", ";
    switch (below(depth > 0 ? 9 : 5)) {
      case 0:
        return out + R"("type": "integer", "minimum": 0, "maximum": 9007199254740991})";
      case 1:
        return out + R"("type": "boolean", "default": false})";
      case 2:
      case 3:
      case 4:
        return out + string() + "}";
      case 5:
        return out + R"("anyOf": [{"type": "string", "maxLength": 2000}, {"type": "null"}]})";
      case 6:
        return out + R"("type": "object", "additionalProperties": {"type": "string"}})";
      case 7:
        return out + fmt::format(R"("type": "array", "items": {}, "minItems": 1, "maxItems": {}}})", schema(depth - 1),
                                 below(2) ? 50 : 10000);
      default:
        return out + object(2 + below(4), depth - 1) + "}";
    }
  }

  std::string object(int properties, int depth) {
    static const char* kNames[] = {"file_path", "content", "old_string", "new_string", "pattern",
                                   "limit",     "offset",  "command",    "timeout",    "description",
                                   "todos",     "labels",  "owner",      "repo",       "body"};
    std::string members, required;
    const int first = below(std::size(kNames));
    for (int i = 0; i < properties; ++i) {
      const char* key = kNames[static_cast<size_t>(first + i) % std::size(kNames)];
      members += fmt::format(R"({}"{}": {})", i ? ", " : "", key, schema(depth));
      if (below(2)) required += fmt::format(R"({}"{}")", required.empty() ? "" : ", ", key);
    }
    return fmt::format(R"("type": "object", "properties": {{{}}}, "required": [{}], "additionalProperties": false)",
                       members, required);
  }

  std::string tool(int i) {
    return fmt::format(R"({{"name": "{}", "loose": true, "description": "{}", "parameters": {{{}}}}})", name(i),
                       prose(40 + below(60)), object(1 + below(4), 2));
  }

  std::mt19937 random_;
};

}  // namespace llada::forms
