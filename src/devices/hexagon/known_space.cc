#include "devices/hexagon/known_space.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/numbers.h"
#include "base/system.h"
#include "devices/hexagon/hexagon_device.h"
#include "devices/hexagon/library.h"

namespace llada::hexagon {
namespace {

std::string head(const std::string& boot, uint32_t arch) { return fmt::format("{} v{} ", boot, arch); }
std::string place(const std::string& folder) { return folder + "/hexagon-space"; }

}  // namespace

std::optional<int64_t> kept_space(const std::string& folder, const std::string& boot, uint32_t arch) {
  if (folder.empty() || boot.empty()) return std::nullopt;
  const auto text = read_file(place(folder), 200);
  const std::string begin = head(boot, arch);
  if (!text || !text->starts_with(begin)) return std::nullopt;
  int64_t bytes = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, error] = llada::from_chars(text->data() + begin.size(), end, bytes);
  // More than 32 bits address, or nothing, nobody has kept.
  if (error != std::errc() || rest == end || *rest != '\n' || bytes <= 0 || bytes > int64_t{1} << 32)
    return std::nullopt;
  return bytes;
}

void keep_space(const std::string& folder, const std::string& boot, uint32_t arch, int64_t bytes) {
  if (folder.empty() || boot.empty()) return;
  auto file = AtomicFile::create(place(folder));
  const std::string line = fmt::format("{}{}\n", head(boot, arch), bytes);
  if (file && file->write(line.data(), line.size())) static_cast<void>(file->commit());
}

int64_t believed_space(const Library& library, const std::string& folder) {
  if (const auto learnt = library.known_space()) return *learnt;
  if (library.stand_in()) return kHexagonSpace;
  return kept_space(folder, boot_name(), library.architecture().value_or(0)).value_or(kHexagonSpace);
}

void learn_space(Library& library, const std::string& folder, int64_t bytes) {
  library.learn_space(bytes);
  if (!library.stand_in()) keep_space(folder, boot_name(), library.architecture().value_or(0), bytes);
}

}  // namespace llada::hexagon
