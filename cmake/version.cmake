# Writes OUT, a header with the commit of SOURCE and what compiled it (COMPILER), where it would differ. Run at every
# build: a commit does not touch what CMake watches.
execute_process(COMMAND git describe --always --dirty --abbrev=10 WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit unknown)
endif()
set(text "#pragma once\ninline constexpr const char* kCommit = \"${commit}\";\ninline constexpr const char* kCompiler = \"${COMPILER}\";\n")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
