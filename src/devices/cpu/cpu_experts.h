// A mixture of experts on the CPU: rows are grouped by expert, so that each touched expert's weights are read once per
// step whatever the number of its rows.
//
// All of a layer's work is one queue, from which the threads take tasks in order. First come the gate and up products
// of every expert, each some tasks behind the gathering of its rows, then the down products, then the rows' sums. While
// one thread lists the tasks, the others round each row to int8 once; an expert's rows are then picked from those.
// Where there are few experts, or one outweighs the others, they are cut into column ranges, so that the last tasks are
// small. Within a stage, experts with many rows (bound by arithmetic) alternate with experts with few rows, so that
// both resources are always busy. The latter are bound by memory, which one thread nearly exhausts. A task waits only
// for the expert whose result it needs, which is before it in the queue and so under way.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "devices/cpu/cpu_weights.h"
#include "devices/cpu/scratch.h"
#include "devices/experts.h"

namespace llada {

class CpuExperts {
 public:
  struct Job {
    const kernels::KernelTable* kernels;
    ThreadPool* pool;
    std::span<const CpuWeight> weights;
    const Op* op;
    const float* x;      // rows x width
    const float* gates;  // rows x experts; 0: the row does not go there
    int64_t rows;
    float* out;  // rows x width
    // Gate, up and down of a shared expert of the experts' shape and types, which every row passes (fits_beside); its
    // result is beside(). Its arithmetic fills the time in which the threads would wait for the experts' weights. Null:
    // none; not together with a plan.
    const std::array<WeightId, 3>* shared = nullptr;
    // Computes two parts, the accelerator's experts and the host's, each in its order; null: one. An expert with slices
    // in both parts is the sum of two products, which differs from the whole by the rounding of one more addition.
    const ExpertsPlan* plan = nullptr;
  };
  Status run(const Job& job);
  int64_t touched() const { return touched_; }  // experts with a row in the last run
  // The rows that Job::shared computed, rows x width; until the next run.
  const float* beside() const { return y_ + groups_.back().begin * beside_width_; }
  // The gated rows of an expert, which its down matrix is multiplied by; until the next run. Empty: no row chose it.
  std::span<const float> hidden(int expert) const;
  static bool fits_beside(std::span<const CpuWeight> weights, const Op& op, const std::array<WeightId, 3>& shared);
  int64_t memory_bytes() const { return buffer_.bytes() + rounded_.bytes(); }

 private:
  // The rows of one touched expert, at [begin, begin + count) of the gathered rows; the shared network's are the last.
  static constexpr int kShared = -1;
  struct Group {
    int expert;
    int64_t begin, count;
    int64_t activations;  // offset in bytes
  };
  enum class Stage : uint8_t { gather, gate_up, down, sum };
  struct Task {
    Stage stage;
    int64_t at;      // group; sum: first row
    int64_t n0, n1;  // columns of gate and up, or of down; sum: last row in n1
  };
  // How far one group is. Its own cache line: all threads look at it.
  struct alignas(64) Progress {
    std::atomic<int64_t> gathered{0};  // 1: gate_up may start
    std::atomic<int64_t> products{0};  // gate_up tasks that are done
    std::atomic<int64_t> hidden{0};    // 1: down may start
  };

  Status prepare(const Job& job);  // all that comes before the tasks, on all threads
  Status plan_run(const Job& job);
  void group_rows(const Job& job);
  bool rounds(const Job& job) const;  // whether gate and up multiply integers
  void gather(const Job& job, const Group& group) const;
  Status reserve(const Job& job);
  // Tasks of the groups of `order`, in that order; with `sums` also the rows' sums.
  void list_tasks(const Job& job, const std::vector<int64_t>& order, bool sums);
  // Alternates tasks of many and of few rows, given in descending order of rows, each at most as far as to keep the
  // rows per task near their mean.
  void mix(std::vector<Task>& tasks) const;
  // Prefetches the first weights of a task, as the kernels do within a product.
  void fetch_head(const Job& job, int slot, const Task& task) const;
  void fetch_shared(const Job& job, const std::atomic<bool>& stop) const;
  void fetch_next(const Job& job) const;  // of the task that is likely to be this thread's next
  void run_tasks(const Job& job);
  void run_host_part(const Job& job, const std::vector<int64_t>& order);
  Status run_parts(const Job& job);
  Status run_slices(const Job& job);
  Result<std::vector<int64_t>> part_of(const Job& job, bool on_device);
  void keep_slices(const Job& job, int64_t group) const;
  void perform(const Job& job, const Task& task);
  const CpuWeight& weight(const Job& job, int slot, const Group& group) const;
  void multiply(const Job& job, int slot, const Task& task, const float* x, float* y) const;
  void add_up(const Job& job, int64_t row) const;

  std::vector<Group> groups_;
  int64_t touched_ = 0, beside_width_ = 0, inner_ = 0;
  std::vector<int32_t> gathered_;  // row of each gathered row
  std::vector<int32_t> routed_;    // rows x experts_used: experts of each row, ascending; -1: none
  std::vector<int64_t> ends_;      // of each expert, the end of its gathered rows so far
  std::vector<int64_t> places_;    // rows x experts_used: gathered rows of each row, experts ascending; -1: none
  std::vector<Task> tasks_;
  std::vector<int64_t> cuts_;  // gate_up tasks of each group
  // With slices, of each group: those of the part under way, and those of the part before it.
  std::vector<uint64_t> slices_, slices_before_;
  std::unique_ptr<Progress[]> progress_;
  size_t progress_size_ = 0;
  std::atomic<int64_t> next_{0}, products_left_{0};  // down tasks that are not done
  Scratch buffer_;
  Scratch rounded_;  // all rows as int8
  // x_: rows that are gathered as floats, where floats are multiplied.
  float *x_ = nullptr, *gate_ = nullptr, *up_ = nullptr, *y_ = nullptr;
  float* more_ = nullptr;  // with slices: the second part's sums, which are added to y_
  std::byte* activations_ = nullptr;
};

}  // namespace llada
