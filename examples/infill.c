/* infill MODEL 'Ken has 20+6=<mask:2> puzzles.': fills the gaps, and says how sure the model was of each token. */
#include <llada/llada.h>
#include <stdio.h>

static int failed(void) {
  fprintf(stderr, "%s\n", llada_error(NULL));
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 3) return fprintf(stderr, "usage: infill MODEL TEXT\n"), 2;
  llada_model *model;
  llada_engine *engine;
  llada_request *request;
  llada_result result = LLADA_RESULT_INIT;

  if (llada_model_load(LLADA_API_VERSION, argv[1], NULL, NULL, NULL, &model) != LLADA_OK) return failed();
  if (llada_engine_create(model, NULL, &engine) != LLADA_OK) return failed();
  if (llada_submit_infill(engine, argv[2], LLADA_TEXT, NULL, &request) != LLADA_OK) return failed();
  if (llada_request_wait(request, -1) != LLADA_OK) return failed();
  if (llada_request_result(request, &result) != LLADA_OK) return failed();

  printf("%s\n", result.text);
  for (size_t i = 0; i < result.count; ++i) {
    const char *text;
    size_t size;
    if (result.states[i] == LLADA_TOKEN_FIXED) continue;
    if (llada_token_text(model, result.tokens[i], &text, &size) != LLADA_OK) return failed();
    printf("  %.*s %.2f\n", (int)size, text, result.confidences[i]);
  }
  llada_request_free(request), llada_engine_free(engine), llada_model_free(model);
}
