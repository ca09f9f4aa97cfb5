/* llada.h: the C API of llada.cpp, an engine for diffusion language models (LLaDA, DiffusionGemma and others).
 *
 * A diffusion model does not append tokens. It gets a canvas of masks behind the prompt, predicts all of them at once,
 * and keeps some of the predictions; each such step is one forward of the model. So an answer forms everywhere at the
 * same time, and what a program can show of it are the edits of a step. A whole program:
 *
 *     #include <llada/llada.h>
 *     #include <stdio.h>
 *
 *     int main(void) {
 *       llada_model *model;
 *       llada_engine *engine;
 *       llada_request *request;
 *       llada_result result = LLADA_RESULT_INIT;
 *       const char *role = "user", *text = "Why is the sky blue?";
 *       if (llada_model_load(LLADA_API_VERSION, "model.gguf", NULL, NULL, NULL, &model) != LLADA_OK ||
 *           llada_engine_create(model, NULL, &engine) != LLADA_OK ||
 *           llada_submit_chat(engine, &role, &text, 1, NULL, &request) != LLADA_OK ||
 *           llada_request_wait(request, -1) != LLADA_OK ||
 *           llada_request_result(request, &result) != LLADA_OK) {
 *         fprintf(stderr, "%s\n", llada_error(NULL));
 *         return 1;
 *       }
 *       printf("%s\n", result.text);
 *       llada_request_free(request), llada_engine_free(engine), llada_model_free(model);
 *     }
 *
 *     cc hello.c $(pkg-config --cflags --libs llada)
 *
 * Words: token, an id of the model's vocabulary; canvas, the tokens that are being decided; step, one forward and the
 * edits that came of it; request, one prompt and its answer; engine, a thread that computes the steps of many requests
 * together; stream, one request's part of a shared forward.
 *
 * Errors. Functions return LLADA_OK (0), a positive number where nothing is wrong and nothing was done (LLADA_END,
 * LLADA_TIMEOUT), or a negative one, and then llada_error() has one line that says what was found and what was needed.
 * No C++ exception leaves the library, it installs no signal handler, prints nothing and never ends the process for bad
 * input. Where memory cannot be had, or a thread (a limit of the system, or no memory for its stack), any of them may
 * give LLADA_ERROR_MEMORY and has changed nothing: no handle is made, no buffer is filled. An engine's thread that gets
 * none ends the requests that are under way with it and goes on with those that come.
 *
 * Handles are checked: one that was freed, is null, or is of another kind gives LLADA_ERROR_HANDLE; the number of a
 * freed handle is not used again. They may be freed in any order, and a null handle may be freed. What a handle needs
 * lives as long as the handle: an engine keeps its model.
 *
 * Threads. Every function may be called from any thread. Models, engines and options take calls from many threads at
 * once. A request is used by one thread at a time (another gets LLADA_ERROR_BUSY), except for llada_request_cancel(),
 * llada_request_done() and llada_request_free(). Calls that wait (llada_request_next(), llada_request_wait(), and those
 * that compute: llada_model_load(), llada_engine_create(), llada_logits(), llada_score(), llada_score_many(),
 * llada_decide()) hold no lock of the caller's.
 * A process that forks uses the library in one of the two only, and frees its engines before exit() where it can.
 *
 * Borrowed pointers are valid until what the function says. Texts are UTF-8 as far as the model writes UTF-8, end with
 * a NUL that their size does not count, and may contain NULs.
 *
 * Structs that the library fills begin with their size, which the caller sets (LLADA_STEP_INIT and so on). Later
 * versions append members and fill no more than the size says, so a program keeps working with a newer library. A
 * program that was compiled with a newer header than the library, or with one from before its SOVERSION, is refused
 * with LLADA_ERROR_VERSION where it starts: llada_model_load() and llada_options_create(). Nothing that is here is
 * removed or changes its meaning before the library's SOVERSION changes, as it last did with version 3 of the API.
 *
 * The model's file is mapped, not read: while a model is open its file must neither be written to nor become shorter.
 * (A file that is replaced, by rename, does no harm.) Before a request, before each of its steps, and before
 * llada_logits() and scores the file's size and time are compared with those at the time of loading. Another size is
 * LLADA_ERROR_FILE, and so is another time unless 64 samples of the file are equal (it was only touched; up to a MiB
 * the samples are all of it). What cannot be caught without a signal handler is a file cut off between that look and
 * the read: the system then sends SIGBUS.
 */
#ifndef LLADA_LLADA_H
#define LLADA_LLADA_H

#include <stddef.h>
#include <stdint.h>

#define LLADA_VERSION_MAJOR 0
#define LLADA_VERSION_MINOR 1
#define LLADA_VERSION_PATCH 0

/* Grows with every change of this file. Passed where a program starts. */
#define LLADA_API_VERSION 4

#if defined(__GNUC__)
#define LLADA_API __attribute__((visibility("default")))
#define LLADA_MUST_CHECK __attribute__((warn_unused_result))
#else
#define LLADA_API
#define LLADA_MUST_CHECK
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Results and errors ---- */

typedef int32_t llada_status;
enum {
  LLADA_OK = 0,
  LLADA_END = 1,                 /* the request has ended: no more steps */
  LLADA_TIMEOUT = 2,             /* the time is over and nothing has come; try again */
  LLADA_ERROR_INVALID = -1,      /* an argument, an option or a file's content is wrong */
  LLADA_ERROR_FAILED = -2,       /* the work failed: device, input or output */
  LLADA_ERROR_HANDLE = -3,       /* no live handle of that kind */
  LLADA_ERROR_BUSY = -4,         /* another thread uses the request; or it has not ended, where it must have */
  LLADA_ERROR_VERSION = -5,      /* compiled with an llada.h that does not go with this library */
  LLADA_ERROR_MEMORY = -6,       /* no memory, or no thread, can be had */
  LLADA_ERROR_ABORTED = -7,      /* the progress callback said so */
  LLADA_ERROR_UNSUPPORTED = -8,  /* this build or this model cannot do it */
  LLADA_ERROR_FILE = -9,         /* the model's file has changed since it was loaded */
  LLADA_ERROR_SPACE = -10        /* the buffer is too small; the size that is needed was stored */
};

/* The line about the last call that failed on this handle (options, model, engine or request), whichever thread called;
 * of a request that failed, its error. Null: about this thread's last failed call of any function. "" where none
 * failed. Valid until this thread calls llada_error() again; with null, until its next failed call. */
LLADA_API const char *llada_error(const void *handle);
/* "LLADA_ERROR_INVALID" and so on; a static text. */
LLADA_API const char *llada_status_name(llada_status status);

LLADA_API const char *llada_version(void);    /* of the library, "0.1.0"; a static text */
LLADA_API int32_t llada_api_version(void);    /* the library's LLADA_API_VERSION */
/* 1 where the library has it, 0 where not or where the name is unknown: "score", "cuda", "hexagon", "tokenizer".
 * Devices that it was built with may still be absent from the machine. */
LLADA_API int32_t llada_has_feature(const char *name);

/* As a size: the text ends with its NUL. */
#define LLADA_TEXT ((size_t)-1)

/* ---- Options: keys and values ---- */

typedef struct llada_options llada_options;

/* Where an option is used. A call refuses options of another kind. */
enum {
  LLADA_FOR_MODEL = 1,   /* llada_model_load() */
  LLADA_FOR_ENGINE = 2,  /* llada_engine_create() */
  LLADA_FOR_REQUEST = 4, /* llada_submit_*() */
  LLADA_FOR_SCORE = 8    /* llada_score(), llada_score_many() */
};

/* A request's options are those of `llada run --help-all`, with _ for -: "gen_length", "threshold", "temperature",
 * "kv"; `preset` names a set of them (exact, balanced, fast, one as published such as llada2 or sdar, or
 * a file of `llada tune`), `stop` ends the answer before a text and may be set several times, `keep_steps` keeps steps
 * for llada_request_next(). Where no preset is named it is `balanced`, as on the command line; an option replaces that
 * value of the preset, and a fixed schedule (`steps`) an unnamed one as a whole. Tokens are chosen at random where
 * `temperature` is set, by `seed` where that is set too. */
LLADA_API LLADA_MUST_CHECK llada_status llada_options_create(int32_t api_version, llada_options **options);
LLADA_API void llada_options_free(llada_options *options);
/* Both texts end with a NUL. A switch takes "true" and "false". Setting an option again replaces its value. Invalid,
 * and nothing is changed: an unknown key, a value out of range. What goes with what is looked at when a request is
 * submitted. */
LLADA_API LLADA_MUST_CHECK llada_status llada_options_set(llada_options *options, const char *key, const char *value);
LLADA_API void llada_options_clear(llada_options *options);

typedef struct llada_option_info {
  size_t size;         /* sizeof(llada_option_info) */
  int32_t used_for;    /* LLADA_FOR_... */
  int32_t is_switch;   /* takes true and false */
  const char *key;     /* all are static texts */
  const char *unit;    /* what the value is, such as "N"; "" for a switch */
  const char *values;  /* "a whole number from 1 to 1048576" */
  const char *initial; /* the value where it is not set; "" where none stands for that */
  const char *help;
  const char *group;   /* a heading, such as "Acceptance" */
} llada_option_info;
#define LLADA_OPTION_INFO_INIT { sizeof(llada_option_info), 0, 0, NULL, NULL, NULL, NULL, NULL, NULL }
/* Every option that there is, by number from 0; LLADA_END behind the last. */
LLADA_API LLADA_MUST_CHECK llada_status llada_option_describe(size_t index, llada_option_info *info);

/* ---- Models ---- */

typedef struct llada_model llada_model;

/* Called on the thread that loads, with bytes done and in all (less at the last call, too); not 0 ends the loading with
 * LLADA_ERROR_ABORTED. It must not leave by longjmp or an exception; one that is thrown ends the loading with
 * LLADA_ERROR_FAILED. */
typedef int32_t (*llada_progress)(void *user, int64_t done, int64_t total);

/* path: a GGUF file, or a Hugging Face folder. options: null, or options for models: device, threads, ctx_size,
 * attention, isa. progress may be null. */
LLADA_API LLADA_MUST_CHECK llada_status llada_model_load(int32_t api_version, const char *path,
                                                         const llada_options *options, llada_progress progress,
                                                         void *user, llada_model **model);
LLADA_API void llada_model_free(llada_model *model);

typedef struct llada_model_info {
  size_t size;              /* sizeof(llada_model_info) */
  int64_t vocabulary;       /* tokens; a row of logits has as many numbers */
  int64_t context;          /* most positions of a request: ctx_size, or what it was trained for; 0: not known */
  int64_t layers, width;
  int64_t attention_block;  /* of a block-causal model; 0: every position sees all */
  int64_t file_bytes;
  int32_t mask_token, bos_token, eos_token, eot_token; /* -1: none */
  int32_t has_tokenizer;
  int32_t threads;
  const char *architecture; /* texts live as long as the model */
  const char *device;       /* processor, instruction set, threads */
  const char *chat_style;   /* "llada", "chatml", "bailing" or "plain" */
  const char *path;
  const char *notes;        /* what of the file is not followed, a sentence in each line; "": nothing */
} llada_model_info;
#define LLADA_MODEL_INFO_INIT \
  { sizeof(llada_model_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL }
LLADA_API LLADA_MUST_CHECK llada_status llada_model_describe(const llada_model *model, llada_model_info *info);

/* ---- Text and tokens ----
 * Functions that fill a buffer store in *needed (*count) how much there is. capacity 0 asks for that alone and is
 * LLADA_OK; another capacity that is too small is LLADA_ERROR_SPACE and the buffer is as it was. A size is in bytes. */

enum {
  LLADA_WITH_BOS = 1,    /* the token that begins a text first, where the model wants one */
  LLADA_WITH_CONTROL = 2 /* texts of control tokens are these tokens, as in llada_submit_text; else they are text */
};
LLADA_API LLADA_MUST_CHECK llada_status llada_tokenize(const llada_model *model, const char *text, size_t size,
                                                       int32_t flags, int32_t *tokens, size_t capacity,
                                                       size_t *count);
enum { LLADA_SHOW_CONTROL = 1 /* the text of control tokens too */ };
/* The size does not count the NUL, for which the buffer needs one byte more. */
LLADA_API LLADA_MUST_CHECK llada_status llada_detokenize(const llada_model *model, const int32_t *tokens, size_t count,
                                                         int32_t flags, char *text, size_t capacity, size_t *needed);
/* The bytes of one token, maybe part of a character, and without a NUL; borrowed as long as the model lives. */
LLADA_API LLADA_MUST_CHECK llada_status llada_token_text(const llada_model *model, int32_t token, const char **text,
                                                         size_t *size);
/* A conversation in the model's own format, up to where the answer begins. roles: "system" (or "developer", which
 * is the same), "user", "assistant". */
LLADA_API LLADA_MUST_CHECK llada_status llada_chat_tokens(const llada_model *model, const char *const *roles,
                                                          const char *const *contents, size_t messages,
                                                          int32_t *tokens, size_t capacity, size_t *count);

/* ---- Engines and requests ---- */

typedef struct llada_engine llada_engine;
typedef struct llada_request llada_request;

/* options: null, or options for engines: streams (requests that share forwards; 1), threads (0: as many as the model),
 * row_budget (rows of a shared forward; 0: learned from those that are run), cache (bytes of kept prefixes of a
 * block-causal model). An answer does not depend on who shares its forwards. */
LLADA_API LLADA_MUST_CHECK llada_status llada_engine_create(llada_model *model, const llada_options *options,
                                                            llada_engine **engine);
/* Cancels what is under way, and waits for the forward that runs. Requests stay readable. */
LLADA_API void llada_engine_free(llada_engine *engine);

/* All of them return at once; options may be null and may be freed at once. What cannot be computed is refused here.
 *
 * A conversation: `messages` roles and contents, NUL-terminated, of which the last is the user's. Roles as of
 * llada_chat_tokens(). */
LLADA_API LLADA_MUST_CHECK llada_status llada_submit_chat(llada_engine *engine, const char *const *roles,
                                                          const char *const *contents, size_t messages,
                                                          const llada_options *options, llada_request **request);
/* A text as it is, without a chat template (`llada run --raw`): texts of control tokens in it are these tokens. */
LLADA_API LLADA_MUST_CHECK llada_status llada_submit_text(llada_engine *engine, const char *text, size_t size,
                                                          const llada_options *options, llada_request **request);
LLADA_API LLADA_MUST_CHECK llada_status llada_submit_tokens(llada_engine *engine, const int32_t *tokens, size_t count,
                                                            const llada_options *options, llada_request **request);
/* A text with gaps: <mask:N> is one of N tokens, <mask> one of one, <mask:auto> one whose length the engine chooses,
 * <mask:auto:N> the same with N tokens at most. A backslash in front takes it as text. The result is the whole text. */
LLADA_API LLADA_MUST_CHECK llada_status llada_submit_infill(llada_engine *engine, const char *text, size_t size,
                                                            const llada_options *options, llada_request **request);
/* gaps: positions in `tokens`, whose ids are ignored there. */
LLADA_API LLADA_MUST_CHECK llada_status llada_submit_gaps(llada_engine *engine, const int32_t *tokens, size_t count,
                                                          const int32_t *gaps, size_t gap_count,
                                                          const llada_options *options, llada_request **request);

/* States of a token. */
enum {
  LLADA_TOKEN_FIXED = 0,   /* of the text that was given; infilling only */
  LLADA_TOKEN_MASKED = 1,  /* not decided */
  LLADA_TOKEN_VISIBLE = 2, /* decided, and may still change */
  LLADA_TOKEN_STABLE = 3   /* final */
};

/* One step. Positions count from the first token of the answer; when infilling, of the whole text. The arrays of
 * `count` are what there is after the step. All is borrowed until the next call for this request but for cancel and
 * done. */
typedef struct llada_step {
  size_t size;                /* sizeof(llada_step) */
  int64_t number;             /* from 0 */
  int64_t committed;          /* so many first tokens are final; it only grows */
  int64_t masked;             /* tokens that are not decided yet */
  size_t edit_count;          /* positions that changed in this step, ascending: */
  const int32_t *edits;
  size_t count;               /* tokens: */
  const int32_t *tokens;      /* the mask's id where masked */
  const int32_t *states;      /* LLADA_TOKEN_... */
  const float *confidences;   /* probability when it was decided, 0 to 1; 0 while masked, 1 for what is fixed */
  const char *const *texts;   /* of each token: bytes without a NUL, maybe part of a character; a mask is U+2591 */
  const size_t *text_sizes;   /* both null where the model has no tokenizer */
  const char *text;           /* of all; a mask is U+2591, and what follows the end of the answer is left out */
  size_t text_size;
} llada_step;
#define LLADA_STEP_INIT { sizeof(llada_step), 0, 0, 0, 0, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0 }

/* The next step; waits for it, timeout_ms at most (-1: as long as it takes, 0: not at all). LLADA_END once the request
 * has ended well, its error where it failed, LLADA_TIMEOUT. Only for requests submitted with keep_steps=true. */
LLADA_API LLADA_MUST_CHECK llada_status llada_request_next(llada_request *request, int32_t timeout_ms,
                                                           llada_step *step);
/* Until the request has ended. LLADA_OK: it has a result, a part of one where it was cancelled. Its error where it
 * failed. */
LLADA_API LLADA_MUST_CHECK llada_status llada_request_wait(llada_request *request, int32_t timeout_ms);
/* 1: ended, 0: not yet; negative: LLADA_ERROR_HANDLE. Any thread. */
LLADA_API int32_t llada_request_done(const llada_request *request);
/* No further forward after the one that runs. Nothing where it has ended. Any thread. */
LLADA_API llada_status llada_request_cancel(llada_request *request);
/* Cancels it where it has not ended. A thread that waits for it returns. Not while another thread reads what it
 * borrowed from the request. */
LLADA_API void llada_request_free(llada_request *request);

/* Why a request ended. 0: a library before version 2 of the API, which does not say. */
enum {
  LLADA_FINISH_STOP = 1,        /* an end token, or a `stop` */
  LLADA_FINISH_LENGTH = 2,      /* neither came within gen_length */
  LLADA_FINISH_INTERRUPTED = 3, /* it was cancelled */
  LLADA_FINISH_FILLED = 4       /* infilling: every gap */
};

typedef struct llada_result {
  size_t size;               /* sizeof(llada_result) */
  const char *text;          /* of the answer; when infilling of everything. U+2591 for what was never decided */
  size_t text_size;
  size_t count;              /* tokens: all that were generated, what follows the end included; infilling: everything */
  const int32_t *tokens;
  const int32_t *states;     /* LLADA_TOKEN_... */
  const float *confidences;  /* as in llada_step */
  const char *stopped_by;    /* which `stop` ended it; "" for none */
  size_t stopped_by_size;
  int64_t prompt_tokens;
  int64_t content_tokens;    /* decided tokens of the answer */
  int64_t forwards;          /* of the model */
  int64_t steps;
  int64_t rows;              /* positions computed, over all forwards */
  int64_t reused_positions;  /* of the prompt, which an earlier request had computed */
  double seconds;            /* measured from its first forward's beginning to its end */
  uint64_t seed;             /* where random numbers took part */
  int32_t has_seed;
  int32_t cancelled;
  /* From version 2 of the API. Of the forwards and rows above: */
  int64_t full_forwards;     /* forwards that computed every position they read */
  int64_t sparse_forwards;   /* forwards beside a step's own, which ask about decided tokens again */
  int64_t logit_rows;        /* rows whose logits were computed */
  int64_t trial_rows;        /* rows that asked what would be predicted if a token were masked */
  int64_t drafts_proposed;   /* predictions of later blocks that were kept, */
  int64_t drafts_accepted;   /* and those that a fresh prediction confirmed */
  int64_t revisions_made;    /* decided tokens that were looked at again, */
  int64_t revisions_changed; /* and those that did not stay */
  int64_t committed_tokens;  /* masks that became tokens, those behind the answer's end too, less those masked again */
  int64_t kv_bytes;          /* of the request's keys and values */
  uint64_t canvas_hash;      /* equal canvases, equal hashes, on every machine */
  int32_t finish_reason;     /* LLADA_FINISH_... */
  int32_t stopped_early;     /* an end token came, and masks behind it were left */
} llada_result;
#define LLADA_RESULT_INIT                                                                                            \
  { sizeof(llada_result), NULL, 0, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0,   \
    0, 0, 0, 0, 0, 0, 0 }
/* Of a request that has ended well; LLADA_ERROR_BUSY before, its error where it failed. Borrowed until
 * llada_request_free(). */
LLADA_API LLADA_MUST_CHECK llada_status llada_request_result(llada_request *request, llada_result *result);

typedef struct llada_engine_stats {
  size_t size;       /* sizeof(llada_engine_stats) */
  int64_t forwards;  /* shared ones */
  int64_t parts;     /* of requests in them */
  int64_t rows;
  int64_t row_budget;
  /* From version 2 of the API: */
  int64_t most_rows;        /* of one forward of several requests */
  int64_t most_passed_over; /* forwards in a row that some request was not part of */
} llada_engine_stats;
#define LLADA_ENGINE_STATS_INIT { sizeof(llada_engine_stats), 0, 0, 0, 0, 0, 0 }
LLADA_API LLADA_MUST_CHECK llada_status llada_engine_describe(const llada_engine *engine, llada_engine_stats *stats);

/* ---- Numbers of the model ----
 * These compute on the caller's thread, one call of a model at a time; engines of the model go on beside them. */

/* One forward over `tokens` as they are, masks among them. logits: `position_count` rows of `vocabulary` numbers;
 * positions ascend. capacity: floats in the buffer. */
LLADA_API LLADA_MUST_CHECK llada_status llada_logits(llada_model *model, const int32_t *tokens, size_t count,
                                                     const int32_t *positions, size_t position_count, float *logits,
                                                     size_t capacity);

typedef struct llada_score_result {
  size_t size;             /* sizeof(llada_score_result) */
  double log_probability;  /* of the continuation behind the prompt, natural logarithm, summed over its tokens */
  int64_t tokens;          /* of the continuation */
  int64_t forwards;        /* of the whole call */
  int32_t greedy;          /* 1: decoding greedily in that order writes it, 0: not, -1: the method cannot say */
} llada_score_result;
#define LLADA_SCORE_RESULT_INIT { sizeof(llada_score_result), 0.0, 0, 0, 0 }
/* How likely the model finds a continuation, whatever comes behind it; a whole answer of a conversation ends with its
 * eot_token (llada_model_info). options: null, or options for scoring: method (chain), draws, groups, order, seed,
 * cfg_scale. */
LLADA_API LLADA_MUST_CHECK llada_status llada_score(llada_model *model, const int32_t *prompt, size_t prompt_count,
                                                    const int32_t *continuation, size_t continuation_count,
                                                    const llada_options *options, llada_score_result *score);
/* The same for several continuations of one prompt, such as the choices of a question: each has the score that it has
 * alone, and a forward that several of them need is computed once. continuations[i] has counts[i] tokens. scores: as
 * many structs one behind the other, of which the first one's size is all others' too. From version 2 of the API. */
LLADA_API LLADA_MUST_CHECK llada_status llada_score_many(llada_model *model, const int32_t *prompt, size_t prompt_count,
                                                         const int32_t *const *continuations, const size_t *counts,
                                                         size_t continuation_count, const llada_options *options,
                                                         llada_score_result *scores);

/* Decisions: typed questions about a text, each answered by a probability for every option, in one forward and without
 * a text. request: JSON, as the body of POST /v1/decisions or of POST /v1/systemone (docs/decide.md). *answer: JSON, as
 * the reply; borrowed until this thread calls llada_decide() again, or ends. From version 4 of the API. */
LLADA_API LLADA_MUST_CHECK llada_status llada_decide(llada_model *model, const char *request, size_t size,
                                                     const char **answer, size_t *answer_size);

#ifdef __cplusplus
}
#endif
#endif
