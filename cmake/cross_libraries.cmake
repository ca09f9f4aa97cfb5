# For toolchain files: libraries, headers and packages are looked for in the folders of CMAKE_FIND_ROOT_PATH alone, and
# pkg-config knows those of the first of them, which a script of tools/ has filled.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_PREFIX_PATH /)
list(GET CMAKE_FIND_ROOT_PATH 0 cross_libraries)
set(ENV{PKG_CONFIG_LIBDIR} ${cross_libraries}/lib/pkgconfig)
set(ENV{PKG_CONFIG_PATH} "")
