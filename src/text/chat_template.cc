#include "text/chat_template.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "text/chat_writer.h"
#include "text/gemma_tools.h"
#include "text/template_texts.h"
#include "text/tool_calls.h"
#include "text/utf8.h"

namespace llada {
namespace {

constexpr std::string_view kStartHeader = "<|start_header_id|>", kEndHeader = "<|end_header_id|>";
constexpr std::string_view kEndOfTurn = "<|eot_id|>", kStart = "<|startoftext|>", kEndOfText = "<|endoftext|>";
constexpr std::string_view kImStart = "<|im_start|>", kImEnd = "<|im_end|>";
constexpr std::string_view kThoughts = "<think>", kThoughtsEnd = "</think>";
constexpr std::string_view kThinkingOff = "detailed thinking off";
constexpr std::string_view kTurn = "<|turn>", kTurnEnd = "<turn|>", kThink = "<|think|>";
constexpr std::string_view kChannel = "<|channel>", kChannelEnd = "<channel|>";
constexpr std::string_view kRole = "<role>", kRoleClose = "</role>", kRoleEnd = "<|role_end|>";

// Python's str.isspace(), which the template's `trim` means.
bool is_python_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string_view trim(std::string_view text) {
  size_t begin = text.size(), end = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = utf8_unit(text.substr(at));
    if (!unit.valid || !is_python_space(unit.code_point)) {
      begin = std::min(begin, at);
      end = at + unit.length;
    }
    at += unit.length;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

std::string without(std::string_view text, std::string_view removed) {
  std::string out;
  while (!removed.empty()) {
    const size_t at = text.find(removed);
    if (at == std::string_view::npos) break;
    out += text.substr(0, at);
    text.remove_prefix(at + removed.size());
  }
  return out.append(text);
}

Status need_controls(const Tokenizer& tokenizer, std::string_view style,
                     std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (!tokenizer.find_control(name))
      return invalid("the {} chat style needs the control token {}, which the vocabulary does not have", style, name);
  return {};
}

Status check_messages(std::span<const ChatMessage> messages) {
  if (messages.empty()) return invalid("a conversation needs at least one message");
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role != "system" && role != "user" && role != "assistant" && role != "tool")
      return invalid("message {} has the role {}, needed system, user, assistant or tool", i, in_quotes(role));
  }
  return {};
}

// The text between the head of a system message and its end, where no value stands there.
std::string default_system(std::string_view texts) {
  constexpr std::string_view kHead = "<|im_start|>system\n";
  for (size_t at = texts.find(kHead); at != std::string_view::npos; at = texts.find(kHead, at + 1)) {
    const std::string_view rest = texts.substr(at + kHead.size());
    const size_t end = std::min(rest.find("<|im_"), rest.size());
    const std::string_view text = rest.substr(0, end);
    if (!rest.substr(end).starts_with(kImEnd) || text.contains(kHole) || text.contains(kTrimmedHole)) continue;
    return std::string(text);
  }
  return {};
}

// Whether `texts` has one of the forms that a message may have and nothing but `known` texts, white space and values.
bool is_known(std::string_view texts, std::initializer_list<std::string> forms, std::vector<std::string> known) {
  const bool formed = std::ranges::any_of(forms, [&](const std::string& form) { return texts.contains(form); });
  std::ranges::sort(known, std::greater<>(), &std::string::size);
  std::string rest(texts);
  for (const std::string& text : known) rest = without(rest, text);
  const auto harmless = [](char c) { return c == kHole || c == kTrimmedHole || c == ' ' || c == '\n' || c == '\t'; };
  return formed && std::ranges::all_of(rest, harmless);
}

bool is_known(const ChatFormat& format, const Tokenizer& tokenizer, std::string_view texts) {
  const std::string hole(1, kHole), trimmed(1, kTrimmedHole);
  switch (format.style) {
    case ChatStyle::llada: {
      const std::string bos = tokenizer.spec().bos >= 0 ? std::string(tokenizer.piece(tokenizer.spec().bos)) : "";
      const auto form = [&](const std::string& role) {
        return fmt::format("{}{}{}\n\n{}{}", kStartHeader, role, kEndHeader, trimmed, kEndOfTurn);
      };
      return is_known(texts, {form(hole), form("user")},
                      {std::string(kStartHeader), std::string(kEndHeader), std::string(kEndOfTurn), std::string(kStart),
                       bos, "system", "user", "assistant"});
    }
    case ChatStyle::chatml: {
      const auto form = [&](const std::string& role) {
        return fmt::format("{}{}\n{}{}\n", kImStart, role, hole, kImEnd);
      };
      return is_known(
          texts, {form(hole), form("user")},
          {std::string(kImStart), std::string(kImEnd), format.default_system, "system", "user", "assistant"});
    }
    case ChatStyle::bailing: {
      const std::string end(tokenizer.find_control(kRoleEnd) ? kRoleEnd : "");
      const auto form = [&](const std::string& role) {
        return fmt::format("{}{}{}{}{}", kRole, role, kRoleClose, hole, end);
      };
      return is_known(texts, {form(hole), form("HUMAN")},
                      {std::string(kRole), std::string(kRoleClose), end, std::string(kThinkingOff),
                       "detailed thinking ", "off", "SYSTEM", "HUMAN", "ASSISTANT", "system", "user", "assistant"});
    }
    case ChatStyle::gemma: {
      // Its templates lay tools and media out in macros and in branches of their own, so only the frame of a message is
      // looked at, in the source where a branch hides it.
      const std::string& source = tokenizer.spec().chat_template;
      const auto begins = [&](const std::string& role, std::string_view written) {
        return texts.contains(fmt::format("{}{}\n", kTurn, role)) || source.contains(written);
      };
      return (begins(hole, "'<|turn>' + role + '\\n'") || begins("user", "<|turn>user\\n")) &&
             begins("model", "<|turn>model\\n") && source.contains(kTurnEnd);
    }
    case ChatStyle::plain:
      return false;
  }
  return false;
}

// Behind the thoughts, as the templates cut them.
std::string without_thoughts(const std::string& answer) {
  constexpr std::string_view kEnd = "</think>";
  const size_t at = answer.rfind(kEnd);
  if (at == std::string::npos) return answer;
  return answer.substr(std::min(answer.find_first_not_of('\n', at + kEnd.size()), answer.size()));
}

// The text outside of channels, as the templates have it.
std::string without_channels(std::string_view answer) {
  std::string said;
  while (!answer.empty()) {
    const size_t end = answer.find(kChannelEnd);
    const std::string_view part = answer.substr(0, end);
    said += part.substr(0, part.find(kChannel));
    answer.remove_prefix(end == std::string_view::npos ? answer.size() : end + kChannelEnd.size());
  }
  return said;
}

std::string_view bailing_role(const std::string& role) {
  return role == "system" ? "SYSTEM" : role == "user" ? "HUMAN" : role == "tool" ? "OBSERVATION" : "ASSISTANT";
}

ChatStyle detect_style(const Tokenizer& tokenizer) {
  const std::string& source = tokenizer.spec().chat_template;
  const auto mentions = [&](std::string_view text) { return source.find(text) != std::string::npos; };
  const auto has = [&](std::string_view name) { return tokenizer.find_control(name).has_value(); };
  const bool llada = has(kStartHeader) && has(kEndHeader) && has(kEndOfTurn);
  const bool chatml = has(kImStart) && has(kImEnd);
  if (mentions(kStartHeader) && llada) return ChatStyle::llada;
  if (mentions(kImStart) && chatml) return ChatStyle::chatml;
  if (has(kTurn) && has(kTurnEnd) && (source.empty() || mentions(kTurn))) return ChatStyle::gemma;
  if (mentions(kRole)) return ChatStyle::bailing;
  if (llada) return ChatStyle::llada;
  if (chatml) return ChatStyle::chatml;
  if (has(kRoleEnd)) return ChatStyle::bailing;
  return ChatStyle::plain;
}

}  // namespace

std::string_view name(ChatStyle style) {
  switch (style) {
    case ChatStyle::llada:
      return "llada";
    case ChatStyle::chatml:
      return "chatml";
    case ChatStyle::bailing:
      return "bailing";
    case ChatStyle::gemma:
      return "gemma";
    case ChatStyle::plain:
      return "plain";
  }
  return "";
}

ChatFormat detect_chat_format(const Tokenizer& tokenizer) {
  const std::string& source = tokenizer.spec().chat_template;
  ChatFormat format;
  format.style = detect_style(tokenizer);
  format.single_turn = tokenizer.spec().single_turn;
  const std::string texts = template_texts(source);
  if (format.style == ChatStyle::chatml) {
    format.default_system = default_system(texts);
    // Nemotron's, which thinks only where that is asked for.
    format.empty_parts = source.contains("truncate_history_thinking") &&
                         source.contains("enable_thinking if enable_thinking is defined else False");
  }
  if (format.style == ChatStyle::bailing && tokenizer.find_control(kRoleEnd)) {
    if (source.empty() || source.contains("detailed thinking")) format.default_system = kThinkingOff;
    const std::string behind = fmt::format("{}\ndetailed thinking", kHole);
    if (source.empty() || texts.contains(behind)) format.ends_system = fmt::format("\n{}", kThinkingOff);
  }
  const auto is_control = [&](const auto& mark) { return tokenizer.find_control(mark.second).has_value(); };
  if (format.style == ChatStyle::gemma && std::ranges::all_of(kGemmaMarks, is_control)) format.calls = CallForm::gemma;
  if (format.style == ChatStyle::gemma && tokenizer.find_control(kThink)) {
    const auto begin = tokenizer.find_control(kChannel), end = tokenizer.find_control(kChannelEnd);
    if (begin && end) format.thought_begin = *begin, format.thought_end = *end;
    // As a string literal of the template has it, whose line end is an escape.
    format.joins_answers = source.contains("continues_into_next");  // as its later templates call it
    format.closes_thoughts = begin && end && source.contains("<|channel>thought\\n<channel|>");
  }
  format.drops_thoughts = source.contains("</think>") || (source.empty() && !format.ends_system.empty());
  if (source.find_first_not_of(" \t\r\n") == std::string::npos) return format;
  if (!is_known(format, tokenizer, texts))
    format.note = fmt::format(
        "the chat template of the file is not one of those that are known: conversations are laid out in {} style, "
        "which may be another text than the template writes",
        name(format.style));
  return format;
}

namespace {

void write_gemma(ChatWriter& out, const ChatFormat& format, std::span<const ChatMessage> turns, bool think,
                 bool add_header) {
  const auto begin = [&](std::string_view role) { out.control(kTurn).text(role).text("\n"); };
  const auto end = [&] { out.control(kTurnEnd).text("\n"); };
  const auto system = [&](const ChatMessage& turn) {
    begin("system");
    if (think) out.control(kThink).text("\n");
    out.text(trim(turn.content));
    for (const std::string& function : turn.tools) write_declaration(out, function);
    end();
  };
  if (think && turns[0].role != "system") system({"system", ""});
  bool goes_on = false, open = false;  // the model's turn, behind calls; and behind another answer
  bool has_results = false;            // the calls
  for (size_t i = 0; i < turns.size(); ++i) {
    const ChatMessage& turn = turns[i];
    if (turn.role == "tool") continue;  // written with the calls
    const auto next = std::find_if(turns.begin() + static_cast<std::ptrdiff_t>(i) + 1, turns.end(),
                                   [](const ChatMessage& m) { return m.role != "tool"; });
    const bool last = next == turns.end(), answers_next = !last && next->role == "assistant";
    if (i == 0 && turn.role == "system") {
      system(turn);
    } else if (turn.role != "assistant") {
      begin(turn.role);
      out.text(trim(turn.content));
      end();
    } else {
      if (!(format.joins_answers ? open : goes_on)) begin("model");
      for (const ToolCall& call : turn.calls) write_call(out, call.name, call.arguments);
      const bool answered = i + 1 < turns.size() && turns[i + 1].role == "tool";
      has_results = answered;
      if (answered)
        for (const ToolResult& result : turns[i + 1].results) write_response(out, result.name, result.content);
      const std::string content = without_channels(turn.content), said(trim(content));
      out.text(said);
      if (!turn.calls.empty() && !answered)
        out.control("<|tool_response>");
      else if (format.joins_answers ? !answers_next && (!answered || !said.empty() || !last)
                                    : !answered || !said.empty())
        end();
    }
    open = turn.role == "assistant";
    goes_on = turn.role == "assistant" && !turn.calls.empty();
  }
  if (!add_header) return;
  if (goes_on) {
    if (has_results && think && format.joins_answers) out.control(kChannel).text("thought\n");
    return;
  }
  begin("model");
  if (!think && format.closes_thoughts) out.control(kChannel).text("thought\n").control(kChannelEnd);
}

}  // namespace

size_t ChatMessage::bytes() const {
  size_t sum = content.size();
  for (const ToolCall& call : calls) sum += call.name.size() + call.arguments.size();
  for (const ToolResult& result : results) sum += result.name.size() + result.content.size();
  for (const std::string& tool : tools) sum += tool.size();
  return sum;
}

Result<std::vector<int32_t>> render_chat(const Tokenizer& tokenizer, const ChatFormat& format,
                                         std::span<const ChatMessage> messages, bool add_assistant_header, bool think) {
  LLADA_TRY_STATUS(check_messages(messages));
  if (think && format.thought_begin < 0)
    return invalid("think: the model has no channel for thoughts; needed it left out");
  const TokenizerSpec& spec = tokenizer.spec();
  const std::string end_text = spec.eos >= 0 ? std::string(tokenizer.piece(spec.eos)) : std::string();
  const bool has_system = messages[0].role == "system";
  std::vector<ChatMessage> turns(messages.begin(), messages.end());
  const auto last_question = static_cast<size_t>(
      turns.rend() - std::ranges::find(turns.rbegin(), turns.rend(), "user", &ChatMessage::role));  // counted from 1
  for (size_t i = 0; i < turns.size(); ++i) {
    ChatMessage& turn = turns[i];
    // Gemma's calls and their results stay as they are.
    const bool text = format.calls == CallForm::json;
    if (turn.role == "tool" && (text || turn.results.empty() || i == 0 || turns[i - 1].calls.empty())) {
      if (!turn.results.empty()) turn.content = text_of_results(format, std::exchange(turn.results, {}));
      if (format.style != ChatStyle::bailing) turn.role = "user";
    }
    if (turn.role != "assistant") continue;
    turn.content = without(turn.content, end_text);
    if (format.drops_thoughts && i < last_question) turn.content = without_thoughts(turn.content);
    if (text) turn.content = text_with_calls(std::move(turn.content), std::exchange(turn.calls, {}));
  }
  if (format.single_turn && last_question > 1)
    turns.erase(turns.begin() + (has_system ? 1 : 0), turns.begin() + static_cast<std::ptrdiff_t>(last_question) - 1);

  ChatWriter out(tokenizer);
  switch (format.style) {
    case ChatStyle::llada: {
      LLADA_TRY_STATUS(need_controls(tokenizer, "llada", {kStartHeader, kEndHeader, kEndOfTurn}));
      const auto header = [&](std::string_view role) {
        out.control(kStartHeader).text(role).control(kEndHeader).text("\n\n");
      };
      if (spec.bos >= 0) {
        out.token(spec.bos);
      } else if (const auto bos = tokenizer.find_control(kStart)) {
        out.token(*bos);
      }
      for (const ChatMessage& turn : turns) {
        header(turn.role);
        out.text(trim(turn.content)).control(kEndOfTurn);
      }
      if (add_assistant_header) header("assistant");
      break;
    }
    case ChatStyle::chatml: {
      LLADA_TRY_STATUS(need_controls(tokenizer, "chatml", {kImStart, kImEnd}));
      const auto turn_of = [&](std::string_view role, std::string_view content) {
        out.control(kImStart).text(role).text("\n").text(content).control(kImEnd).text("\n");
      };
      if (!has_system && (format.empty_parts || !format.default_system.empty()))
        turn_of("system", format.default_system);
      for (const ChatMessage& turn : turns) turn_of(turn.role, turn.content);
      if (add_assistant_header) {
        out.control(kImStart).text("assistant\n");
        if (format.empty_parts) out.control(kThoughts).control(kThoughtsEnd);
      }
      break;
    }
    case ChatStyle::bailing: {
      const bool ends_turns = tokenizer.find_control(kRoleEnd).has_value();
      const auto header = [&](std::string_view role) { out.control(kRole).text(role).control(kRoleClose); };
      const auto turn_of = [&](std::string_view role, std::string_view content) {
        header(role);
        out.text(content);
        if (ends_turns) out.control(kRoleEnd);
      };
      if (has_system) {
        turns[0].content += format.ends_system;
      } else if (!format.default_system.empty()) {
        turn_of("SYSTEM", format.default_system);
      }
      for (const ChatMessage& turn : turns) turn_of(bailing_role(turn.role), turn.content);
      if (add_assistant_header) header("ASSISTANT");
      break;
    }
    case ChatStyle::gemma: {
      LLADA_TRY_STATUS(need_controls(tokenizer, "gemma", {kTurn, kTurnEnd}));
      if (spec.bos >= 0) out.token(spec.bos);
      write_gemma(out, format, turns, think, add_assistant_header);
      break;
    }
    case ChatStyle::plain: {
      if (spec.add_bos && spec.bos >= 0) out.token(spec.bos);
      for (size_t i = 0; i < turns.size(); ++i) out.text(i > 0 ? "\n" : "").text(turns[i].content);
      break;
    }
  }
  return out.take();
}

std::vector<int32_t> stop_ids(const Tokenizer& tokenizer, ChatStyle style) {
  std::vector<int32_t> ids;
  for (const int32_t id : {tokenizer.spec().eos, tokenizer.spec().eot})
    if (id >= 0) ids.push_back(id);
  const auto add = [&](std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      if (const auto id = tokenizer.find_control(name)) ids.push_back(*id);
  };
  switch (style) {
    case ChatStyle::llada:
      add({kEndOfTurn, kEndOfText});
      break;
    case ChatStyle::chatml:
      add({kImEnd, kEndOfText});
      break;
    case ChatStyle::bailing:
      add({kRoleEnd, kEndOfText});
      break;
    case ChatStyle::gemma:
      add({kTurnEnd, "<eos>", "<|tool_response>"});
      break;
    case ChatStyle::plain:
      add({kEndOfText});
      break;
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace llada
