// Routes and protocols as the server goes through them; their table is protocols/protocols.inc.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "serve/work/service.h"

namespace llada::serve {

inline constexpr std::string_view kPathId = "{id}";

struct Route {
  std::string_view method, path;  // the path may have kPathId in it, as in OpenAPI
  void (*answer)(Service& service, const std::shared_ptr<Exchange>& exchange);
  bool open = false;      // needs no key
  bool early = false;     // answers while the model is loading, too
  bool at_once = false;   // runs on the thread that serves connections, since it waits for nothing and takes no time
  bool streams = false;   // the answer can be a stream
  bool in_batch = false;  // requests of a batch may have it as their url
};

struct Protocol {
  std::span<const Route> routes;
  // Refusals below this path, also where there is no route, are written by `error`; others in OpenAI's form.
  std::string_view below = {};
  Json (*error)(int status, const std::string& message) = nullptr;
};

std::span<const Route> routes();  // of all protocols
bool has_path(const Route& route, std::string_view path);
// The route of a request, which may leave out /v1; null: none.
const Route* find_route(std::string_view method, std::string_view path);
// The part of the path that stands in the place of the route's {id}.
std::string path_id(std::string_view route, std::string_view path);

// The error of a path that no route has: another route that the client may have meant.
ApiError missing_route(std::string_view path);
// Writes a refusal as the clients of that path's protocol read it.
void put_error_in_form(std::string_view path, HttpReply& reply);

}  // namespace llada::serve
