# Writes the manual pages and completions that PROGRAM, called NAME, prints below OUT: man1/*.1(.gz where GZIP is a program),
# bash/NAME, zsh/_NAME, fish/NAME.fish.
function(print_to file)
  execute_process(COMMAND ${PROGRAM} help ${ARGN} OUTPUT_FILE ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${OUT})
file(MAKE_DIRECTORY ${OUT}/man1 ${OUT}/bash ${OUT}/zsh ${OUT}/fish)
print_to(${OUT}/man1/${NAME}.1 --man)
file(STRINGS ${OUT}/man1/${NAME}.1 commands REGEX "^\\.BR llada")  # SEE ALSO: one page for each
list(TRANSFORM commands REPLACE "[\\]-" "-")
list(FILTER commands INCLUDE REGEX "^\\.BR ${NAME}-[a-z]+ ")
list(TRANSFORM commands REPLACE "^\\.BR ${NAME}-([a-z]+).*" "\\1")
foreach(command IN LISTS commands)
  print_to(${OUT}/man1/${NAME}-${command}.1 --man ${command})
endforeach()
if(GZIP)
  file(GLOB pages ${OUT}/man1/*.1)
  execute_process(COMMAND ${GZIP} -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)
endif()
print_to(${OUT}/bash/${NAME} --completion bash)
print_to(${OUT}/zsh/_${NAME} --completion zsh)
print_to(${OUT}/fish/${NAME}.fish --completion fish)
file(TOUCH ${OUT}/done)
