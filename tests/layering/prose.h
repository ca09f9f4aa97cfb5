// The English of comments and messages, as far as a program can judge it. Words: sentence = text up to a full stop,
// question or exclamation mark; item = a line of a list or table inside a comment, which begins with two blanks, a dash or
// a number; message = a string literal of three words or more, adjacent literals joined. Deliberately absent: grammar.
// Raw strings are no messages: they hold other languages.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layering/source_rules.h"

namespace llada::layering {

struct Sentence {
  size_t line;  // of its first word, from 1
  std::string text;
  bool item = false;
};

std::vector<Sentence> comment_sentences(std::string_view text);

struct Message {
  size_t line;
  std::string text;  // as in the source: with its escapes and {}
};

std::vector<Message> messages(std::string_view text);

// Why a sentence is hard to read; empty where it is not. The rules: no "what" as a noun (it may follow a verb of saying or
// asking: "says what it is"), none that begins with "Of", at most 30 words (items are free;
// a semicolon ends a clause of a message).
std::string objection_to(std::string_view sentence, bool item = false);

Findings hard_comments(std::span<const SourceFile> files);
Findings hard_messages(std::span<const SourceFile> files);

// All messages by file, one a line, after its line ends indented: the golden file that is reviewed as prose.
std::string message_list(std::span<const SourceFile> files);

}  // namespace llada::layering
