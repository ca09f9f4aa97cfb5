// Which web pages may ask through somebody's browser (CORS). A local server often has no key, so none may but the
// server's own page and those of origins that were let in.
#pragma once
#include <string>
#include <vector>

#include "serve/http.h"

namespace llada::serve {

class Origins {
 public:
  Origins() = default;
  // Each an origin, https://a.example:8443, several with commas between them, or *. Invalid: anything else, since a
  // browser compares to the letter.
  static Result<Origins> parse(const std::vector<std::string>& given);

  // Whether the page that asks may; always where none does.
  bool allow(const HttpRequest& request) const;
  // What tells the browser that its page may read the reply.
  void add_headers(const HttpRequest& request, HttpReply& reply) const;
  // Whether a browser asks first whether it may ask, and the answer, which allows the headers that it names.
  bool is_preflight(const HttpRequest& request) const;
  HttpReply preflight(const HttpRequest& request) const;

 private:
  bool let_in(const std::string& origin) const;

  std::vector<std::string> origins_;
  bool any_ = false;
};

}  // namespace llada::serve
