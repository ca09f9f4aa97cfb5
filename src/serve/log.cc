#include "serve/log.h"

#include <fmt/format.h>

#include <array>

namespace llada::serve {
namespace {

struct Utc {
  std::chrono::year_month_day date;
  std::chrono::weekday weekday;
  std::chrono::hh_mm_ss<std::chrono::milliseconds> time;
};

Utc utc(std::chrono::system_clock::time_point time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  return {day, std::chrono::weekday(day),
          std::chrono::hh_mm_ss(std::chrono::duration_cast<std::chrono::milliseconds>(time - day))};
}

}  // namespace

std::string timestamp(std::chrono::system_clock::time_point time) {
  const Utc now = utc(time);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(now.date.year()),
                     static_cast<unsigned>(now.date.month()), static_cast<unsigned>(now.date.day()),
                     now.time.hours().count(), now.time.minutes().count(), now.time.seconds().count(),
                     now.time.subseconds().count());
}

std::string http_date(std::chrono::system_clock::time_point time) {
  constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const Utc now = utc(time);
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays[now.weekday.c_encoding()],
                     static_cast<unsigned>(now.date.day()), kMonths[static_cast<unsigned>(now.date.month()) - 1],
                     static_cast<int>(now.date.year()), now.time.hours().count(), now.time.minutes().count(),
                     now.time.seconds().count());
}

std::string log_line(const Json& fields) {
  Json line = {{"ts", timestamp(std::chrono::system_clock::now())}};
  for (const auto& [name, value] : fields.items()) line[name] = value;
  return dump(line);
}

}  // namespace llada::serve
