# What CMake finds out about a compiler and zig has otherwise (cmake/zig.cmake). Packages that name /usr/include as theirs
# do not bring it to the command line, and zig's linker does not know --push-state.
list(APPEND CMAKE_C_IMPLICIT_INCLUDE_DIRECTORIES /usr/include)
list(APPEND CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES /usr/include)
set(CMAKE_CXX_LINK_LIBRARY_USING_WHOLE_ARCHIVE_SUPPORTED TRUE)
set(CMAKE_CXX_LINK_LIBRARY_USING_WHOLE_ARCHIVE -Wl,--whole-archive "<LINK_ITEM>" -Wl,--no-whole-archive)
# Debian's archives have C alone: its fmt is of another C++ library.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(LLADA_FMT fmt::fmt-header-only)
# zig's runtime answers __builtin_cpu_supports with no for all that x86 has; GCC's, linked before it, asks the processor.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  execute_process(COMMAND gcc -print-libgcc-file-name OUTPUT_VARIABLE CMAKE_CXX_STANDARD_LIBRARIES
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
