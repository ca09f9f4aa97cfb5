/* llada.h is C99 without extensions: this file is compiled as that, and its answers are compared with C++'s. */
#include <llada/llada.h>

size_t size_of_step_in_c(void) {
  llada_step step = LLADA_STEP_INIT;
  return step.size;
}
size_t size_of_result_in_c(void) {
  llada_result result = LLADA_RESULT_INIT;
  return result.size;
}
