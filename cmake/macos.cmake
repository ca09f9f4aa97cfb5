# Cross compilation for macOS on Apple's processors by `zig c++`, which has Apple's headers of C and POSIX, but no
# frameworks, of which the program needs none. Against the libraries that tools/macos.sh makes. Program and library are
# compiled and linked by it, and have not been run.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(LLADA_MACOS_LIBRARIES ${CMAKE_CURRENT_LIST_DIR}/../build/macos-libraries CACHE PATH "what tools/macos.sh made")
foreach(tool IN ITEMS ar ranlib)
  string(TOUPPER ${tool} variable)
  set(CMAKE_${variable} ${LLADA_MACOS_LIBRARIES}/zig/${tool})
endforeach()
set(CMAKE_C_COMPILER ${LLADA_MACOS_LIBRARIES}/zig/cc)
set(CMAKE_CXX_COMPILER ${LLADA_MACOS_LIBRARIES}/zig/c++)
set(LLADA_ZIG ${CMAKE_CXX_COMPILER})
# CMake's own form for Apple's linker divides the option from its archive.
set(CMAKE_CXX_LINK_LIBRARY_USING_WHOLE_ARCHIVE_SUPPORTED TRUE)
set(CMAKE_CXX_LINK_LIBRARY_USING_WHOLE_ARCHIVE "-Wl,-force_load,<LIB_ITEM>")
set(CMAKE_INSTALL_NAME_TOOL true)
set(CMAKE_OSX_SYSROOT "" CACHE STRING "" FORCE)
set(CMAKE_FIND_ROOT_PATH ${LLADA_MACOS_LIBRARIES})
include(${CMAKE_CURRENT_LIST_DIR}/cross_libraries.cmake)
