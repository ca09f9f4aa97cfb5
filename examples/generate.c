/* generate MODEL PROMPT [KEY=VALUE ...]: an answer while it forms, each step a line on stderr, the answer on stdout. */
#include <llada/llada.h>
#include <stdio.h>
#include <string.h>

static int failed(void) {
  fprintf(stderr, "%s\n", llada_error(NULL));
  return 1;
}

int main(int argc, char **argv) {
  if (argc < 3) return fprintf(stderr, "usage: generate MODEL PROMPT [KEY=VALUE ...]\n"), 2;
  llada_options *options;
  llada_model *model;
  llada_engine *engine;
  llada_request *request;
  llada_step step = LLADA_STEP_INIT;
  llada_result result = LLADA_RESULT_INIT;
  const char *role = "user", *prompt = argv[2];

  if (llada_options_create(LLADA_API_VERSION, &options) != LLADA_OK) return failed();
  if (llada_options_set(options, "keep_steps", "true") != LLADA_OK) return failed();
  for (int i = 3; i < argc; ++i) {
    char *equals = strchr(argv[i], '=');
    if (equals == NULL) return fprintf(stderr, "%s: needed KEY=VALUE\n", argv[i]), 2;
    *equals = '\0';
    if (llada_options_set(options, argv[i], equals + 1) != LLADA_OK) return failed();
  }
  if (llada_model_load(LLADA_API_VERSION, argv[1], NULL, NULL, NULL, &model) != LLADA_OK) return failed();
  if (llada_engine_create(model, NULL, &engine) != LLADA_OK) return failed();
  if (llada_submit_chat(engine, &role, &prompt, 1, options, &request) != LLADA_OK) return failed();

  while (llada_request_next(request, -1, &step) == LLADA_OK)
    fprintf(stderr, "step %d, %d left: %s\n", (int)step.number, (int)step.masked, step.text);
  if (llada_request_wait(request, -1) != LLADA_OK) return failed();
  if (llada_request_result(request, &result) != LLADA_OK) return failed();
  printf("%s\n", result.text);
  llada_request_free(request), llada_engine_free(engine), llada_model_free(model), llada_options_free(options);
}
