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
if(NOT LLADA_HEXAGON AND NOT ANDROID)
  message(STATUS "Hexagon: no clang with the Hexagon target, or no lld (clang-19 and lld-19 have them): the device is a stub, its tests are skipped")
elseif(LLADA_HEXAGON AND NOT LLADA_HEXAGON_QEMU)
  message(STATUS "Hexagon: no qemu-hexagon (package qemu-user): the DSP code is built but nothing here can run it, its tests are skipped")
endif()

# llada_hexagon_binary(OUTPUT file [RELOCATABLE] [ARCH v67] [COMPILER clang] [TARGET triple] SOURCES files... [DEPENDS files...] [FLAGS flags...])
# One clang call: a freestanding program, or an object that llada_hexagon_modules links. -nostdinc++: the C++ headers of this
# machine, where libc++ is installed, are not for the DSP.
function(llada_hexagon_binary)
  cmake_parse_arguments(ARG "RELOCATABLE" "OUTPUT;ARCH;COMPILER;TARGET" "SOURCES;DEPENDS;FLAGS" ${ARGN})
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
  if(ARG_RELOCATABLE)
    set(kind -nostdlib -r -fPIC)
  endif()
  add_custom_command(OUTPUT ${ARG_OUTPUT}
    COMMAND ${ARG_COMPILER} --target=${ARG_TARGET} -mcpu=hexagon${ARG_ARCH} -O2 -G0 -ffreestanding -fno-builtin -nostdinc++
            -fuse-ld=lld -Wall -Wextra -I${PROJECT_SOURCE_DIR}/src ${kind} ${ARG_FLAGS} ${ARG_SOURCES} -o ${ARG_OUTPUT}
    DEPENDS ${ARG_SOURCES} ${ARG_DEPENDS}
    COMMENT "Hexagon ${ARG_ARCH}: ${ARG_OUTPUT}" VERBATIM)
endfunction()

# llada_hexagon_modules(VARIABLE FOLDER folder NAME name ARCH v73 COMPILER clang SOURCES files... DEPENDS files... FLAGS flags...)
# A module as a DSP loads it, in three variants of one object, since nobody knows which one a phone's loader takes; a
# host tries them in this order (devices/hexagon/library.cc):
#   libNAME_skel_vNN.so          4 KiB segments, the System V hash table
#   libNAME_skel_vNN_aligned.so  every segment on a page of its own in the file too
#   libNAME_skel_vNN_sdk.so      that, and what modules of the vendor's SDK have: NEEDED libc.so and libgcc.so, DT_SYMBOLIC
function(llada_hexagon_modules variable)
  cmake_parse_arguments(ARG "" "FOLDER;NAME;ARCH;COMPILER" "SOURCES;DEPENDS;FLAGS" ${ARGN})
  set(target --target=hexagon-unknown-none-elf -mcpu=hexagon${ARG_ARCH} -fuse-ld=lld -nostdlib)
  set(object ${ARG_FOLDER}/${ARG_ARCH}/${ARG_NAME}.o)
  llada_hexagon_binary(OUTPUT ${object} RELOCATABLE ARCH ${ARG_ARCH} COMPILER ${ARG_COMPILER} TARGET hexagon-unknown-none-elf
                       SOURCES ${ARG_SOURCES} DEPENDS ${ARG_DEPENDS} FLAGS ${ARG_FLAGS})
  set(stubs)
  foreach(library c gcc)  # only their names are used
    set(stub ${ARG_FOLDER}/${ARG_ARCH}/lib${library}.so)
    add_custom_command(OUTPUT ${stub} COMMAND ${ARG_COMPILER} ${target} -shared -fPIC -x c /dev/null -Wl,-soname,lib${library}.so -o ${stub} VERBATIM)
    list(APPEND stubs ${stub})
  endforeach()
  set(common -shared -Wl,-z,max-page-size=0x1000 -Wl,--hash-style=sysv)
  set(plain)
  set(aligned -Wl,-z,separate-loadable-segments)
  set(sdk ${aligned} -Wl,-Bsymbolic -Wl,--no-as-needed ${stubs})
  set(modules)
  foreach(variant plain aligned sdk)
    set(suffix _${variant})
    if(variant STREQUAL plain)
      set(suffix "")
    endif()
    set(file lib${ARG_NAME}_skel_${ARG_ARCH}${suffix}.so)
    add_custom_command(OUTPUT ${ARG_FOLDER}/${file}
      COMMAND ${ARG_COMPILER} ${target} ${common} -Wl,-soname,${file} ${object} ${${variant}} -o ${ARG_FOLDER}/${file}
      DEPENDS ${object} ${stubs} COMMENT "Hexagon ${ARG_ARCH}: ${file}" VERBATIM)
    list(APPEND modules ${ARG_FOLDER}/${file})
  endforeach()
  set(${variable} ${modules} PARENT_SCOPE)
endfunction()
