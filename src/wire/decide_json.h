// Decisions as JSON: the bodies of POST /v1/decisions (OpenAI's) and POST /v1/systemone, for the server, the program
// and the C API alike, and the file of temperatures. docs/decide.md has the fields and their ranges.
//
// Where a text is expected, any other JSON value is taken as its JSON text, with members in their order.
#pragma once
#include <string>
#include <string_view>

#include "engine/decide.h"
#include "json/fields.h"

namespace llada {

// One question of a list: {type, instructions, choices | levels, name}.
Result<DecideQuestion> parse_question(const Fields& question);

// {input, questions: [...], llada: {labels, rotations, samples, joint}}; other fields are ignored. input: a string, or
// a conversation.
Result<DecideRequest> parse_decisions(const Fields& body);
// {state, questions: {id: {type: noul | choice | score, instructions, criteria}}, instructions, joint, samples, llada}.
Result<DecideRequest> parse_systemone(const Fields& body);
// Either, by its fields: one with `state` is the second.
Result<DecideRequest> parse_decide(const Fields& body);

// The text of such a body, as files and callers of libraries give it. `source` names it in errors.
Result<DecideRequest> read_decide(std::string_view text, const std::string& source);

// The answer {answers, model, usage} in the form of the request; decide_text(): on one line.
Json decide_json(const DecideRequest& request, const DecideResult& result, const std::string& model);
std::string decide_text(const DecideRequest& request, const DecideResult& result, const std::string& model);

// The file of `llada decide --calibrate`.
std::string temperatures_text(const std::array<double, kQuestionKinds>& temperatures, const std::string& model,
                              const std::array<size_t, kQuestionKinds>& questions);
Result<std::array<double, kQuestionKinds>> parse_temperatures(std::string_view text, const std::string& source);
Result<std::array<double, kQuestionKinds>> load_temperatures(const std::string& path);

}  // namespace llada
