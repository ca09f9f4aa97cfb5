# The symbols that LIBRARY shows are the functions of HEADER and nothing else. cmake -DNM= -DLIBRARY= -DHEADER= -P this
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^ \n]+\n" shown "${symbols}")
list(TRANSFORM shown STRIP)
list(REMOVE_ITEM shown LLADA_1)  # the version itself
list(TRANSFORM shown REPLACE "@@LLADA_1$" "")
file(READ ${HEADER} text)
string(REGEX MATCHALL "LLADA_API [^;]*[ *]llada_[a-z_]+\\(" declared "${text}")
list(TRANSFORM declared REPLACE ".*[ *](llada_[a-z_]+)\\($" "\\1")
list(SORT shown)
list(SORT declared)
if(NOT declared OR NOT shown STREQUAL declared)
  message(FATAL_ERROR "shown: ${shown}\ndeclared: ${declared}")
endif()
