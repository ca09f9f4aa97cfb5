// The routes: the functions that answer them, in files of their own, and their table. A new route is declared here and
// stands in the table of routes.cc, in openapi.json where it takes a body, and in docs/server.md.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "serve/work/ask.h"
#include "serve/work/service.h"

namespace llada::serve {

inline constexpr std::string_view kPathId = "{id}";

struct Route {
  std::string_view method, path;  // the path may have kPathId in it, as in OpenAPI
  void (*answer)(Service& service, const std::shared_ptr<Exchange>& exchange);
  bool open = false;      // without a key
  bool early = false;     // while the model is loading, too
  bool at_once = false;   // by the thread that serves connections: it waits for nothing and takes no time
  bool streams = false;   // the answer can be a stream
  bool in_batch = false;  // requests of a batch may have it as their url
};
std::span<const Route> routes();
bool has_path(const Route& route, std::string_view path);
// The route of a request, which may leave out /v1; null: none.
const Route* find_route(std::string_view method, std::string_view path);
// What a path that a route has says in the place of {id}.
std::string path_id(std::string_view route, std::string_view path);

// The error of a path that no route has: another route that the client may have meant.
ApiError missing_route(std::string_view path);

// Whether it is about a text that the model's context has no room for, and less of which would go.
bool is_too_long(const Service& service, const Error& error);

// Routes without a body.
HttpReply health(Service& service, const HttpRequest& request);
HttpReply readiness(Service& service, const HttpRequest& request);
HttpReply models(Service& service, const HttpRequest& request);
HttpReply one_model(Service& service, const HttpRequest& request);
HttpReply properties(Service& service, const HttpRequest& request);
HttpReply slots(Service& service, const HttpRequest& request);
HttpReply decoding_options(Service& service, const HttpRequest& request);
HttpReply metrics(Service& service, const HttpRequest& request);
HttpReply front_page(Service& service, const HttpRequest& request);
HttpReply openapi(Service& service, const HttpRequest& request);
HttpReply tokenizer_info(Service& service, const HttpRequest& request);

// Files and batches that are kept (route_batches.cc).
void add_file(Service& service, const std::shared_ptr<Exchange>& exchange);
HttpReply list_files(Service& service, const HttpRequest& request);
HttpReply one_file(Service& service, const HttpRequest& request);
HttpReply file_content(Service& service, const HttpRequest& request);
HttpReply remove_file(Service& service, const HttpRequest& request);
void add_batch(Service& service, const std::shared_ptr<Exchange>& exchange);
HttpReply list_batches(Service& service, const HttpRequest& request);
HttpReply one_batch(Service& service, const HttpRequest& request);
HttpReply cancel_batch(Service& service, const HttpRequest& request);

HttpReply ollama_version(Service& service, const HttpRequest& request);
HttpReply ollama_tags(Service& service, const HttpRequest& request);
HttpReply ollama_running(Service& service, const HttpRequest& request);

// Ollama's, which answer at once where there is no text.
void ollama_chat(Service& service, const std::shared_ptr<Exchange>& exchange);
void ollama_generate(Service& service, const std::shared_ptr<Exchange>& exchange);

// Decisions (engine/decide.h): OpenAI's route, and that of TypeSafe's System One.
void decisions(Service& service, const std::shared_ptr<Exchange>& exchange);
void systemone(Service& service, const std::shared_ptr<Exchange>& exchange);

// Routes whose body is answered at once.
Answered<HttpReply> tokenize(Service& service, Fields body);
Answered<HttpReply> detokenize(Service& service, Fields body);
Answered<HttpReply> apply_template(Service& service, Fields body);
Answered<HttpReply> count_tokens(Service& service, Fields body);
Answered<HttpReply> ollama_show(Service& service, Fields body);

// Answers with the log-probabilities of texts behind a prompt.
void score(Service& service, const std::shared_ptr<Exchange>& exchange);

// Routes whose body asks for answers of the model.
Answered<Ask> read_chat(Service& service, Fields body);
Answered<Ask> read_completion(Service& service, Fields body);
Answered<Ask> read_response(Service& service, Fields body);
Answered<Ask> read_message_request(Service& service, Fields body);   // Anthropic's
Answered<Ask> read_llama_completion(Service& service, Fields body);  // llama-server's {prompt, n_predict, ...}
void ignore_llama_settings(Fields& body);                            // of its time and of editors, in any request
// {prompt, suffix, max_tokens, ...}: the gap between the two has max_tokens tokens.
Answered<Ask> read_fim(Service& service, Fields body);
Answered<Ask> read_between(Service& service, Fields body, std::optional<FormWish> form);  // the form that it shall have
// {text: "... <mask:4> ..."}, gaps anywhere; or llama-server's {input_prefix, input_suffix, input_extra, prompt,
// n_predict}, a gap at the cursor.
Answered<Ask> read_infill(Service& service, Fields body);

}  // namespace llada::serve
