// A hub's list of files and what is chosen from it: no input may crash, and no path may leave its folder.
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "hub/listing.h"
#include "hub/repository.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llada::hub;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(parse_request(text.substr(0, 300)));
  const auto listing = parse_listing(text, "list");
  if (!listing) return 0;
  std::vector<std::string> names;
  for (const RemoteFile& file : listing->files) {
    if (!is_safe_relative_path(file.path)) std::abort();
    names.push_back(file.path);
  }
  const auto choice = choose_files(names, "", "owner/name");
  if (choice && choice->files.empty()) std::abort();
  static_cast<void>(choose_files(names, "Q8_0", "owner/name"));
  return 0;
}
