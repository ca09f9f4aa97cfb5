# Cross build for 64-bit Windows 10 and later with Debian's mingw-w64 (g++-mingw-w64-x86-64-posix), against the libraries
# that tools/windows.sh makes. Programs run under wine.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
set(LLADA_WINDOWS_LIBRARIES ${CMAKE_CURRENT_LIST_DIR}/../build/windows-libraries CACHE PATH "what tools/windows.sh libraries made")
set(CMAKE_FIND_ROOT_PATH ${LLADA_WINDOWS_LIBRARIES} /usr/x86_64-w64-mingw32)
include(${CMAKE_CURRENT_LIST_DIR}/cross_libraries.cmake)
# Windows' calling convention aligns the stack for 16 bytes, and GCC keeps vectors of 32 and 64 there as if it were
# aligned for them (GCC bug 54412). The assembler turns aligned moves of vectors into those that need no alignment.
set(CMAKE_C_FLAGS_INIT "-Wa,-muse-unaligned-vector-move")
set(CMAKE_CXX_FLAGS_INIT "-Wa,-muse-unaligned-vector-move -D_WIN32_WINNT=0x0A00 -DNOMINMAX -DWIN32_LEAN_AND_MEAN -D__USE_MINGW_ANSI_STDIO=1")
# Nothing to install beside the program, and equal bytes at any time of linking.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static -Wl,--no-insert-timestamp")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-static -Wl,--no-insert-timestamp")
