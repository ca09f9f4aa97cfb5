// How much address space a phone's DSP gave a session, kept from one run of the program to the next. It holds for one
// start of the phone and one architecture, since a start or an update may change it. Nothing here is needed: a value
// that cannot be read or written is measured or stepped back from again.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace llada::hexagon {

// folder: of the user's caches. boot: which start of the machine (base/system.h). Either empty: nothing is known, or
// kept.
std::optional<int64_t> kept_space(const std::string& folder, const std::string& boot, uint32_t arch);
void keep_space(const std::string& folder, const std::string& boot, uint32_t arch, int64_t bytes);

class Library;
// The address space of a session of this library: as found in this process, as kept, or the default.
int64_t believed_space(const Library& library, const std::string& folder);
// It has turned out to be that. An emulated session's is a matter of choice, and not kept.
void learn_space(Library& library, const std::string& folder, int64_t bytes);

}  // namespace llada::hexagon
