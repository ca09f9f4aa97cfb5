// The log: one JSON object a line.
#pragma once
#include <chrono>
#include <string>

#include "serve/http.h"

namespace llada::serve {

// 2026-01-31T23:59:59.999Z
std::string timestamp(std::chrono::system_clock::time_point time);
// Sun, 06 Nov 1994 08:49:37 GMT, as the header Date has it.
std::string http_date(std::chrono::system_clock::time_point time);

// The fields as a line without its end, after the time.
std::string log_line(const Json& fields);

}  // namespace llada::serve
