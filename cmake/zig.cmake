# The C API's library for Linux systems back to a chosen glibc, by `zig c++`, which is clang with every glibc's symbols and
# its own libc++, linked in. LLADA_ZIG is its program (the Python package ziglang has one), LLADA_ZIG_TARGET what to
# compile for, as in x86_64-linux-gnu.2.28. Archives of the other libraries are Debian's (LIBRARY:arm64 for aarch64).
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LLADA_ZIG LLADA_ZIG_TARGET)
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX MATCH "^[a-z0-9_]+" CMAKE_SYSTEM_PROCESSOR ${LLADA_ZIG_TARGET})
set(CMAKE_LIBRARY_ARCHITECTURE ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pkgconfig:/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_PATH} "")

# A compiler cache needs one program for one compiler.
set(place ${CMAKE_BINARY_DIR}/zig)
get_property(inner GLOBAL PROPERTY IN_TRY_COMPILE)
if(NOT inner)
  foreach(tool IN ITEMS cc c++)
    if(NOT EXISTS ${place}/${tool})
      file(CONFIGURE OUTPUT ${place}/${tool} CONTENT "#!/bin/sh\nexec '@LLADA_ZIG@' @tool@ -target @LLADA_ZIG_TARGET@ \"$@\"\n" @ONLY)
      file(CHMOD ${place}/${tool} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
    endif()
  endforeach()
  set(CMAKE_C_COMPILER ${place}/cc)
  set(CMAKE_CXX_COMPILER ${place}/c++)
  # The other libraries' headers alone: the rest of /usr/include belongs to another glibc.
  file(MAKE_DIRECTORY ${place}/include)
  foreach(header IN ITEMS fmt nlohmann pcre2.h utf8proc.h)
    file(CREATE_LINK /usr/include/${header} ${place}/include/${header} SYMBOLIC)
  endforeach()
endif()
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${place}/include)
set(CMAKE_PROJECT_INCLUDE ${CMAKE_CURRENT_LIST_DIR}/zig_project.cmake)
