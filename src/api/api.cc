// Functions without an object: versions, features, errors; and checks of callers' arguments that all functions share.
#include <ranges>

#include "api/objects.h"

namespace llada::api {

Outcome check_version(int32_t api_version) {
  constexpr int32_t kOldest = 3;  // of the SOVERSION
  if (api_version >= kOldest && api_version <= LLADA_API_VERSION) return LLADA_OK;
  return refuse(LLADA_ERROR_VERSION, "llada.h: found version {} of the API, needed {} to {} of this library ({})",
                api_version, kOldest, LLADA_API_VERSION, llada_version());
}

Outcome check_file(const Model& model) {
  const Status status = model.file().check_unchanged();
  return status ? Outcome(LLADA_OK) : refuse(LLADA_ERROR_FILE, "{}", status.error().message);
}

std::expected<std::string_view, ApiError> read_text(const char* name, const char* text, size_t size) {
  if (text == nullptr && size != 0) return refuse(LLADA_ERROR_INVALID, "{}: found null, needed a text", name);
  if (size == LLADA_TEXT) return std::string_view(text);
  LLADA_TRY(const auto bytes, read_array(name, text, size));
  return std::string_view(bytes.data(), bytes.size());
}

std::expected<std::vector<ChatMessage>, ApiError> read_messages(const char* const* roles, const char* const* contents,
                                                                size_t messages) {
  LLADA_TRY(const auto names, read_array("roles", roles, messages));
  LLADA_TRY(const auto texts, read_array("contents", contents, messages));
  std::vector<ChatMessage> read;
  for (size_t i = 0; i < messages; ++i) {
    LLADA_TRY(const auto role, read_text("role", names[i], LLADA_TEXT));
    LLADA_TRY(const auto content, read_text("content", texts[i], LLADA_TEXT));
    read.push_back({role == "developer" ? "system" : std::string(role), std::string(content)});  // its newer name
  }
  return read;
}

namespace {

constexpr std::pair<llada_status, const char*> kNames[] = {
    {LLADA_OK, "LLADA_OK"},
    {LLADA_END, "LLADA_END"},
    {LLADA_TIMEOUT, "LLADA_TIMEOUT"},
    {LLADA_ERROR_INVALID, "LLADA_ERROR_INVALID"},
    {LLADA_ERROR_FAILED, "LLADA_ERROR_FAILED"},
    {LLADA_ERROR_HANDLE, "LLADA_ERROR_HANDLE"},
    {LLADA_ERROR_BUSY, "LLADA_ERROR_BUSY"},
    {LLADA_ERROR_VERSION, "LLADA_ERROR_VERSION"},
    {LLADA_ERROR_MEMORY, "LLADA_ERROR_MEMORY"},
    {LLADA_ERROR_ABORTED, "LLADA_ERROR_ABORTED"},
    {LLADA_ERROR_UNSUPPORTED, "LLADA_ERROR_UNSUPPORTED"},
    {LLADA_ERROR_FILE, "LLADA_ERROR_FILE"},
    {LLADA_ERROR_SPACE, "LLADA_ERROR_SPACE"},
};

}  // namespace
}  // namespace llada::api

using namespace llada::api;

const char* llada_error(const void* handle) { return last_error(handle); }

const char* llada_status_name(llada_status status) {
  for (const auto& [code, name] : kNames)
    if (code == status) return name;
  return "";
}

const char* llada_version(void) { return LLADA_LIBRARY_VERSION; }

int32_t llada_api_version(void) { return LLADA_API_VERSION; }

int32_t llada_has_feature(const char* name) {
  if (name == nullptr) return 0;
  for (const auto one : std::views::split(std::string_view(LLADA_FEATURES), ' '))
    if (std::string_view(one) == name) return 1;
  return 0;
}
