#include "serve/http/http.h"

#include <chrono>

#include "formats/printable.h"

namespace llada::serve {
namespace {

int hex_digit(char c) {
  const size_t at = std::string_view("0123456789abcdef").find(static_cast<char>(c | 0x20));
  return c >= '0' && at != std::string_view::npos ? static_cast<int>(at) : -1;
}

struct Utc {
  explicit Utc(std::chrono::system_clock::time_point time)
      : day(std::chrono::floor<std::chrono::days>(time)),
        date(day),
        clock(std::chrono::floor<std::chrono::milliseconds>(time - day)) {}

  std::chrono::sys_days day;
  std::chrono::year_month_day date;
  std::chrono::hh_mm_ss<std::chrono::milliseconds> clock;
};

}  // namespace

std::string timestamp(std::chrono::system_clock::time_point time) {
  const Utc utc(time);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(utc.date.year()),
                     static_cast<unsigned>(utc.date.month()), static_cast<unsigned>(utc.date.day()),
                     utc.clock.hours().count(), utc.clock.minutes().count(), utc.clock.seconds().count(),
                     utc.clock.subseconds().count());
}

std::string http_date(std::chrono::system_clock::time_point time) {
  constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const Utc utc(time);
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays[std::chrono::weekday(utc.day).c_encoding()],
                     static_cast<unsigned>(utc.date.day()), kMonths[static_cast<unsigned>(utc.date.month()) - 1],
                     static_cast<int>(utc.date.year()), utc.clock.hours().count(), utc.clock.minutes().count(),
                     utc.clock.seconds().count());
}

std::string log_line(const Json& fields) {
  Json line = {{"ts", timestamp(std::chrono::system_clock::now())}};
  line.update(fields);
  return dump(line);
}

std::string without_folders(std::string_view message) {
  const size_t end = message.find(": ");
  const size_t slash = end == std::string_view::npos ? end : message.substr(0, end).rfind('/');
  return std::string(message.substr(slash == std::string_view::npos ? 0 : slash + 1));
}

std::string without_percent(std::string_view part) {
  std::string text;
  for (size_t i = 0; i < part.size(); ++i) {
    const int high = part[i] == '%' && i + 2 < part.size() ? hex_digit(part[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(part[i + 2]) : -1;
    if (low < 0) {
      text += part[i];
    } else {
      text += static_cast<char>(16 * high + low), i += 2;
    }
  }
  return text;
}

constexpr size_t kMostWords = 500;  // bytes

ApiError::ApiError(const Error& error)
    : status(error.of_input()                  ? 400
             : error.kind == ErrorKind::memory ? 503
                                               : 500),
      message(error.field().empty() ? without_folders(error.message) : printable(error.message, kMostWords)),
      param(printable(error.field(), kMostWords)),
      code(error.kind == ErrorKind::memory ? "out_of_memory" : "") {}

std::unexpected<ApiError> refuse(const std::string& message, const std::string& param) {
  return std::unexpected(ApiError(400, printable(message, kMostWords), printable(param, kMostWords)));
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json error_json(const ApiError& error) {
  const char* type = error.status == 401   ? "authentication_error"
                     : error.status == 404 ? "not_found_error"
                     : error.status == 429 ? "rate_limit_error"
                     : error.status >= 500 ? "server_error"
                                           : "invalid_request_error";
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return {
      {"error",
       {{"message", error.message}, {"type", type}, {"param", or_null(error.param)}, {"code", or_null(error.code)}}}};
}

HttpReply error_reply(const ApiError& error) {
  HttpReply reply = json_reply(error_json(error));
  reply.status = error.status;
  // The same again would take as long again; clients that repeat by themselves look at this.
  if (error.status == 504) reply.headers.emplace_back("x-should-retry", "false");
  reply.error = error.message, reply.param = error.param;
  if (error.status == 429 || error.status == 503) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

HttpReply queue_full() {
  return error_reply(ApiError(429, "too many requests are waiting; try again later", "", "queue_full"));
}

HttpReply json_reply(const Json& json) { return {.body = dump(json)}; }

void Exchange::respond(Answered<HttpReply> answer) {
  HttpReply reply = answer ? std::move(*answer) : error_reply(answer.error());
  if (responded_.exchange(true)) return;
  if (gone_) reply.status = kClientGone;
  try {
    if (before_) before_(*this, reply);
  } catch (...) {  // a reply without a header is better than none
  }
  if (!reply.stream) {
    end({.status = reply.status, .bytes = std::ssize(reply.body), .error = reply.error, .param = reply.param});
  } else {
    // Of this and gone() the one that comes later sees the other.
    streaming_ = true;
    if (gone_) end({.status = kClientGone, .stream = true});
  }
  respond_(std::move(reply));
}

void Exchange::stream_ended() { end({.status = 200, .bytes = streamed_, .stream = true}); }

void Exchange::end(const End& end) {
  if (ended_.exchange(true) || !on_end_) return;
  try {
    on_end_(*this, end);
  } catch (...) {  // no line in the log is no reason to give no reply
  }
}

void Exchange::on_gone(std::function<void()> cancel) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      cancel_ = std::move(cancel);
      return;
    }
  }
  cancel();
}

void Exchange::gone() {
  std::function<void()> cancel;
  {
    const std::lock_guard lock(mutex_);
    if (gone_.exchange(true)) return;
    cancel = std::move(cancel_);
    cancel_ = nullptr;
  }
  if (streaming_) end({.status = kClientGone, .bytes = streamed_, .stream = true});
  if (cancel) cancel();
}

}  // namespace llada::serve
