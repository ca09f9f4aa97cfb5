// Unicode normalisation form C of valid UTF-8, in O(n log n) even for long runs of combining marks.
#pragma once
#include <string>
#include <string_view>

namespace llada {

// `text` is valid UTF-8. Nothing is copied into `buffer` when the text can be seen to be in form C already;
// the view points to `text` or to `buffer`.
std::string_view to_nfc(std::string_view text, std::string& buffer);

}  // namespace llada
