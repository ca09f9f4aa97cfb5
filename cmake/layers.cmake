# Code that is not hot (tests, the command line) is compiled for a short build: optimising it costs more than it saves.
set(LLADA_QUICK_BUILD -O1)
set(LLADA_TEST_OPTIONS)
if(LLADA_SANITIZE)
  set(LLADA_QUICK_BUILD -O0)
  if(LLADA_SANITIZE MATCHES undefined)
    # A third of the compile time of test code, which is not what is looked at.
    set(LLADA_TEST_OPTIONS -fno-sanitize=undefined)
  endif()
endif()

# Precompiled headers shorten the sanitizer and cross builds of CI by a fifth. Not for release: there every file shows
# that it includes what it uses.
option(LLADA_PCH "precompile the headers that most files include" OFF)
function(llada_pch name)  # llada_pch(name OPTIONS flags... HEADERS headers... LIBS libraries...)
  cmake_parse_arguments(ARG "" "" "OPTIONS;HEADERS;LIBS" ${ARGN})
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cc "")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE llada_options fmt::fmt ${ARG_LIBS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${name} PRIVATE <algorithm> <array> <cmath> <functional> <map> <memory> <optional> <span> <string>
                            <string_view> <vector> <fmt/format.h> <fmt/ranges.h> ${ARG_HEADERS})
endfunction()

# Several files of a target in one translation unit: the headers of JSON, the command line and GoogleTest are most of a
# small file's compile time. ALONE names files that cannot share one (two with a local of the same name). Always for the
# tests and the command line, elsewhere with LLADA_UNITY.
option(LLADA_UNITY "compile the files of every target together (continuous integration; not for release, as above)" OFF)
function(llada_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# llada_layer(name DEPS other layers... LIBS system libraries... EXCLUDE files... ALONE files...): one static library for every .cc below the folder.
function(llada_layer name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS;EXCLUDE;ALONE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  foreach(excluded IN LISTS ARG_EXCLUDE)
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${excluded})
  endforeach()
  string(REPLACE "/" "_" target llada_${name})
  if(sources)
    add_library(${target} STATIC ${sources})
    if(LLADA_UNITY OR name STREQUAL "cli")
      llada_unity(${target} ${ARG_ALONE})
    endif()
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(${target} ${scope} llada_options)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${target} ${scope} llada_${dep})
  endforeach()
  target_link_libraries(${target} ${scope} ${ARG_LIBS})
  if(LLADA_FUZZERS AND sources AND name MATCHES "^(engine|sched|decode|graph|models|memory|devices/.*)$")
    target_compile_options(${target} PRIVATE -O0)  # fuzzers spend their time in the readers of formats and text
  endif()
  if(LLADA_PCH AND sources AND NOT name MATCHES "^(kernels|cli|bench)$")  # those set flags of their own
    # Layers that compute little are compiled without optimisation under a sanitizer: two fifths of their compile time.
    set(pch llada_layer_pch)
    set(options)
    if(LLADA_SANITIZE AND NOT LLADA_FUZZERS AND name MATCHES "^(formats|eval|engine|bench|models|devices/(hexagon|faulty))$")
      set(pch llada_quick_pch)
      set(options ${LLADA_QUICK_BUILD})
    endif()
    if(NOT TARGET ${pch})
      llada_pch(${pch} OPTIONS ${options})
    endif()
    target_compile_options(${target} PRIVATE ${options})
    target_precompile_headers(${target} REUSE_FROM ${pch})
  endif()
endfunction()

# llada_tests(name DEPS layers... ALONE files...): one GoogleTest program from every .cc of the folder; each test is a ctest entry.
function(llada_tests name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS;ALONE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${name} ${sources})
  llada_unity(test_${name} ${ARG_ALONE})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(test_${name} PRIVATE llada_${dep})
  endforeach()
  target_link_libraries(test_${name} PRIVATE ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  target_compile_options(test_${name} PRIVATE ${LLADA_QUICK_BUILD} ${LLADA_TEST_OPTIONS})
  # In every preset: tests share translation units anyway. A compiler cache has no use for precompiled headers.
  if(LLADA_PCH OR NOT CMAKE_CXX_COMPILER_LAUNCHER)
    if(NOT TARGET llada_test_pch)
      find_package(nlohmann_json REQUIRED)
      llada_pch(llada_test_pch OPTIONS ${LLADA_QUICK_BUILD} ${LLADA_TEST_OPTIONS}
                HEADERS <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp> LIBS GTest::gmock nlohmann_json::nlohmann_json)
    endif()
    target_precompile_headers(test_${name} REUSE_FROM llada_test_pch)
  endif()
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(test_${name} PRIVATE LLADA_SOURCE_DIR="${CMAKE_SOURCE_DIR}" LLADA_BINARY_DIR="${CMAKE_BINARY_DIR}")
  if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
    add_test(NAME ${name} COMMAND test_${name})  # cannot run here: listed as "Not Run (Disabled)", never as passed
    set_tests_properties(${name} PROPERTIES DISABLED TRUE)
    return()
  endif()
  gtest_discover_tests(test_${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 600 SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
endfunction()
