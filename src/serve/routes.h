// The routes, each a function that answers, in files of their own. A new route is declared here, stands in the table of
// service.cc, in openapi.cc and in docs/server.md.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "serve/service.h"

namespace llada::serve {

using Answer = void (*)(Service& service, const std::shared_ptr<Exchange>& exchange);

inline constexpr std::string_view kPathId = "{id}";

struct Route {
  std::string_view method, path;  // the path may end with kPathId, as in OpenAPI
  Answer answer;
  bool open = false;     // without a key
  bool early = false;    // while the model is loading, too
  bool at_once = false;  // by the thread that serves connections: it waits for nothing and takes no time
};
std::span<const Route> routes();

void answer_health(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_ready(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_models(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_model(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_props(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_options(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_metrics(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_page(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_openapi(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_chat(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_responses(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_completions(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_fim(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_infill(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_tokenize(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_detokenize(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_apply_template(Service& service, const std::shared_ptr<Exchange>& exchange);
void answer_tokenizer_info(Service& service, const std::shared_ptr<Exchange>& exchange);

// Of a path that is none of the routes'.
ApiError missing_route(std::string_view path);

// The decoding options as a list for programs: key, unit, help, group, default, choices, range.
Json options_json();

}  // namespace llada::serve
