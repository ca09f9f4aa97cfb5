// How much address space a phone's DSP gave a session, kept between runs of the program in a file. It holds for one
// boot of the phone and one architecture, since a boot or an update may change it. A value that cannot be read or
// written is found out again.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace llada::hexagon {

// folder: of the user's caches. boot: the id of the machine's boot (base/system.h). Either empty: nothing is kept.
std::optional<int64_t> kept_space(const std::string& folder, const std::string& boot, uint32_t arch);
void keep_space(const std::string& folder, const std::string& boot, uint32_t arch, int64_t bytes);

class Library;
// The address space of a session of this library: as found in this process, as kept, or the default.
int64_t believed_space(const Library& library, const std::string& folder);
// Notes a session's address space that was found out. That of an emulated session is chosen, and not kept.
void learn_space(Library& library, const std::string& folder, int64_t bytes);

}  // namespace llada::hexagon
