#include "base/trace.h"

#include <map>

#include "base/file.h"

namespace llada {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + '"';
}

}  // namespace

Trace::Trace() : begin_(std::chrono::steady_clock::now()) {}

double Trace::now_us() const {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin_).count();
}

void Trace::add(Span span) {
  const std::lock_guard lock(mutex_);
  spans_.push_back(std::move(span));
}

std::vector<Trace::Span> Trace::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_;
}

Status Trace::write(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, int> lanes;
  for (const Span& span : spans_) lanes.emplace(span.lane, static_cast<int>(lanes.size()) + 1);
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (const auto& [lane, id] : lanes)
    out += fmt::format("{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":{},\"args\":{{\"name\":{}}}}},\n", id,
                       quoted(lane));
  for (const Span& span : spans_)
    out += fmt::format("{{\"ph\":\"X\",\"name\":{},\"pid\":1,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{}}},\n",
                       quoted(span.name), lanes[span.lane], span.start_us, span.duration_us,
                       span.arguments.empty() ? "{}" : span.arguments);
  out += "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"llada\"}}]}\n";
  return write_file(path, out);
}

}  // namespace llada
