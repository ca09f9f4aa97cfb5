#include "api/handles.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <shared_mutex>
#include <unordered_map>

namespace llada::api {
namespace {

constexpr uintptr_t kKinds = 8;  // a handle's number is a multiple of this, and its kind

struct Registry {
  std::shared_mutex mutex;  // guards the members below
  std::unordered_map<uintptr_t, std::shared_ptr<Object>> live;
  uintptr_t next = 1;
};

// Never destroyed: engines that nobody freed still run while a process ends.
Registry& registry() {
  static Registry* const the = new Registry;
  return *the;
}

bool is_of(Kind kind, uintptr_t number) { return number % kKinds == static_cast<uintptr_t>(kind); }

thread_local ErrorLine last_line, asked_line;

}  // namespace

void ErrorLine::set(std::string_view text) noexcept {
  const size_t size = std::min(text.size(), text_.size() - 1);
  std::memcpy(text_.data(), text.data(), size);
  text_[size] = '\0';
}

void Object::set_error(std::string_view line) noexcept {
  const std::lock_guard lock(error_mutex_);
  error_.set(line);
}

void Object::copy_error(ErrorLine& to) const noexcept {
  const std::lock_guard lock(error_mutex_);
  to = error_;
}

std::shared_ptr<Object> find(Kind kind, const void* handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (!is_of(kind, number)) return nullptr;
  Registry& all = registry();
  const std::shared_lock lock(all.mutex);
  const auto found = all.live.find(number);
  return found == all.live.end() ? nullptr : found->second;
}

void* add_handle(Kind kind, std::shared_ptr<Object> object) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const uintptr_t number = all.next * kKinds + static_cast<uintptr_t>(kind);
  all.live.emplace(number, std::move(object));
  ++all.next;
  return std::bit_cast<void*>(number);
}

std::shared_ptr<Object> release(Kind kind, const void* handle) noexcept {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (!is_of(kind, number)) return nullptr;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.live.find(number);
  if (found == all.live.end()) return nullptr;
  auto object = std::move(found->second);
  all.live.erase(found);
  return object;
}

llada_status report(Object* object, llada_status status, std::string_view line) noexcept {
  last_line.set(line);
  if (object != nullptr) object->set_error(line);
  return status;
}

const char* last_error(const void* handle) noexcept {
  if (handle == nullptr) return last_line.text();
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (const auto object = find(static_cast<Kind>(number % kKinds), handle))
    object->copy_error(asked_line);
  else
    asked_line.set("handle: found one that is not open");
  return asked_line.text();
}

}  // namespace llada::api
