// /openapi.json: the server's description of itself.
#include "serve/routes.h"

namespace llada::serve {

void answer_openapi(Service&, const std::shared_ptr<Exchange>& exchange) {
  Json paths = Json::object();
  for (const Route& route : routes()) {
    const bool post = route.method == "POST";
    Json operation = {
        {"responses", {{"200", {{"description", "the answer"}}}, {"default", {{"description", "an error"}}}}}};
    if (post)
      operation["requestBody"] = {{"required", true},
                                  {"content", {{"application/json", {{"schema", {{"type", "object"}}}}}}}};
    paths[std::string(route.path)][post ? "post" : "get"] = std::move(operation);
  }
  exchange->respond(json_reply(
      {{"openapi", "3.1.0"}, {"info", {{"title", "llada serve"}, {"version", "1"}}}, {"paths", std::move(paths)}}));
}

}  // namespace llada::serve
