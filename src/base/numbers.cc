#include "base/numbers.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string>

namespace llada {

std::from_chars_result parse_with_strtod(const char* first, const char* last, double& value) {
  // strtod takes more: white space, a plus sign and hexadecimal digits.
  const char* digits = first != last && *first == '-' ? first + 1 : first;
  if (digits == last || !(*digits == '.' || (*digits >= '0' && *digits <= '9') || *digits == 'i' || *digits == 'n' ||
                          *digits == 'I' || *digits == 'N'))
    return {first, std::errc::invalid_argument};
  if (last - digits > 1 && (digits[1] == 'x' || digits[1] == 'X')) {
    value = *first == '-' ? -0.0 : 0.0;
    return {digits + 1, std::errc()};
  }
  const std::string text(first, last);
  char* end = nullptr;
  errno = 0;
  const double parsed = std::strtod(text.c_str(), &end);
  if (end == text.c_str()) return {first, std::errc::invalid_argument};
  const char* const next = first + (end - text.c_str());
  if (errno == ERANGE && (parsed == 0 || std::isinf(parsed))) return {next, std::errc::result_out_of_range};
  value = parsed;
  return {next, std::errc()};
}

}  // namespace llada
