#include "devices/hexagon/unit_record.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/fnv.h"
#include "base/system.h"
#include "devices/hexagon/session.h"

namespace llada::hexagon {
namespace {

constexpr std::string_view kBegan = "began", kPassed = "passed", kFailed = "failed: ";
constexpr size_t kLongest = 2000;

// Of the module's file, wherever it lies: another build is another module.
uint64_t module_hash(const Library& library, const std::string& module) {
  constexpr size_t kLimit = size_t{16} << 20;
  std::string folders = Library::search_path() + ';' + library.path().substr(0, library.path().rfind('/'));
  const std::string program = module.substr(0, module.rfind(".so")) + ".emulated";
  for (size_t end; !folders.empty(); folders.erase(0, end + (end < folders.size() ? 1 : 0))) {
    end = std::min(folders.find(';'), folders.size());
    for (const std::string& file : {module, program}) {
      const auto bytes = read_file(folders.substr(0, end) + "/" + file, kLimit);
      if (!bytes) continue;
      Fnv hash;
      hash.add(*bytes);
      return hash.hash();
    }
  }
  return 0;
}

}  // namespace

UnitRecords::UnitRecords(const std::string& folder, const Library& library, const Session& session) : folder_(folder) {
  identity_ = fmt::format("v{} {} {:016x} {}", library.architecture().value_or(0), session.module(),
                          module_hash(library, session.module()), kernel_version());
}

UnitRecord UnitRecords::read() const {
  if (folder_.empty()) return {};
  const auto text = read_file(file(), kLongest);
  if (!text || !text->starts_with(identity_ + "\n")) return {};
  std::string_view rest = std::string_view(*text).substr(identity_.size() + 1);
  if (!rest.ends_with('\n')) return {};
  rest.remove_suffix(1);
  if (rest == kBegan) return {UnitRecord::State::began, {}};
  if (rest == kPassed) return {UnitRecord::State::passed, {}};
  if (rest.starts_with(kFailed)) return {UnitRecord::State::failed, std::string(rest.substr(kFailed.size()))};
  return {};
}

Status UnitRecords::write(const UnitRecord& record) const {
  if (folder_.empty()) return failed("hexagon: there is no folder for caches, needed for the matrix unit's test");
  using State = UnitRecord::State;
  const std::string state = record.state == State::began    ? std::string(kBegan)
                            : record.state == State::passed ? std::string(kPassed)
                                                            : std::string(kFailed) + record.why.substr(0, 500);
  return write_file(file(), fmt::format("{}\n{}\n", identity_, state));
}

std::string UnitRecords::refusal() const {
  constexpr std::string_view kTest = "llada-study doctor --device hexagon";
  const UnitRecord record = read();
  switch (record.state) {
    case UnitRecord::State::passed:
      return {};
    case UnitRecord::State::began:
      return fmt::format(
          "its test began and did not end, so the DSP or the phone may have hung: to try again, delete "
          "{} and run {}",
          file(), kTest);
    case UnitRecord::State::failed:
      return fmt::format("{}: {} tests it again", record.why, kTest);
    default:
      return fmt::format("it has not been tested with this system and module: {} does", kTest);
  }
}

}  // namespace llada::hexagon
