// Which experts are in device memory, and the copies that bring them there. An expert is copied in three pieces. A
// thread copies each to pinned staging, and a stream of its own from there to the GPU; an event for each lets products
// wait. It carries out sched's plan and refuses impossible moves (an expert that is not there, more residents than
// slots). A slot takes any expert; it is overwritten only after the kernels that read it.
#pragma once
#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "devices/cuda/cuda_device.h"
#include "devices/cuda/runtime.h"
#include "devices/expert_books.h"
#include "devices/experts.h"

namespace llada::cuda {

// The three matrices of each expert: gate, up, down. bytes: of the largest of each kind.
using ExpertPieces = std::map<ExpertId, std::array<WeightId, 3>>;
ExpertPieces find_pieces(std::span<const WeightInfo> infos, std::span<const TensorView> views, int32_t first_layer,
                         std::array<int64_t, 3>& bytes);

class ExpertSlots {
 public:
  ~ExpertSlots();
  using Source = std::function<std::span<const std::byte>(ExpertId, int piece)>;  // stored bytes

  // memory: bytes_needed(), on the GPU, for as long as this lives. piece_bytes: of the largest in any layer; layers may
  // store theirs in smaller types.
  static Result<std::unique_ptr<ExpertSlots>> create(uint8_t* memory, const CudaExperts& experts,
                                                     std::array<int64_t, 3> piece_bytes, Source source);
  static int64_t bytes_needed(const CudaExperts& experts, std::array<int64_t, 3> piece_bytes);

  ExpertLink link(const ExpertCosts& costs);
  // Continues background moves as far as the link is idle.
  Status pump();

  // ---- One layer, in this order. `compute` is where the products are queued.
  Status cancel(ExpertId id);
  Status assign(const ExpertMove& move, cudaStream_t compute);  // a place, and room for it
  // An expert of the layer: its slot's device address; null: not there and not assigned.
  const uint8_t* address(ExpertId id, int piece) const;
  bool arrived(ExpertId id);                                  // all its pieces are there
  Status copy(ExpertId id);                                   // queues the rest of its copies
  Status wait(ExpertId id, int piece, cudaStream_t compute);  // later work on `compute` waits for that piece
  // Its products are queued; a staged expert gives its slot back.
  Status used(const ExpertMove& move, cudaStream_t compute);
  Status release(ExpertId id, cudaStream_t compute);          // from the buffer
  Status keep(const ExpertMove& move, cudaStream_t compute);  // from the buffer to a slot
  Status add_background(const ExpertMove& move, cudaStream_t compute);
  Status wait_for_copies();  // blocks the calling thread until the link is idle

  ExpertTraffic traffic();

 private:
  struct Slot {
    uint8_t* data = nullptr;
    Event used;
    std::array<Event, 3> piece;
    std::array<int64_t, 3> ticket = {0, 0, 0};  // of the present expert's pieces
    bool was_used = false;
  };
  struct Held {
    size_t slot = 0;
    int next_piece = 0;  // to be copied; 3: all are queued
    bool arrived = false;
    bool background = false;
  };
  struct Pinned {
    SharedBytes data;
    Event done;
  };
  struct Job {
    size_t slot = 0;
    int piece = 0;
    std::span<const std::byte> from = {};
    bool after_use = false;  // waits for the kernels that read the slot before
  };
  explicit ExpertSlots(const CudaExperts& experts)
      : experts_(experts),
        books_(
            "cuda",
            {.layers = experts.layers, .experts = experts.experts, .slots = experts.slots, .buffer = experts.buffer}) {}
  void work();
  Status carry_out(const Job& job);
  bool queued(int64_t ticket);  // its copy is on the stream
  Status wait_queued(int64_t ticket);
  Status enter(ExpertId id, MoveTo to);
  Status leave(ExpertId id, cudaStream_t compute);
  Status make_room(const ExpertMove& move, cudaStream_t compute);
  Status copy_piece(ExpertId id, Held& held);

  const CudaExperts experts_;
  ExpertBooks books_;
  std::array<int64_t, 3> piece_bytes_{}, offsets_{};
  Source source_;
  std::vector<Slot> slots_;
  std::deque<size_t> free_;  // the one that waited longest first
  std::map<ExpertId, Held> held_;
  std::vector<ExpertId> arriving_;  // residents and guesses, as asked for
  std::vector<Pinned> pinned_;
  Queue stream_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  int64_t asked_ = 0, done_ = 0;  // tickets: pieces given to the thread; of those on the stream
  Status status_;                 // of the copies so far; after an error none is made
  bool ends_ = false;
  ExpertTraffic traffic_;
  std::thread thread_;
};

}  // namespace llada::cuda
