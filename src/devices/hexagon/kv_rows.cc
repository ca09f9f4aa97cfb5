#include "devices/hexagon/kv_rows.h"

#include <algorithm>
#include <cstring>

#include "devices/hexagon/batch.h"
#include "devices/hexagon/session.h"

namespace llada::hexagon {
namespace {

constexpr double kMostSeconds = 60;

class DspRows final : public KvKeeper {
 public:
  DspRows(const KvStore& store, std::shared_ptr<Buffer> buffer, std::shared_ptr<std::atomic<int64_t>> lines)
      : heads_(heads_of(store)), buffer_(std::move(buffer)), lines_(std::move(lines)) {}

  // When a process has ended, the system has written everything back.
  void flush(std::span<const KvRows> rows) override {
    buffer_->give();
    constexpr size_t kMost = WIRE_MAX_RANGES / 2;
    for (; !rows.empty(); rows = rows.subspan(std::min(kMost, rows.size())))
      if (const auto session = buffer_->session(); session != nullptr)
        ask(*session, rows.first(std::min(kMost, rows.size())));
    buffer_->take();
  }

 private:
  void ask(Session& session, std::span<const KvRows> rows) {
    if (!session.alive()) return session.end_process();
    const uint32_t number = session.promised(*buffer_);
    if (number >= WIRE_BUFFERS) return;
    std::vector<WireRange> ranges;
    add_rows(heads_, number, rows, WIRE_HOST_READS, ranges);
    WireBatch head{};
    head.magic = WIRE_MAGIC, head.version = WIRE_VERSION;
    head.range_count = static_cast<uint32_t>(ranges.size());
    head.threads = 1;
    head.scratch = head.flags = {WIRE_NO_BUFFER, 0};
    std::vector<std::byte> batch(sizeof head + ranges.size() * sizeof(WireRange));
    std::memcpy(batch.data(), &head, sizeof head);
    std::memcpy(batch.data() + sizeof head, ranges.data(), ranges.size() * sizeof(WireRange));
    const auto reply = session.run(batch, 0, kMostSeconds);
    if (!reply) return session.end_process();
    if (reply->status != WIRE_OK) return session.end_process("giving keys and values back: the DSP refuses the batch");
    *lines_ += reply->lines;
  }

  KvHeads heads_;
  std::shared_ptr<Buffer> buffer_;
  std::shared_ptr<std::atomic<int64_t>> lines_;
};

}  // namespace

KeptStores keep_stores(const StepInputs& inputs, const Library& library,
                       const std::shared_ptr<std::atomic<int64_t>>& lines) {
  KeptStores stores;
  for (const Stream& s : inputs.streams) {
    auto buffer = s.kv != nullptr ? library.find(s.kv->memory()) : nullptr;
    if (buffer == nullptr) continue;
    if (s.kv->keeper() == nullptr) s.kv->keep_with(std::make_shared<DspRows>(*s.kv, buffer, lines));
    stores.written.push_back(s.kv->take_stale());
    if (!stores.written.back().empty()) buffer->give();
    stores.buffers.push_back(std::move(buffer));
  }
  return stores;
}

}  // namespace llada::hexagon
