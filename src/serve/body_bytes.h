// The bytes of a request's body, from the socket until they have been read. All bodies together have a bound, so that
// neither many connections nor requests that wait for a worker fill the memory.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace llada::serve {

// Usable from any thread.
class BodyBudget {
 public:
  explicit BodyBudget(size_t most) : most_(most) {}

  bool take(size_t bytes) {
    if (held_.fetch_add(bytes) + bytes <= most_) return true;
    held_ -= bytes;
    return false;
  }
  void give_back(size_t bytes) { held_ -= bytes; }
  size_t held() const { return held_; }

 private:
  const size_t most_;
  std::atomic<size_t> held_ = 0;
};

class BodyBytes {
 public:
  // What each body may have whatever the others hold: an ordinary request is never refused for long ones.
  static constexpr size_t kFree = size_t{64} << 10;

  BodyBytes() = default;
  explicit BodyBytes(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
  BodyBytes(BodyBytes&& other) noexcept { *this = std::move(other); }
  BodyBytes& operator=(BodyBytes&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(counted_, other.counted_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~BodyBytes() {
    if (budget_) budget_->give_back(counted_);
  }

  std::string_view text() const { return bytes_; }
  // False: there is no room for more.
  bool append(std::string_view more) {
    const size_t size = bytes_.size() + more.size(), counted = size > kFree ? size - kFree : 0;
    if (budget_ && counted > counted_) {
      if (!budget_->take(counted - counted_)) return false;
      counted_ = counted;
    }
    bytes_ += more;
    return true;
  }

 private:
  std::shared_ptr<BodyBudget> budget_;
  size_t counted_ = 0;
  std::string bytes_;
};

}  // namespace llada::serve
