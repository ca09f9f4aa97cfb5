# Code that is not hot (tests, the command line, the server's JSON) is compiled for a short build: optimising it costs
# more than it saves.
set(LLADA_QUICK_BUILD -O1)
set(LLADA_TEST_OPTIONS)
set(LLADA_FEWER_CHECKS)
if(LLADA_SANITIZE)
  set(LLADA_QUICK_BUILD -O0)
  if(LLADA_SANITIZE MATCHES undefined)
    # A quarter of the compile time of layers that map no files; a null pointer ends a run of the address sanitizer too.
    set(LLADA_FEWER_CHECKS -fno-sanitize=null,object-size,vptr,nonnull-attribute,returns-nonnull-attribute,alignment)
    # A third of the compile time of test code, which is not what is looked at.
    set(LLADA_TEST_OPTIONS -fno-sanitize=undefined)
  endif()
endif()

# Precompiled headers shorten the presets' builds by a tenth to a fifth.
option(LLADA_PCH "precompile the headers that most files include" OFF)
function(llada_pch name)  # llada_pch(name OPTIONS flags... HEADERS headers... LIBS libraries...)
  cmake_parse_arguments(ARG "" "" "OPTIONS;HEADERS;LIBS" ${ARGN})
  file(WRITE ${PROJECT_BINARY_DIR}/${name}.cc "")
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cc)
  set_target_properties(${name} PROPERTIES LLADA_ANYWHERE ON)
  target_link_libraries(${name} PRIVATE llada_options ${LLADA_FMT} ${ARG_LIBS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${name} PRIVATE <algorithm> <array> <cmath> <functional> <map> <memory> <optional> <span> <string>
                            <string_view> <vector> <fmt/format.h> <fmt/ranges.h> ${ARG_HEADERS})
endfunction()

# Several files of a target in one translation unit: the headers of JSON, the command line and GoogleTest are most of a
# small file's compile time. Always for the tests and for layers made of small files that all include JSON, elsewhere
# with LLADA_UNITY. So no two files of a folder may use a name for two things.
# Half of a unit's time is its headers: large units are the shortest build. A layer is one, as two cores are busy with
# two layers, but where the compiler would need more than 900 MB of memory for it;
# a test program has as many as that.
option(LLADA_UNITY "compile the files of every target together, as the presets do" OFF)
function(llada_unity target files)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
endfunction()

# llada_layer(name DEPS other layers... LIBS system libraries... EXCLUDE files... UNITS number FOLDERS folders...): one static
# library for every .cc of the folder, compiled in so many units (1), or of those folders below it, a unit each.
function(llada_layer name)
  cmake_parse_arguments(ARG "" "UNITS" "DEPS;LIBS;EXCLUDE;FOLDERS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  foreach(folder IN LISTS ARG_FOLDERS)
    file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cc)
    set_source_files_properties(${files} PROPERTIES UNITY_GROUP ${folder})
    list(APPEND sources ${files})
  endforeach()
  foreach(excluded IN LISTS ARG_EXCLUDE)
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${excluded})
  endforeach()
  string(REPLACE "/" "_" target llada_${name})
  if(sources)
    add_library(${target} STATIC ${sources})
    if(LLADA_UNITY OR name MATCHES "^(cli|engine|eval|bench|lab|formats|text)$")
      llada_unity(${target} 0)
      if(ARG_UNITS)
        list(LENGTH sources count)
        math(EXPR size "(${count} + ${ARG_UNITS} - 1) / ${ARG_UNITS}")
        llada_unity(${target} ${size})
      endif()
      if(ARG_FOLDERS)
        set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
      endif()
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
  set(checks)
  if(NOT name MATCHES "^(base|json|tensor|formats|text|memory|kernels|devices/cpu)$")
    set(checks ${LLADA_FEWER_CHECKS})
  endif()
  if(sources)
    target_compile_options(${target} PRIVATE ${checks})
  endif()
  if(LLADA_FUZZERS AND sources AND name MATCHES "^(engine|decode|graph|models|devices/(cpu|cuda|hexagon))$")
    target_compile_options(${target} PRIVATE -O0)  # fuzzers spend their time in readers, and in planning what was read
  endif()
  # Layers that compute little; more of them under a sanitizer, where that is two fifths of their compile time.
  set(options)
  if(LLADA_SANITIZE AND NOT LLADA_FUZZERS AND
     name MATCHES "^(cli|formats|eval|engine|bench|lab|lab/bench|lab/hexagon|models|serve|wire|hub|devices/hexagon)$")
    set(options ${LLADA_QUICK_BUILD})
  elseif(name MATCHES "^(cli|lab)$" OR (NOT LLADA_SANITIZE AND
         name MATCHES "^(api|engine|eval|formats|graph|hub|memory|models|serve|study|wire|lab/bench|lab/hexagon|devices/hexagon)$"))
    set(options ${LLADA_QUICK_BUILD})
  endif()
  if(sources)
    target_compile_options(${target} PRIVATE ${options})
  endif()
  if(LLADA_PCH AND sources AND NOT name STREQUAL "kernels")  # its files have flags of their own
    string(MD5 flags "${options};${checks}")
    string(SUBSTRING ${flags} 0 6 flags)
    if(NOT TARGET llada_pch_${flags})
      llada_pch(llada_pch_${flags} OPTIONS ${options} ${checks})
    endif()
    target_precompile_headers(${target} REUSE_FROM llada_pch_${flags})
  endif()
endfunction()

# llada_tests(name DEPS layers... LABELS labels...): one GoogleTest program from every .cc of the folder;
# each test is a ctest entry with these labels, which the sources change (test_labels.cmake). The targets tests_threads
# and tests_emulated build the programs that the stages with those tests need; tests_quick those with short tests.
add_custom_target(tests_quick)
add_custom_target(tests_threads)
add_custom_target(tests_emulated)
function(llada_tests name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS;LABELS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${name} ${sources} $<TARGET_OBJECTS:llada_hostile_memory>)
  target_link_libraries(test_${name} PRIVATE llada_base)
  llada_unity(test_${name} 20)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(test_${name} PRIVATE llada_${dep})
  endforeach()
  target_link_libraries(test_${name} PRIVATE ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  target_compile_options(test_${name} PRIVATE ${LLADA_QUICK_BUILD} ${LLADA_TEST_OPTIONS})
  # In every preset: tests share translation units anyway.
  if(NOT TARGET llada_test_pch)
    find_package(nlohmann_json REQUIRED)
    llada_pch(llada_test_pch OPTIONS ${LLADA_QUICK_BUILD} ${LLADA_TEST_OPTIONS}
              HEADERS <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp> LIBS GTest::gmock nlohmann_json::nlohmann_json)
    set_target_properties(llada_test_pch PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
  # A library's flag for it differs from a program's, and precompiled headers need one.
  set_target_properties(test_${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_precompile_headers(test_${name} REUSE_FROM llada_test_pch)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(test_${name} PRIVATE LLADA_SOURCE_DIR="${PROJECT_SOURCE_DIR}" LLADA_BINARY_DIR="${PROJECT_BINARY_DIR}")
  if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
    add_test(NAME ${name} COMMAND test_${name})  # cannot run here: listed as "Not Run (Disabled)", never as passed
    set_tests_properties(${name} PROPERTIES DISABLED TRUE)
    return()
  endif()
  gtest_discover_tests(test_${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 600 SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake
       "set(llada_labels_cmake \"${CMAKE_COMMAND}\")\nset(llada_labels_program ${name})\nset(llada_labels_target test_${name})\nset(llada_labels_defaults \"${ARG_LABELS}\")\n"
       "set(llada_labels_sources \"${sources}\")\nset(llada_labels_tests \"${CMAKE_CURRENT_BINARY_DIR}/test_${name}[1]_tests.cmake\")\n"
       "include(\"${PROJECT_SOURCE_DIR}/cmake/test_labels.cmake\")\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake)
  foreach(source IN LISTS sources)
    file(STRINGS ${source} marked REGEX "^// labels.*[: ]threads")
    if(marked OR "threads" IN_LIST ARG_LABELS)
      add_dependencies(tests_threads test_${name})
      break()
    endif()
  endforeach()
  if(NOT "device" IN_LIST ARG_LABELS AND NOT "long" IN_LIST ARG_LABELS)
    add_dependencies(tests_quick test_${name})
  endif()
  if(NOT "native" IN_LIST ARG_LABELS)
    add_dependencies(tests_emulated test_${name})
  endif()
endfunction()
