// HTTP requests and their JSON bodies, from bytes to what the engine would be asked: no input may crash, and every
// refusal is one line. The input is a request; what follows its headers is the body, whatever length they say.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/infill_text.h"
#include "serve/http/access.h"
#include "serve/http/beast_head.h"
#include "serve/http/body.h"
#include "serve/protocols/reading.h"

namespace {

using namespace llada;
using namespace llada::serve;

constexpr Dialect kItems{.messages = "input", .part = "input_text", .other_part = "output_text", .calls = Calls::items};

void need(bool holds) {
  if (!holds) std::abort();
}

template <class T, class E>
void check_refusal(const std::expected<T, E>& answer) {
  if (answer) return;
  const ApiError error(answer.error());
  need(!error.message.empty() && error.status == 400);
  need(!error.message.contains('\n'));
  need(!dump(error_json(error)).empty());
}

void read_body(const std::string& text) {
  auto body = serve::read_body(text);
  check_refusal(body);
  if (!body) return;
  // Every value as it was sent, so that reading it again gives the same.
  if (const auto read = parse_ordered_object(text, "text", {.depth = 64, .values = 1 << 20, .run_bytes = 1 << 26})) {
    const std::string again = json_text(read->root, read->numbers);
    const auto twice = parse_ordered_object(again, "text", {.depth = 64, .values = 1 << 20, .run_bytes = 1 << 26});
    need(twice && twice->root == read->root && json_text(twice->root, twice->numbers) == again);
  }
  const bool infill = body->find("text") != nullptr, response = body->find("input") != nullptr;
  const Dialect dialect = response ? kItems : infill ? Dialect{.infills = true} : Dialect{};
  Ask ask;  // what needs no model
  bool think = false;
  check_refusal(read_without_effect(*body, dialect, &think));
  if (auto form = response ? read_typed_form(*body, {"text", "format"}, false) : read_any_format(*body); form)
    ask.form = std::move(*form);
  else
    check_refusal(form);
  check_refusal(read_messages(*body, dialect));
  check_refusal(read_stop(*body));
  check_refusal(body->integers("tokens", 0, INT32_MAX));
  check_refusal(body->optional_integer("n", 1, 128));
  for (const int64_t block : {0, 32}) check_refusal(read_decoding(*body, ask, dialect, decode::ModelKind(block)));
  check_refusal(body->finish());
  const auto template_text = body->optional_text("text");
  if (template_text && *template_text) static_cast<void>(parse_infill_template(**template_text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  boost::beast::http::request_parser<CountedBody> parser;
  parser.header_limit(16 << 10);
  parser.body_limit(1 << 20);
  parser.eager(true);
  boost::beast::error_code failure;
  for (size_t at = 0; at < size && !failure && !parser.is_done();) {
    const size_t used = parser.put(boost::asio::buffer(bytes.data() + at, size - at), failure);
    if (used == 0) break;
    at += used;
  }
  const size_t head = size_of_head(bytes, 0);
  need(head == size_of_head(bytes, head / 2) || head < 4);
  need(size_of_empty_lines(bytes) <= size);
  static_cast<void>(fault_of_begin(bytes));
  static_cast<void>(fault_of_head(bytes.substr(0, head)));
  if (parser.is_header_done()) {
    static_cast<void>(fault_of_fields(parser.get()));
    const HttpRequest request = plain_request(parser.get());
    need(!request.path.contains('?'));
    need(without_percent(request.path).size() <= request.path.size());
    need(key_of(request).size() <= std::max(request.authorization.size(), request.api_key.size()));
    static_cast<void>(HostNames().allows(request.host));
    static_cast<void>(Origins::parse({request.origin}));
    if (const size_t at = bytes.find("\r\n\r\n"); at != std::string_view::npos) {
      const auto parts = parse_form(request.type, bytes.substr(at + 4));
      need(parts || parts.error().status == 400 || parts.error().status == 415);
    }
  }
  const size_t body = bytes.find("\r\n\r\n");
  if (body != std::string_view::npos) read_body(std::string(bytes.substr(body + 4)));
  static_cast<void>(parse_keys(bytes, "keys"));
  return 0;
}
