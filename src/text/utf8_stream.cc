#include "text/utf8_stream.h"

namespace llada {

std::string Utf8Stream::take() {
  size_t complete = pending_.size();
  // An unfinished sequence is at most three bytes long, so its lead byte is among the last three.
  for (size_t back = 1; back <= 3 && back <= pending_.size(); ++back) {
    const size_t at = pending_.size() - back;
    const Utf8Unit unit = utf8_unit(std::string_view(pending_).substr(at));
    if (unit.incomplete && static_cast<size_t>(unit.length) == back) complete = at;
  }
  std::string text = to_valid_utf8(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

std::string Utf8Stream::flush() {
  std::string text = to_valid_utf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace llada
