// The experts of a mixture on emulated lanes: carries out sched's plan for a layer and refuses moves that the hardware
// could not do. Host experts are tasks of the cpu lane, the accelerator's of the npu lane. Moves are three pieces each
// on the dma lane, or on the map lane where pages are mapped instead of copied. A moved expert's products wait for its
// pieces one by one. Beside the slots of residents there are staging slots (costs.staging). A move ahead lands in one
// of those while the expert that it replaces is in use; then the two change roles.
#pragma once
#include <array>
#include <map>
#include <vector>

#include "base/error.h"
#include "devices/expert_books.h"
#include "study/sim/lanes.h"

namespace llada {

class ExpertLanes {
 public:
  ExpertLanes(Lanes& lanes, const ExpertCosts& costs, const ExpertWindow& window, bool labels);

  // Adds the layer's tasks after `after`. Returns a task that ends when all of them have, background moves excepted.
  // Fails for work on an expert that is neither resident nor moved, and for more residents than slots.
  Result<TaskId> run(const ExpertsPlan& plan, TaskId after);

  // The link's queue and the experts still on their way, at the lanes' present time.
  ExpertLink link();

  int64_t moved_bytes() const { return moved_bytes_; }  // bytes of pieces that have moved or will
  bool resident(ExpertId id) const { return books_.resident(id); }
  // Makes an expert resident at the start of an experiment, at no cost.
  Status place(ExpertId id);

 private:
  using Where = ExpertBooks::Where;
  struct Move {
    std::array<TaskId, 3> pieces{};
    bool background = false;
  };
  // A staging slot: whose products still have to be put in the queue (-1: nobody's), and the last task that
  // needs it.
  struct Slot {
    int32_t expert = -1;
    TaskId used = kNoTask;
  };
  // One call of run().
  struct Layer {
    const ExpertsPlan& plan;
    TaskId after = kNoTask, wait = kNoTask, last_move = kNoTask;
    std::vector<ExpertWork> host = {}, device = {};
    size_t next_device = 0;
    int32_t last_there = -1;  // the accelerator's last, where it was there from the beginning
    int32_t last_host = -1;
    std::map<int32_t, Move> moved = {};  // of this layer, not ahead
  };
  Status add_move(Layer& layer, const ExpertMove& move);
  TaskId add_host(Layer& layer, const ExpertWork& work);
  Status add_device(Layer& layer);
  Lane link_lane() const { return costs_.link_reads_memory ? Lane::dma : Lane::map; }
  TaskId add_piece(ExpertId id, int piece, TaskId after, bool background);
  Status make_room(const ExpertMove& move);
  Status cancel(ExpertId id);
  Status keep(const ExpertMove& move);
  void drop_pieces(ExpertId id);
  void hurry(ExpertId id);  // the rest of a background move goes before everything else

  Lanes& lanes_;
  const ExpertCosts costs_;
  const bool labels_;
  ExpertBooks books_;
  int64_t moved_bytes_ = 0;
  std::map<ExpertId, Move> arriving_;
  std::vector<ExpertId> order_;  // of arriving_, as asked for
  std::vector<Slot> staging_;
  size_t next_staging_ = 0;
};

}  // namespace llada
