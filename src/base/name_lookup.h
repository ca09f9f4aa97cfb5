// How this process finds the addresses of names.
#pragma once

namespace llada {

// From here on by files and DNS alone. For a program that is linked statically: the system's other ways are modules of
// its own C library, whose code would run over this program's. Nothing where there is no glibc.
void look_up_names_alone();

}  // namespace llada
