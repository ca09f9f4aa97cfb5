# What is installed, in components as a distribution splits them: `library` (libllada.so.1), `dev` (headers, CMake and
# pkg-config files), `tools` (llada, its manual pages and completions), `study` (the same of llada-study). Packages of them:
# cpack (packages.cmake).
include(CMakePackageConfigHelpers)

set(programs llada)
set(component_of_llada tools)
if(NOT LLADA_STATIC AND NOT WIN32)
  list(APPEND programs llada-study)
  set(component_of_llada-study study)
endif()
foreach(program IN LISTS programs)
  install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component_of_${program}})
endforeach()
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tools)
# The server's page has them inside.
foreach(library IN ITEMS marked dompurify katex)
  install(FILES third_party/${library}/LICENCE RENAME ${library} DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences COMPONENT tools)
endforeach()

if(LLADA_SHARED)
  install(TARGETS llada_shared EXPORT llada
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT dev)
  install(DIRECTORY include/llada DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
  set(config ${CMAKE_INSTALL_LIBDIR}/cmake/llada)
  install(EXPORT llada FILE llada-targets.cmake NAMESPACE llada:: DESTINATION ${config} COMPONENT dev)
  configure_package_config_file(cmake/llada-config.cmake.in ${PROJECT_BINARY_DIR}/llada-config.cmake
                                INSTALL_DESTINATION ${config} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/llada-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/llada-config.cmake ${PROJECT_BINARY_DIR}/llada-config-version.cmake
          DESTINATION ${config} COMPONENT dev)
  # Paths from the file's own place, so that a tree can be installed with another prefix, or moved.
  cmake_path(SET pkgconfig ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  cmake_path(ABSOLUTE_PATH pkgconfig BASE_DIRECTORY /prefix OUTPUT_VARIABLE pkgconfig_at)
  file(RELATIVE_PATH LLADA_PREFIX_FROM_PC ${pkgconfig_at} /prefix)
  configure_file(cmake/llada.pc.in ${PROJECT_BINARY_DIR}/llada.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/llada.pc DESTINATION ${pkgconfig} COMPONENT dev)
endif()

# Manual pages and completions are what the programs print. A cross build needs an emulator for them.
find_program(LLADA_GZIP gzip DOC "compresses manual pages; empty: they stay as they are")
if((NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR) AND NOT LLADA_SANITIZE AND NOT LLADA_FUZZERS)
  set(manuals)
  foreach(program IN LISTS programs)
    set(component ${component_of_${program}})
    set(manual ${PROJECT_BINARY_DIR}/manual/${program})
    add_custom_command(OUTPUT ${manual}/done
      COMMAND ${CMAKE_COMMAND} "-DPROGRAM=${CMAKE_CROSSCOMPILING_EMULATOR};$<TARGET_FILE:${program}>" -DNAME=${program}
              -DGZIP=${LLADA_GZIP} -DOUT=${manual} -P ${PROJECT_SOURCE_DIR}/cmake/manual.cmake
      DEPENDS ${program} ${PROJECT_SOURCE_DIR}/cmake/manual.cmake VERBATIM)
    list(APPEND manuals ${manual}/done)
    install(DIRECTORY ${manual}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT ${component})
    install(DIRECTORY ${manual}/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
            COMPONENT ${component})
    install(DIRECTORY ${manual}/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT ${component})
    install(DIRECTORY ${manual}/fish/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
            COMPONENT ${component})
  endforeach()
  # A small model for a first try, where the program looks for it from its own place: bin/../share/llada.
  set(shipped ${PROJECT_BINARY_DIR}/share/llada/tiny-llada.gguf)
  set(original ${PROJECT_SOURCE_DIR}/models/tiny-llada)
  add_custom_command(OUTPUT ${shipped}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/share/llada
    COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:llada> convert ${original} ${shipped} --type q4_0
    DEPENDS llada ${original}/model.safetensors VERBATIM)
  if(EXISTS ${original})  # not in a Python source archive
    install(FILES ${shipped} DESTINATION ${CMAKE_INSTALL_DATADIR}/llada COMPONENT tools)
    add_custom_target(llada_shipped ALL DEPENDS ${shipped})
  endif()
  add_custom_target(llada_manual ALL DEPENDS ${manuals})
endif()
include(cmake/packages.cmake)
