#include "base/error.h"

namespace llada {

std::unexpected<Error> error_of(ErrorKind kind, fmt::string_view format, fmt::format_args args) {
  return std::unexpected(Error{kind, fmt::vformat(format, args)});
}

}  // namespace llada
