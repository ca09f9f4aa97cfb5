// The objects behind the handles of llada.h. A handle is a number that looks like a pointer and is never read through.
// The registry maps the numbers of live objects to them, so a freed, foreign or invented handle is found out. A call
// holds a share of its object, so that freeing it from another thread ends nothing half-way.
//
// Every function of the C API is one of the wrappers below, which turn errors into a status and a line, and exceptions
// (of libraries, of memory) into errors. The registry and a thread's last error line are the state that a C API needs;
// there is no other.
#pragma once
#include <array>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "engine/engine.h"
#include "llada/llada.h"

namespace llada::api {

struct ApiError {
  llada_status status = LLADA_ERROR_FAILED;
  std::string message;
  ApiError(llada_status code, std::string text) : status(code), message(std::move(text)) {}
  ApiError(const Error& error)  // NOLINT: an engine's error is one
      : status(error.of_input()                  ? LLADA_ERROR_INVALID
               : error.kind == ErrorKind::memory ? LLADA_ERROR_MEMORY
                                                 : LLADA_ERROR_FAILED),
        message(error.message) {}
};
using Outcome = std::expected<llada_status, ApiError>;
template <class... Args>
std::unexpected<ApiError> refuse(llada_status status, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(ApiError(status, fmt::format(format, std::forward<Args>(args)...)));
}

// One line in a fixed buffer, so that setting it allocates nothing; longer ones are cut off.
class ErrorLine {
 public:
  void set(std::string_view text) noexcept;
  const char* text() const { return text_.data(); }

 private:
  std::array<char, 1024> text_{};
};

class Object {
 public:
  virtual ~Object() = default;
  void set_error(std::string_view line) noexcept;
  void copy_error(ErrorLine& to) const noexcept;

 private:
  mutable std::mutex error_mutex_;
  ErrorLine error_;
};

enum class Kind : uintptr_t { options = 1, model, engine, request };

// Null: no live object of that kind.
std::shared_ptr<Object> find(Kind kind, const void* handle);
// A new handle; throws std::bad_alloc.
void* add_handle(Kind kind, std::shared_ptr<Object> object);
// Takes the object from its handle, which is invalid from then on.
std::shared_ptr<Object> release(Kind kind, const void* handle) noexcept;

// Notes the line for this thread and the object, which may be null.
llada_status report(Object* object, llada_status status, std::string_view line) noexcept;
const char* last_error(const void* handle) noexcept;

template <class Work>
llada_status guarded(Object* object, const Work& work) noexcept {
  try {
    const Outcome outcome = work();
    return outcome ? *outcome : report(object, outcome.error().status, outcome.error().message);
  } catch (const std::bad_alloc&) {
    return report(object, LLADA_ERROR_MEMORY, kOutOfMemory);
  } catch (const std::system_error& error) {
    const bool exhausted = error.code() == std::errc::resource_unavailable_try_again;  // a thread that cannot be had
    return report(object, exhausted ? LLADA_ERROR_MEMORY : LLADA_ERROR_FAILED, exhausted ? kNoThread : error.what());
  } catch (const std::exception& error) {
    return report(object, LLADA_ERROR_FAILED, error.what());
  } catch (...) {
    return report(object, LLADA_ERROR_FAILED, "an exception of another library");
  }
}

// T::kKind: its kind; T::kName: its name in errors. Null: no live object.
template <class T>
std::shared_ptr<T> live(const void* handle) {
  return std::static_pointer_cast<T>(find(T::kKind, handle));
}

// Calls work(T&) on a live object.
template <class T, class Work>
llada_status with(const void* handle, const Work& work) noexcept {
  std::shared_ptr<T> object;
  const llada_status found = guarded(nullptr, [&]() -> Outcome {
    object = live<T>(handle);
    if (object) return LLADA_OK;
    return refuse(LLADA_ERROR_HANDLE, "{}: found {}, needed one that is open", T::kName,
                  handle == nullptr ? "a null handle" : "a handle that was freed or is of another kind");
  });
  return found == LLADA_OK ? guarded(object.get(), [&] { return work(*object); }) : found;
}

// Stores a new handle.
template <class Public, class T>
void hand_out(std::shared_ptr<T> object, Public** out) {
  *out = static_cast<Public*>(add_handle(T::kKind, std::move(object)));
}

}  // namespace llada::api
