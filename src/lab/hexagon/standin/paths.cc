#include "lab/hexagon/standin/paths.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace llada::standin {

static std::string own_folder() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<const void*>(&own_folder), &info);
  const std::string path = info.dli_fname != nullptr ? info.dli_fname : "";
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string find_emulator() {
  if (const char* given = std::getenv("LLADA_HEXAGON_QEMU")) return given;
  const char* path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "/usr/bin";
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string candidate = rest.substr(0, colon) + "/qemu-hexagon";
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  return "";
}

std::string find_module(const std::string& name) {
  const char* given = std::getenv("ADSP_LIBRARY_PATH");
  std::string rest = given != nullptr ? std::string(given) + ";" : "";
  rest += own_folder();
  while (!rest.empty()) {
    const size_t end = rest.find(';');
    const std::string candidate = rest.substr(0, end) + "/" + name;
    if (::access(candidate.c_str(), R_OK) == 0) return candidate;
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  return "";
}

bool split_uri(const std::string& uri, std::string& module, std::string& symbol, int& session) {
  constexpr std::string_view kHead = "file:///";
  const size_t question = uri.find('?'), first = uri.find('&');
  if (!uri.starts_with(kHead) || question == std::string::npos || first == std::string::npos || first < question ||
      uri.find("&_dom=cdsp") == std::string::npos)
    return false;
  module = uri.substr(kHead.size(), question - kHead.size());
  symbol = uri.substr(question + 1, first - question - 1);
  const size_t at = uri.find("&_session=");
  session = at == std::string::npos ? 0 : std::atoi(uri.c_str() + at + 10);
  return module.find('/') == std::string::npos && !module.empty() && !symbol.empty();
}

}  // namespace llada::standin
