#include "formats/made_weights.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "base/check.h"
#include "formats/printable.h"
#include "formats/rounded_rows.h"

namespace llada {

MadeWeights::MadeWeights(std::vector<RoundedMatrix> matrices, std::string file)
    : matrices_(std::move(matrices)), file_(std::move(file)) {
  const int64_t page = page_bytes();  // so that one matrix's pages can be given back without another's
  int64_t at = 0;
  for (const RoundedMatrix& m : matrices_) {
    begins_.push_back(at);
    at += (m.row_bytes() * m.rows() + page - 1) / page * page;
  }
  begins_.push_back(at);
}

Result<std::shared_ptr<MadeWeights>> MadeWeights::create(std::vector<RoundedMatrix> matrices, std::string file) {
  std::shared_ptr<MadeWeights> made(new MadeWeights(std::move(matrices), std::move(file)));
  made->bytes_ = allocate_aligned(made->begins_.back());
  if (made->bytes_ == nullptr)
    return no_memory("{}: {} bytes of addresses for its weights could not be had", made->file_, made->begins_.back());
  return made;
}

TensorView MadeWeights::view(size_t index) const {
  return {bytes_.get() + begins_[index], matrices_[index].type, matrices_[index].shape()};
}

bool MadeWeights::holds(const TensorView& view) const {
  return !std::less<>()(view.data, bytes_.get()) && std::less<>()(view.data, bytes_.get() + begins_.back());
}

size_t MadeWeights::index_of(const TensorView& view) const {
  LLADA_CHECK(holds(view));
  const auto after = std::ranges::upper_bound(begins_, view.data - bytes_.get());
  return static_cast<size_t>(after - begins_.begin()) - 1;
}

Status MadeWeights::make(const TensorView& view, ThreadPool* pool) {
  const size_t index = index_of(view);
  const RoundedMatrix& m = matrices_[index];
  const std::lock_guard lock(mutex_);
  if (made_.contains(view.data)) return {};
  std::byte* const to = bytes_.get() + (view.data - bytes_.get());
  const int64_t first = (view.data - bytes_.get() - begins_[index]) / m.row_bytes(), rows = view.shape.rows();
  constexpr int64_t kRows = 32;  // of one task: neighbours share lines of the file where it has columns
  std::atomic<bool> finite = true;
  const auto task = [&](int64_t chunk, int) {
    const int64_t row = chunk * kRows;
    if (!write_rows(m, first + row, std::min(kRows, rows - row), to + row * m.row_bytes())) finite = false;
  };
  const int64_t tasks = (rows + kRows - 1) / kRows;
  if (pool != nullptr) {
    pool->run(tasks, task);
  } else {
    for (int64_t chunk = 0; chunk < tasks; ++chunk) task(chunk, 0);
  }
  if (!finite)
    return invalid("{}: {} has a scale that is not finite, or too large for {}", file_, printable(m.name),
                   traits(m.type).name);
  made_.insert(view.data);
  return {};
}

bool MadeWeights::has_own_codes(const TensorView& view) const {
  const RoundedMatrix& m = matrices_[index_of(view)];
  return m.layout == RoundedMatrix::Layout::rows || view.shape.rows() == m.rows();
}

std::span<const std::byte> MadeWeights::stored(const TensorView& view) const {
  const size_t index = index_of(view);
  const RoundedMatrix& m = matrices_[index];
  const int64_t row = m.in * m.bits / 8;
  if (m.layout != RoundedMatrix::Layout::rows) return {m.codes, static_cast<size_t>(m.out * row)};
  const int64_t first = (view.data - bytes_.get() - begins_[index]) / m.row_bytes();
  return {m.codes + first * row, static_cast<size_t>(view.shape.rows() * row)};
}

void MadeWeights::forget(const TensorView& view) {
  const std::lock_guard lock(mutex_);
  if (keep_ || made_.erase(view.data) == 0) return;
  std::byte* const rows = bytes_.get() + (view.data - bytes_.get());
  release_pages(rows, view.bytes());
  llada::forget(rows, view.bytes());
}

void MadeWeights::keep() {
  const std::lock_guard lock(mutex_);
  keep_ = true;
}

}  // namespace llada
