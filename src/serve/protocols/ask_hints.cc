// Wishes that have no effect here. How much a model shall think before it answers, and how long it shall talk: many
// clients send these by themselves, each in a form of its own. A model with a channel for thoughts thinks then; others
// do not, and none knows how long to talk; nor are there other programs' ways of sampling. Where a wish has no effect
// the answer is the same, and a warning says so.
#include <algorithm>
#include <array>

#include "decode/form_options.h"
#include "formats/printable.h"
#include "serve/protocols/reading.h"
#include "text/tool_calls.h"

namespace llada::serve {
namespace {

// A wish is nothing, or more.
using Wish = Answered<bool>;

Wish read_word(const std::string& name, const Json& value, const std::vector<std::string>& nothing,
               const std::vector<std::string>& more) {
  const auto is_in = [&](const auto& words) { return std::ranges::any_of(words, [&](auto& w) { return value == w; }); };
  if (is_in(nothing)) return false;
  if (is_in(more)) return true;
  return wrong(name, value, fmt::format("{} or {}", fmt::join(nothing, ", "), fmt::join(more, ", ")));
}

Wish read_effort(const std::string& name, const Json& value) {
  return read_word(name, value, {"none"}, {"minimal", "low", "medium", "high", "xhigh", "max", "auto", "default"});
}

Wish read_verbosity(const std::string& name, const Json& value) {
  return read_word(name, value, {"medium"}, {"low", "high"});
}

Wish read_switch(const std::string& name, const Json& value) {
  if (!value.is_boolean()) return wrong(name, value, "true or false");
  return value.get<bool>();
}

// How thoughts would be shown.
Wish read_anything(const std::string&, const Json&) { return false; }

Wish read_think(const std::string& name, const Json& value) {
  return value.is_boolean() ? read_switch(name, value) : read_effort(name, value);
}

Wish read_tokens(const std::string& name, const Json& value) {
  if (!value.is_number_integer()) return wrong(name, value, "a whole number");
  return value != 0;
}

Wish read_type(const std::string& name, const Json& value) {
  return read_word(name, value, {"disabled"}, {"enabled", "adaptive", "auto"});
}

struct Hint {
  const char* name;  // with a point: of an object's member
  Wish (*read)(const std::string& name, const Json& value);
};
constexpr std::array kHints = {
    Hint{"reasoning_effort", read_effort},  // OpenAI's chat, and its followers
    Hint{"verbosity", read_verbosity},
    Hint{"text.verbosity", read_verbosity},  // the same of OpenAI's responses
    Hint{"reasoning.effort", read_effort},   // OpenAI's responses, OpenRouter's chat
    Hint{"reasoning.summary", read_anything},
    Hint{"reasoning.generate_summary", read_anything},
    Hint{"reasoning.exclude", read_anything},
    Hint{"reasoning.enabled", read_switch},
    Hint{"reasoning.max_tokens", read_tokens},
    Hint{"enable_thinking", read_switch},  // of Qwen's template, at the places where servers take it
    Hint{"chat_template_kwargs.enable_thinking", read_switch},
    Hint{"chat_template_kwargs.thinking", read_switch},
    Hint{"chat_template_kwargs.reasoning_effort", read_effort},
    Hint{"thinking.type", read_type},  // DeepSeek's, and Anthropic's by way of LiteLLM
    Hint{"thinking.budget_tokens", read_tokens},
    Hint{"thinking.display", read_anything},
    Hint{"output_config.effort", read_effort},    // Anthropic's
    Hint{"output_config.format", read_anything},  // read with the form of the answer
    Hint{"think", read_think},                    // Ollama's
    Hint{"reasoning_format", read_anything},      // llama-server's
};

// Ways of sampling that other programs have and no decoding here: an answer without them is one that the model gives.
constexpr const char* kOthersSampling[] = {"presence_penalty",
                                           "frequency_penalty",
                                           "length_penalty",
                                           "typical_p",
                                           "typ_p",
                                           "min_keep",
                                           "tfs_z",
                                           "mirostat",
                                           "mirostat_tau",
                                           "mirostat_eta",
                                           "dynatemp_range",
                                           "dynatemp_exponent",
                                           "xtc_probability",
                                           "xtc_threshold",
                                           "dry_multiplier",
                                           "dry_base",
                                           "dry_allowed_length",
                                           "dry_penalty_last_n",
                                           "repeat_last_n",
                                           "repetition_penalty_range",
                                           "top_a",
                                           "epsilon_cutoff",
                                           "eta_cutoff",
                                           "smoothing_factor",
                                           "smoothing_curve"};

// The members of an object, with its name, that are not known here.
Answered<std::vector<std::string>> other_members(const std::string& name, const Json& object) {
  if (!object.is_object()) return wrong(name, object, "an object");
  std::vector<std::string> others;
  for (const auto& [key, value] : object.items()) {
    std::string whole = fmt::format("{}.{}", name, key);
    if (value.is_null() || std::ranges::any_of(kHints, [&](const Hint& h) { return whole == h.name; })) continue;
    others.push_back(std::move(whole));
  }
  return others;
}

constexpr const char* kNoThoughts = "thinking: without effect together with tools or a form";
constexpr const char* kTemplateSwitches = "chat_template_kwargs";  // of which a template reads those that it knows

// llama-server's samplers and the fields that set them. A sampler that a list of them leaves out does nothing there.
struct Sampler {
  std::string_view name, other;  // another name of it
  char letter;                   // in a text instead of a list
  const char* field;
  double off;  // up to it, or from it on, the field asks for nothing
  bool below;  // asks below it, else above it
};
constexpr Sampler kSamplers[] = {
    {"temperature", "temp", 't', "temperature", 0, false},
    {"top_k", "top-k", 'k', "top_k", 0, false},
    {"top_p", "top-p", 'p', "top_p", 1, true},
    {"min_p", "min-p", 'm', "min_p", 0, false},
    {"penalties", "penalties", 'e', "repeat_penalty", 1, false},
};

// Whether a list of samplers leaves out one that the request sets, and that is applied here all the same.
Wish read_samplers(const Fields& body, const Json& list) {
  if (!list.is_array() && !list.is_string()) return wrong("samplers", list, "a list of names");
  return std::ranges::any_of(kSamplers, [&](const Sampler& sampler) {
    const Json* set = body.look(sampler.field);
    if (set == nullptr || !set->is_number()) return false;
    const auto value = set->get<double>();
    if (sampler.below ? value >= sampler.off : value <= sampler.off) return false;
    if (list.is_string()) return !list.get_ref<const std::string&>().contains(sampler.letter);
    return std::ranges::none_of(list, [&](const Json& n) { return n == sampler.name || n == sampler.other; });
  });
}

// Of llama-server: what it samples with, and more in its reports.
Answered<std::string> read_reports(Fields& body) {
  std::string names;
  for (const char* name : {"samplers", "timings_per_token", "post_sampling_probs"}) {
    const Json* value = body.find(name);
    if (value == nullptr) continue;
    LLADA_TRY(const bool asks,
              name == std::string_view("samplers") ? read_samplers(body, *value) : read_switch(name, *value));
    if (asks) names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names.empty() ? names : names + ": of llama-server, without effect here";
}

// Wishes about thinking and verbosity; a line on those that have no effect, or none.
Answered<std::string> read_hints(Fields& body, const Dialect& dialect, bool* think) {
  std::string more;
  for (const char* name : {"reasoning", "thinking", kTemplateSwitches, "output_config"}) {
    const Json* object = body.find(name);
    if (object == nullptr) continue;
    LLADA_TRY(const auto others, other_members(name, *object));
    if (others.empty() || name == kTemplateSwitches) continue;
    return unsupported(others.front());
  }
  for (const auto& [name, read] : kHints) {
    const std::string whole = name, object = whole.substr(0, whole.find('.'));
    if (object == "text" && dialect.calls != Calls::items) continue;
    const Json* value = body.find(object);
    if (value != nullptr && object != whole) value = &member(*value, whole.substr(object.size() + 1));
    if (value == nullptr || value->is_null()) continue;
    LLADA_TRY(const bool wished, read(whole, *value));
    if (wished && think != nullptr && !whole.ends_with("verbosity"))
      *think = true;
    else if (wished)
      more += (more.empty() ? "" : ", ") + whole;
  }
  if (more.empty()) return more;
  return more + ": the model has no such setting, so it has no effect";
}

// A line for each kind of wishes that has no effect.
Answered<std::vector<std::string>> read_wishes(Fields& body, const Dialect& dialect, bool* think) {
  std::vector<std::string> warnings;
  LLADA_TRY(std::string hints, read_hints(body, dialect, think));
  if (!hints.empty()) warnings.push_back(std::move(hints));
  if (const Json* switches = body.find(kTemplateSwitches)) {
    LLADA_TRY(const auto others, other_members(kTemplateSwitches, *switches));
    if (!others.empty())
      warnings.push_back(printable(fmt::format("{}", fmt::join(others, ", ")), 300) +
                         ": the chat template does not read it, so it has no effect");
  }
  return warnings;
}

}  // namespace

bool* if_it_thinks(const Service& service, const Dialect& dialect, bool& think) {
  return dialect.converses && service.model().chat_format().thought_begin >= 0 ? &think : nullptr;
}

Done think_without_form(Service& service, Ask& ask, const Decoding& decoding) {
  if (!ask.think || !decode::form_of(decoding.choice.options)) return {};
  ask.think = false;
  return add_warning(service, ask, kNoThoughts);
}

Answered<bool> read_talk_prompt(Service& service, Fields& body, const Dialect& dialect,
                                std::vector<ChatMessage>& messages, Json& reply) {
  LLADA_TRY(const ToolUse tools, read_tools(body, dialect));
  bool think = false;
  LLADA_TRY(auto warnings, read_wishes(body, dialect, if_it_thinks(service, dialect, think)));
  const bool has_tools = !tools.functions.empty();
  if (has_tools && std::exchange(think, false)) warnings.emplace_back(kNoThoughts);
  for (const std::string& warning : warnings) LLADA_TRY_STATUS(unless_strict(service, warning));
  if (!warnings.empty()) reply["warnings"] = std::move(warnings);
  LLADA_TRY_STATUS(body.finish());
  if (has_tools) show_tools(service.model().chat_format(), tools.functions, messages);
  return think;
}

Answered<std::vector<std::string>> read_without_effect(Fields& body, const Dialect& dialect, bool* think) {
  LLADA_TRY(auto warnings, read_wishes(body, dialect, think));
  LLADA_TRY(std::string reports, read_reports(body));
  if (!reports.empty()) warnings.push_back(std::move(reports));
  std::string names;
  for (const char* name : kOthersSampling) {
    const bool idle = changes_nothing(body, name);
    const Json* value = body.find(name);
    if (value != nullptr && !value->is_number()) return wrong(name, *value, "a number");
    if (!idle) names += (names.empty() ? "" : ", ") + std::string(name);
  }
  if (!names.empty()) warnings.push_back(names + ": this way of sampling is not supported, so it has no effect");
  return warnings;
}

}  // namespace llada::serve
