// Requests about processors and this process that each system answers in its own way: system_linux.cc (Android too),
// system_macos.cc or system_windows.cc, of which CMake takes one (os.h).
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/memory_room.h"
#include "base/processors.h"

namespace llada {

struct ArmFeatures {
  bool dotprod = false, i8mm = false;  // FEAT_DotProd, FEAT_I8MM; i8mm only where dotprod is
  bool sme = false, sme2 = false;      // FEAT_SME with outer products of F16, and i8mm; FEAT_SME2, and these
};
ArmFeatures arm_features();  // none on other processors

// The tiles of x86's AMX: the first returns whether the system saves them with a thread. The second asks for them and
// returns whether this process may use them.
bool system_has_tiles();
bool ask_for_tiles();

std::string processor_name();  // "AMD EPYC 9B45"; "processor" where the system does not tell

ProcessorMask own_mask();                     // the processors that this thread may use
bool bind_thread(const ProcessorMask& mask);  // this thread; false: refused, it stays where the scheduler puts it
int this_processor();                         // which one this thread is on; -1: the system does not tell

// Memory that other processors of the machine see by its descriptor. `give` writes this processor's caches to memory;
// `take` makes its next reads come from memory. Nothing where the system has no such memory, or keeps caches in order
// itself.
enum class CacheSync : uint8_t { give, take };
void sync_caches(int fd, CacheSync direction);

std::string program_folder();  // where this program lies; empty: not known

std::string kernel_version();  // a text that differs between versions of the system
// For systems without /proc (memory_room.h); empty where it has nothing to say.
std::optional<MemoryRoom> system_memory_room();

std::string boot_name();  // another one after every start of the machine; empty where the system does not tell

}  // namespace llada
