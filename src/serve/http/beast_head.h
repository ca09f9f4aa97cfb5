// The head of a request, from bytes to the HttpRequest of routes. Beast parses it. Forms that Beast lets pass and
// HTTP/1.1 (RFC 9112) has servers refuse, because a proxy in front of them could read them in another way, are refused
// here.
#pragma once
// clang-format off
#include <utility>  // first: Boost 1.74 uses it and does not include it
// clang-format on
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <string>
#include <string_view>

#include "serve/http/http.h"

namespace llada::serve {

// A body for Beast's parser. Unlike Beast's own it takes no memory for bytes that a client only announces.
struct CountedBody {
  using value_type = BodyBytes;
  class reader {
   public:
    template <bool is_request, class Fields>
    reader(boost::beast::http::header<is_request, Fields>&, BodyBytes& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, boost::beast::error_code& failure) { failure = {}; }
    template <class Buffers>
    size_t put(const Buffers& buffers, boost::beast::error_code& failure) {
      size_t size = 0;
      failure = {};
      for (const boost::asio::const_buffer part : boost::beast::buffers_range_ref(buffers)) {
        if (!body_.append({static_cast<const char*>(part.data()), part.size()}))
          failure = boost::beast::http::error::buffer_overflow;
        size += part.size();
      }
      return failure ? 0 : size;
    }
    void finish(boost::beast::error_code& failure) { failure = {}; }

   private:
    BodyBytes& body_;
  };
};

using BeastRequest = boost::beast::http::request<CountedBody>;

// The size of the head that the bytes begin with, with its empty line; 0: it is not complete. searched: bytes that an
// earlier call has looked at.
size_t size_of_head(std::string_view bytes, size_t searched);
// The size of empty lines at the beginning, which old clients send behind a body.
size_t size_of_empty_lines(std::string_view bytes);
// Why no request can begin with these bytes, so that its end need not be waited for; empty: one can.
std::string fault_of_begin(std::string_view bytes);
// Why this head is refused: before Beast parses it, and afterwards. Empty: it is not.
std::string fault_of_head(std::string_view head);
std::string fault_of_fields(const BeastRequest& request);

// A request that was read, as routes see it.
HttpRequest plain_request(const BeastRequest& from);

}  // namespace llada::serve
