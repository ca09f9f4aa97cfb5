# Cross build for 64-bit Arm with Debian's multiarch packages (LIBRARY:arm64); tests run under qemu-user (qemu-aarch64).
# Without it everything is built and every test is reported as not run.
# QEMU_CPU in the environment chooses the processor: max (default), cortex-a76 (no i8mm), cortex-a72 (no dot products).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# Only this architecture's modules: a library that is missing for arm64 must not be found for the host.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_PATH} "")

# No -L: with multiarch the loader and the libraries lie in their own places in /, where qemu looks by itself.
find_program(LLADA_QEMU_ARM64 NAMES qemu-aarch64 qemu-aarch64-static DOC "emulator that runs the arm64 tests")
if(LLADA_QEMU_ARM64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${LLADA_QEMU_ARM64})
else()
  get_property(told GLOBAL PROPERTY llada_told_qemu)  # this file is read more than once
  get_property(inner GLOBAL PROPERTY IN_TRY_COMPILE)
  if(NOT told AND NOT inner)
    message(WARNING "qemu-aarch64 is not installed (Debian: qemu-user): the arm64 tests are built but will NOT be run")
    set_property(GLOBAL PROPERTY llada_told_qemu TRUE)
  endif()
endif()
