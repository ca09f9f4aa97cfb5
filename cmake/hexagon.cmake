# Code for the Hexagon DSP: compiled by clang's Hexagon target, linked by lld, run on a PC by qemu-hexagon.
# LLADA_HEXAGON_CLANG and LLADA_HEXAGON_QEMU are empty where the tool is missing; the build says so once.
# What is tested is compiled by the oldest that can, which counts of instruction packets refer to; modules for phones by
# the newest, which knows more architectures.
find_program(LLADA_HEXAGON_CLANG NAMES clang-19 clang-20 clang-21 clang-22)
find_program(LLADA_HEXAGON_PHONE_CLANG NAMES clang-22 clang-21 clang-20 clang-19)
find_program(LLADA_HEXAGON_LLD NAMES ld.lld ld.lld-22 ld.lld-21 ld.lld-20 ld.lld-19)
find_program(LLADA_HEXAGON_QEMU NAMES qemu-hexagon)
set(LLADA_HEXAGON FALSE)
if(LLADA_HEXAGON_CLANG AND LLADA_HEXAGON_LLD)
  execute_process(COMMAND ${LLADA_HEXAGON_CLANG} --target=hexagon-unknown-linux-musl -mcpu=hexagonv67 -mhvx -x c -fsyntax-only /dev/null
                  RESULT_VARIABLE LLADA_HEXAGON_RESULT OUTPUT_QUIET ERROR_QUIET)
  if(LLADA_HEXAGON_RESULT EQUAL 0)
    set(LLADA_HEXAGON TRUE)
  endif()
endif()
if(NOT LLADA_HEXAGON)
  message(STATUS "Hexagon: no clang with the Hexagon target, or no lld (clang-19 and lld-19 have them): the device is a stub, its tests are skipped")
elseif(NOT LLADA_HEXAGON_QEMU)
  message(STATUS "Hexagon: no qemu-hexagon (package qemu-user): the DSP code is built but nothing here can run it, its tests are skipped")
endif()

# llada_hexagon_binary(OUTPUT file [SHARED soname] [ARCH v67] [COMPILER clang] [TARGET triple] SOURCES files... [DEPENDS files...] [FLAGS flags...])
# One clang call: a freestanding program, or a shared object as a DSP loads it. -nostdinc++: the C++ headers of this
# machine, where libc++ is installed, are not for the DSP.
function(llada_hexagon_binary)
  cmake_parse_arguments(ARG "" "OUTPUT;SHARED;ARCH;COMPILER;TARGET" "SOURCES;DEPENDS;FLAGS" ${ARGN})
  if(NOT ARG_ARCH)
    set(ARG_ARCH v67)
  endif()
  if(NOT ARG_COMPILER)
    set(ARG_COMPILER ${LLADA_HEXAGON_CLANG})
  endif()
  if(NOT ARG_TARGET)
    set(ARG_TARGET hexagon-unknown-linux-musl)
  endif()
  set(kind -nostdlib -static)
  if(ARG_SHARED)
    # A DSP's loader wants 4 KiB segments and the System V hash table.
    set(kind -nostdlib -shared -fPIC -Wl,-soname,${ARG_SHARED} -Wl,-z,max-page-size=0x1000 -Wl,--hash-style=sysv)
  endif()
  add_custom_command(OUTPUT ${ARG_OUTPUT}
    COMMAND ${ARG_COMPILER} --target=${ARG_TARGET} -mcpu=hexagon${ARG_ARCH} -O2 -G0 -ffreestanding -fno-builtin -nostdinc++
            -fuse-ld=lld -Wall -Wextra -I${PROJECT_SOURCE_DIR}/src ${kind} ${ARG_FLAGS} ${ARG_SOURCES} -o ${ARG_OUTPUT}
    DEPENDS ${ARG_SOURCES} ${ARG_DEPENDS}
    COMMENT "Hexagon ${ARG_ARCH}: ${ARG_OUTPUT}" VERBATIM)
endfunction()
