// Gemma 4's markup of tools, as its templates write it: declarations in the system turn, calls and results in the
// model's. Arguments in an answer are turned back into JSON.
#pragma once
#include <string>
#include <string_view>

namespace llada {

class ChatWriter;

// function: the JSON object with name, description and parameters.
void write_declaration(ChatWriter& out, std::string_view function);
// arguments: JSON text. Numbers are kept verbatim; text that is not JSON is inserted unchanged, in braces if it is no
// object.
void write_call(ChatWriter& out, std::string_view name, std::string_view arguments);
void write_response(ChatWriter& out, std::string_view name, std::string_view content);

// Turns arguments in Gemma's spelling into JSON as their bytes arrive (the spelling of json_text.h).
class GemmaArguments {
 public:
  // Removes the call's bytes from the front of `bytes` and returns the JSON that they add; bytes behind it stay.
  std::string take(std::string& bytes);
  bool complete() const { return at_ == At::behind; }

 private:
  void read(char c, std::string& json);
  void end_word(std::string& json);
  void close(std::string& json);

  enum class At { value, key, quoted_key, string, word, after, behind } at_ = At::value;
  std::string open_;   // braces and brackets
  std::string word_;   // a name or plain value so far
  bool first_ = true;  // of the members
};

}  // namespace llada
