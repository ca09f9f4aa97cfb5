#include "text/chat_template.h"

#include <algorithm>
#include <string_view>

#include "text/utf8.h"

namespace llada {
namespace {

constexpr std::string_view kStartHeader = "<|start_header_id|>", kEndHeader = "<|end_header_id|>";
constexpr std::string_view kEndOfTurn = "<|eot_id|>", kStart = "<|startoftext|>", kEndOfText = "<|endoftext|>";
constexpr std::string_view kImStart = "<|im_start|>", kImEnd = "<|im_end|>";
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

// Collects text and control tokens; text between two control tokens is encoded as one, as the published
// tokenizers do with a rendered template.
class Renderer {
 public:
  explicit Renderer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  Renderer& text(std::string_view text) {
    pending_ += text;
    return *this;
  }

  // The control token, or its text where the vocabulary has no such token.
  Renderer& control(std::string_view name) {
    if (const auto id = tokenizer_.find_control(name)) return token(*id);
    return text(name);
  }

  Renderer& token(int32_t id) {
    flush();
    ids_.push_back(id);
    return *this;
  }

  std::vector<int32_t> take() {
    flush();
    return std::move(ids_);
  }

 private:
  void flush() {
    if (pending_.empty()) return;
    const auto ids = tokenizer_.encode(pending_);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    pending_.clear();
  }

  const Tokenizer& tokenizer_;
  std::string pending_;
  std::vector<int32_t> ids_;
};

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
    if (role != "system" && role != "user" && role != "assistant")
      return invalid("message {} has the role {}, needed system, user or assistant", i, in_quotes(role));
  }
  return {};
}

std::string_view default_system(const std::string& chat_template) {
  constexpr std::string_view kLong = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
  constexpr std::string_view kShort = "You are a helpful assistant.";
  if (chat_template.find(kLong) != std::string::npos) return kLong;
  if (chat_template.find(kShort) != std::string::npos) return kShort;
  return {};
}

std::string_view bailing_role(const std::string& role) {
  return role == "system" ? "SYSTEM" : role == "user" ? "HUMAN" : "ASSISTANT";
}

}  // namespace

ChatStyle detect_chat_style(const Tokenizer& tokenizer) {
  const std::string& source = tokenizer.spec().chat_template;
  const auto mentions = [&](std::string_view text) { return source.find(text) != std::string::npos; };
  const auto has = [&](std::string_view name) { return tokenizer.find_control(name).has_value(); };
  const bool llada = has(kStartHeader) && has(kEndHeader) && has(kEndOfTurn);
  const bool chatml = has(kImStart) && has(kImEnd);
  if (mentions(kStartHeader) && llada) return ChatStyle::llada;
  if (mentions(kImStart) && chatml) return ChatStyle::chatml;
  if (mentions(kRole)) return ChatStyle::bailing;
  if (llada) return ChatStyle::llada;
  if (chatml) return ChatStyle::chatml;
  if (has(kRoleEnd)) return ChatStyle::bailing;
  return ChatStyle::plain;
}

Result<std::vector<int32_t>> render_chat(const Tokenizer& tokenizer, ChatStyle style,
                                         std::span<const ChatMessage> messages, bool add_assistant_header) {
  LLADA_TRY_STATUS(check_messages(messages));
  const TokenizerSpec& spec = tokenizer.spec();
  const std::string end_text = spec.eos >= 0 ? std::string(tokenizer.piece(spec.eos)) : std::string();
  const bool has_system = messages[0].role == "system";
  std::vector<ChatMessage> turns(messages.begin(), messages.end());
  for (ChatMessage& turn : turns)
    if (turn.role == "assistant") turn.content = without(turn.content, end_text);

  Renderer out(tokenizer);
  switch (style) {
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
      if (const auto system = default_system(spec.chat_template); !has_system && !system.empty())
        turn_of("system", system);
      for (const ChatMessage& turn : turns) turn_of(turn.role, turn.content);
      if (add_assistant_header) out.control(kImStart).text("assistant\n");
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
      if (ends_turns && !has_system) turn_of("SYSTEM", "detailed thinking off");
      for (const ChatMessage& turn : turns) turn_of(bailing_role(turn.role), turn.content);
      if (add_assistant_header) header("ASSISTANT");
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
    case ChatStyle::plain:
      add({kEndOfText});
      break;
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace llada
