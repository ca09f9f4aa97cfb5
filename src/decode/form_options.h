// What the answer must fit, as options: one of five ways to say it (forms/form.h). The form over a model's tokens is
// made by whoever has the vocabulary, and given to the strategy.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "forms/form.h"

namespace llada::decode {

struct DecodeOptions;
struct Field;

struct FormOptions {
  std::string choice = {};         // texts with | between them
  std::string regex = {};          // what the whole answer fits
  std::string json_schema = {};    // the schema's text
  int64_t json_object = 0;         // > 0: any object of so many levels
  std::string form_template = {};  // text with typed gaps
};
std::span<const Field> form_fields();

// None: the answer is free.
std::optional<forms::Form> form_of(const FormOptions& options);

}  // namespace llada::decode
