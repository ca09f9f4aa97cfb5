// Conversations, as each protocol writes them: texts, calls of tools and their results.
#include <algorithm>
#include <map>
#include <utility>

#include "serve/protocols/reading.h"
#include "text/json_text.h"
#include "text/tool_calls.h"

namespace llada::serve {
namespace {

struct MessageForm {
  const Dialect& dialect;
  const Fields& body;
};

Answered<std::string> read_content(const Json& content, const std::string& where, const MessageForm& form);

// Anthropic's documents, of which text is the one kind here.
Answered<std::string> read_document(const Json& source, const std::string& where, const MessageForm& form) {
  const Json &type = member(source, "type"), &data = member(source, "data");
  if (type == "text" && data.is_string()) return data.get<std::string>();
  if (type == "content") return read_content(member(source, "content"), where, form);
  return wrong(where, source, "a document of plain text");
}

// A text, or a list of parts, of which text is the one kind here.
Answered<std::string> read_content(const Json& content, const std::string& where, const MessageForm& form) {
  if (content.is_null()) return std::string();
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return wrong(where, content, "a text");
  std::string text;
  for (const Json& part : content) {
    const Json& type = member(part, "type");
    if (type == "refusal" && member(part, "refusal").is_string()) {
      text += member(part, "refusal").get_ref<const std::string&>();
      continue;
    }
    if (const Json& source = member(part, "source"); form.dialect.calls == Calls::blocks && type == "document") {
      LLADA_TRY(const std::string inside, read_document(source, where, form));
      text += inside;
      continue;
    }
    const auto& [one, other] = std::pair(form.dialect.part, form.dialect.other_part);
    if ((type != one && type != other) || !member(part, "text").is_string())
      return wrong(where, part,
                   fmt::format("parts of type {}{}{}", one, one == other ? "" : " or ", one == other ? "" : other));
    text += part["text"].get<std::string>();
  }
  return text;
}

// Turns, in the order in which they are said. The results of calls follow the turn that has the calls, whatever was
// said between.
class Conversation {
 public:
  void say(const std::string& role, std::string content) {
    if (role == "assistant" && calls_wait()) {
      std::string& said = turns_.back().content;
      if (!said.empty() && !content.empty()) said += '\n';
      said += content;
      return;
    }
    turns_.push_back({role == "developer" ? "system" : role, std::move(content)});
  }
  // By the assistant, whose turn it belongs to where that was the last.
  void call(ToolCall call, const Json& id) {
    if (turns_.empty() || turns_.back().role != "assistant" || !turns_.back().results.empty())
      turns_.push_back({"assistant", ""});
    last_ = {.name = call.name, .turn = turns_.size() - 1};
    if (id.is_string()) by_id_.insert_or_assign(id.get<std::string>(), last_);
    by_name_.insert_or_assign(call.name, last_);
    turns_.back().calls.push_back(std::move(call));
  }
  Done result_of_id(const Json& id, std::string content, const std::string& where) {
    const auto called = id.is_string() ? by_id_.find(id.get<std::string>()) : by_id_.end();
    if (called == by_id_.end()) return wrong(where, id, "the id of a call before it");
    add(called->second, std::move(content));
    return {};
  }
  // Of the last call of the tool of that name; of the last one of all where there is no name.
  Done result_of_name(const Json& name, std::string content, const std::string& where) {
    if (last_.name.empty() && name.is_null()) return result_of_id(name, std::move(content), where + ".tool_call_id");
    const auto called = name.is_string() ? by_name_.find(name.get<std::string>()) : by_name_.end();
    if (called == by_name_.end() && !name.is_null())
      return wrong(where + ".tool_name", name, "the name of a tool that was called before it");
    add(called != by_name_.end() ? called->second : last_, std::move(content));
    return {};
  }
  std::vector<ChatMessage> take() {
    std::vector<ChatMessage> all;
    for (ChatMessage& turn : turns_) {
      auto results = std::exchange(turn.results, {});
      all.push_back(std::move(turn));
      if (!results.empty()) all.push_back({.role = "tool", .content = "", .results = std::move(results)});
    }
    return all;
  }

 private:
  struct Called {
    std::string name = {};  // of the tool
    size_t turn = 0;
  };
  bool calls_wait() const { return !turns_.empty() && !turns_.back().calls.empty() && turns_.back().results.empty(); }
  void add(const Called& called, std::string content) {
    turns_[called.turn].results.push_back({called.name, std::move(content)});
  }

  std::vector<ChatMessage> turns_;  // those of the assistant with the results of their calls
  std::map<std::string, Called> by_id_, by_name_;
  Called last_;
};

// The arguments are a text in OpenAI's protocols, an object in the others; `key` is their name in what stands at
// `where`.
Answered<ToolCall> read_call(const Json& call, const char* key, const std::string& where, const MessageForm& form) {
  const Json &name = member(call, "name"), &arguments = member(call, key);
  if (!name.is_string() || !is_tool_name(name.get_ref<const std::string&>()))
    return wrong(where + ".name", name, "the name of a tool");
  const std::string place = fmt::format("{}.{}", where, key);
  if (!arguments.is_null() && !arguments.is_object() && !arguments.is_string())
    return wrong(place, arguments, "a JSON object");
  std::string text = arguments.is_string() ? arguments.get<std::string>() : "";
  if (arguments.is_object()) text = spelled_text(form.body.text_of(arguments)).value_or("");
  return ToolCall{name.get<std::string>(), text.empty() ? "{}" : std::move(text)};
}

// OpenAI's and Ollama's list of calls in a message.
Done read_calls_of(const Json& calls, const std::string& where, const MessageForm& form, Conversation& out) {
  if (calls.is_null()) return {};
  if (!calls.is_array()) return wrong(where, calls, "a list of calls");
  for (size_t i = 0; i < calls.size(); ++i) {
    const Json& function = member(calls[i], "function");
    const std::string at = fmt::format("{}[{}].function", where, i);
    if (!function.is_object()) return wrong(at, function, "an object with name and arguments");
    LLADA_TRY(ToolCall call, read_call(function, "arguments", at, form));
    out.call(std::move(call), member(calls[i], "id"));
  }
  return {};
}

// Anthropic's blocks: text, calls and results; what the assistant thought is left out.
Done read_blocks(const Json& item, const std::string& where, const MessageForm& form, Conversation& out) {
  const std::string role = item["role"];
  Json texts = Json::array();
  const auto say = [&](bool always) -> Done {
    if (texts.empty() && !always) return {};
    LLADA_TRY(std::string text, read_content(std::exchange(texts, Json::array()), where, form));
    out.say(role, std::move(text));
    return {};
  };
  bool others = false;
  for (size_t i = 0; i < item["content"].size(); ++i) {
    const Json& block = item["content"][i];
    const std::string at = fmt::format("{}[{}]", where, i);
    const Json type = member(block, "type");
    if (type == "tool_use" && role == "assistant") {
      LLADA_TRY_STATUS(say(false));
      LLADA_TRY(ToolCall call, read_call(block, "input", at, form));
      out.call(std::move(call), member(block, "id"));
      others = true;
    } else if (type == "tool_result" && role == "user") {
      LLADA_TRY_STATUS(say(false));
      LLADA_TRY(std::string text, read_content(member(block, "content"), at + ".content", form));
      LLADA_TRY_STATUS(out.result_of_id(member(block, "tool_use_id"), std::move(text), at + ".tool_use_id"));
      others = true;
    } else if (role != "assistant" || (type != "thinking" && type != "redacted_thinking")) {
      texts.push_back(block);
    }
  }
  return say(!others);
}

// The items of /v1/responses that are no messages; thoughts are left out. False: it is one.
Answered<bool> read_item(const Json& item, const std::string& where, const MessageForm& form, Conversation& out) {
  const Json type = member(item, "type");
  if (type == "function_call") {
    LLADA_TRY(ToolCall call, read_call(item, "arguments", where, form));
    out.call(std::move(call), member(item, "call_id"));
    return true;
  }
  if (type == "reasoning") return true;
  if (type != "function_call_output") return false;
  LLADA_TRY(std::string text, read_content(member(item, "output"), where + ".output", form));
  LLADA_TRY_STATUS(out.result_of_id(member(item, "call_id"), std::move(text), where + ".call_id"));
  return true;
}

Done read_message(const Json& item, const std::string& where, const MessageForm& form, Conversation& out) {
  if (!item.is_object()) return wrong(where, item, "an object with role and content");
  const Dialect& dialect = form.dialect;
  if (dialect.calls == Calls::items) {
    LLADA_TRY(const bool read, read_item(item, where, form, out));
    if (read) return {};
    if (const Json type = item.value("type", Json("message")); type != "message")
      return wrong(where + ".type", type, "message, reasoning, function_call or function_call_output");
  }
  const Json role = item.value("role", Json());
  const bool chat = dialect.calls == Calls::in_messages, result = chat && role == "tool";
  if (role != "system" && role != "developer" && role != "user" && role != "assistant" && !result)
    return wrong(where + ".role", role, chat ? "system, user, assistant or tool" : "system, user or assistant");
  for (const auto& [key, value] : item.items()) {
    const bool idle = asks_nothing(value) || std::ranges::count(dialect.idle, key) > 0;
    const bool of_tools = (result && key == "tool_call_id") || (chat && role == "assistant" && key == "tool_calls");
    const bool refusal = chat && role == "assistant" && key == "refusal" && value.is_string();
    if (key != "role" && key != "content" && !idle && !of_tools && !refusal)
      return unsupported(fmt::format("{}.{}", where, key));
  }
  const Json content = item.value("content", Json());
  if (dialect.calls == Calls::blocks && content.is_array()) return read_blocks(item, where + ".content", form, out);
  LLADA_TRY(std::string text, read_content(content, where + ".content", form));
  if (const Json& refusal = member(item, "refusal"); chat && content.is_null() && refusal.is_string()) text = refusal;
  if (result) {
    const Json id = item.value("tool_call_id", Json());
    if (id.is_null() && !dialect.needs_ids)
      return out.result_of_name(item.value("tool_name", Json()), std::move(text), where);
    return out.result_of_id(id, std::move(text), where + ".tool_call_id");
  }
  out.say(role.get<std::string>(), std::move(text));
  return chat ? read_calls_of(member(item, "tool_calls"), where + ".tool_calls", form, out) : Done();
}

}  // namespace

Answered<std::vector<ChatMessage>> read_messages(Fields& body, const Dialect& dialect) {
  const std::string field = dialect.messages;
  const Json* list = body.find(field);
  const bool input = dialect.calls == Calls::items;
  if (list == nullptr)
    return refuse(input ? "input: is missing; needed a text or a list of messages"
                        : "messages: is missing; needed a list with at least one message",
                  field);
  if (input && list->is_string()) return std::vector{ChatMessage{"user", list->get<std::string>()}};
  if (!list->is_array() || list->empty()) return wrong(field, *list, "a list with at least one message");
  Conversation conversation;
  for (size_t i = 0; i < list->size(); ++i)
    LLADA_TRY_STATUS(read_message((*list)[i], fmt::format("{}[{}]", field, i), {dialect, body}, conversation));
  return conversation.take();
}

Answered<std::optional<std::string>> read_system(Fields& body) {
  static constexpr Dialect kPlain{};
  const Json* system = body.find("system");
  if (system == nullptr) return std::nullopt;
  LLADA_TRY(std::string text, read_content(*system, "system", {kPlain, body}));
  return text;
}

}  // namespace llada::serve
