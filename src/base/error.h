// Errors as values. Expected failure (bad input, missing memory, a dead device) is a Result; a bug is LLADA_CHECK. An
// error's kind says who has to act, and is the process exit status: invalid_input 2, the others 1. Deliberately absent:
// exceptions across layers, error codes, global state.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <expected>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace llada {

enum class ErrorKind {
  invalid_input,  // the request or a file is wrong; exit status 2
  too_large,      // an input is larger than the context, or a form, may be; a smaller one would do; 2
  failed,         // the work failed: device, I/O, memory; exit status 1
  memory,         // this machine has no memory or thread left for it; 1
  data,  // numbers of the work are not finite, whichever device computes: weights or activations are damaged; 1
};

struct Error {
  ErrorKind kind = ErrorKind::failed;
  std::string message;  // one line that names the file, the field, the value found and the value needed
  // Where the message names the field of a request or a file that is wrong; 0 bytes: it names none.
  uint32_t field_begin = 0, field_bytes = 0;

  bool of_input() const { return kind == ErrorKind::invalid_input || kind == ErrorKind::too_large; }
  std::string_view field() const { return std::string_view(message).substr(field_begin, field_bytes); }
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

// Compiled once: a call with arguments of other types shall not cost another copy of it.
std::unexpected<Error> error_of(ErrorKind kind, fmt::string_view format, fmt::format_args args);

template <class... Args>
std::unexpected<Error> invalid(fmt::format_string<Args...> format, Args&&... args) {
  return error_of(ErrorKind::invalid_input, format, fmt::make_format_args(args...));
}

template <class... Args>
std::unexpected<Error> too_large(fmt::format_string<Args...> format, Args&&... args) {
  return error_of(ErrorKind::too_large, format, fmt::make_format_args(args...));
}

template <class... Args>
std::unexpected<Error> failed(fmt::format_string<Args...> format, Args&&... args) {
  return error_of(ErrorKind::failed, format, fmt::make_format_args(args...));
}

template <class... Args>
std::unexpected<Error> no_memory(fmt::format_string<Args...> format, Args&&... args) {
  return error_of(ErrorKind::memory, format, fmt::make_format_args(args...));
}

template <class... Args>
std::unexpected<Error> damaged(fmt::format_string<Args...> format, Args&&... args) {
  return error_of(ErrorKind::data, format, fmt::make_format_args(args...));
}

// The error of a std::system_error. std::thread has no other way to say that it got none: a limit, or no memory for a
// stack.
inline constexpr const char* kNoThread = "the system gives no thread or no memory for one";
inline Error error_of(const std::system_error& error) {
  if (error.code() == std::errc::resource_unavailable_try_again) return {ErrorKind::memory, kNoThread};
  return {ErrorKind::failed, error.what()};
}

// Turns std::bad_alloc and a failure to start a thread into an Error of the work that asked. For code that may not
// throw: an interface, a thread's own function. The message about memory allocates nothing.
inline constexpr const char* kOutOfMemory = "out of memory";
template <class Work>
auto within_memory(Work&& work) -> decltype(work()) {
  try {
    try {
      return work();
    } catch (const std::system_error& error) {
      return std::unexpected(error_of(error));
    }
  } catch (const std::bad_alloc&) {
    return std::unexpected(Error{ErrorKind::memory, kOutOfMemory});
  }
}

inline int exit_status(const Error& error) { return error.of_input() ? 2 : 1; }

}  // namespace llada

#define LLADA_CONCAT_(a, b) a##b
#define LLADA_CONCAT(a, b) LLADA_CONCAT_(a, b)

// LLADA_TRY(auto file, MappedFile::open(path)); returns the error to the caller, otherwise binds the value.
#define LLADA_TRY(declaration, expression)                                                                    \
  auto LLADA_CONCAT(try_, __LINE__) = (expression);                                                           \
  if (!LLADA_CONCAT(try_, __LINE__)) return std::unexpected(std::move(LLADA_CONCAT(try_, __LINE__)).error()); \
  declaration = std::move(*LLADA_CONCAT(try_, __LINE__))

// The same for a Status, where there is no value to bind.
#define LLADA_TRY_STATUS(expression)                                                   \
  if (auto LLADA_CONCAT(try_, __LINE__) = (expression); !LLADA_CONCAT(try_, __LINE__)) \
  return std::unexpected(std::move(LLADA_CONCAT(try_, __LINE__)).error())
