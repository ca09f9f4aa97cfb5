// Evaluation examples: one JSON object per line with prompt and answer (the text to compare with). It may have task and
// response (the reference answer text), where they differ from the file's name and the answer. Or a row of GSM8K, with
// question and answer. The tasks differ only in how the answer is found in a response.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada::eval {

struct Example {
  std::string task, prompt, response, answer;
};

// Reads a .jsonl file; errors name the file, the line and the field. limit > 0 keeps the first `limit`
// examples of each task.
Result<std::vector<Example>> load_examples(const std::string& path, int64_t limit);
Result<std::vector<Example>> parse_examples(std::string_view text, const std::string& source, int64_t limit);

// Whether `text` answers the example. How the answer is found: gsm-mini and story: after "####"; gsm8k: the number
// after the last "####" or, without one, the last number, less "$", "," and a "." at its end; choice: after "Answer:";
// sort-steps: after "Sorted:"; bool: the last line; json: the whole text as a JSON value; anything else: the whole
// text. White space around it does not count.
bool answer_is_right(const Example& example, std::string_view text);

// Whether the text is the reference response to the letter.
inline bool response_is_right(const Example& example, std::string_view text) { return text == example.response; }

}  // namespace llada::eval
