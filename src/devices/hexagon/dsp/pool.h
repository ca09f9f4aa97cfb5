// Workers that share the tasks of one op: the calling thread is worker 0. Within a batch an idle worker polls for the
// next op before it sleeps, and the caller polls for the others' end. Between batches they sleep. Which worker takes a
// task is chance; results never depend on it.
#pragma once
#include <stdint.h>

#include "devices/hexagon/dsp/os.h"

namespace dsp {

class Pool {
 public:
  // Sets how many workers the next run()s have, the caller included; 0: as many as the DSP has threads. Starts missing
  // threads. Returns the number that there is.
  uint32_t use(uint32_t workers);
  uint32_t workers() const { return workers_; }

  void stop();  // ends the threads, so that the module may be unloaded

  // Calls body(context, task, worker) for every task below `tasks`, on all workers; returns when all are done.
  void run(uint32_t tasks, void (*body)(void* context, uint32_t task, uint32_t worker), void* context);

  template <class Body>
  void each(uint32_t tasks, const Body& body) {
    run(
        tasks,
        [](void* context, uint32_t task, uint32_t worker) { (*static_cast<const Body*>(context))(task, worker); },
        const_cast<Body*>(&body));
  }

  // While one lives, workers poll so often before they sleep (0: os_polls()). It sets packets() and wakes() to 0.
  class Awake {
   public:
    Awake(Pool& pool, uint32_t polls);
    ~Awake();
    Awake(const Awake&) = delete;
    Awake& operator=(const Awake&) = delete;

   private:
    Pool& pool_;
  };
  uint64_t packets() const;  // instruction packets that all workers executed inside run()
  uint32_t wakes() const { return __atomic_load_n(&wakes_, __ATOMIC_RELAXED); }  // calls of os_wake()

 private:
  struct Worker {
    Pool* pool;
    uint32_t index;
    uint32_t packets;
    uint32_t seen;  // generation_ when it was started
  };
  static void main(void* argument);
  void work(uint32_t worker);
  // Until *word is no longer `seen`; asleep: how many sleep for it, so that whoever changes it knows.
  void await(uint32_t* word, uint32_t seen, uint32_t* asleep);
  void wake(uint32_t* word, const uint32_t* asleep);

  bool stopping_ = false;
  uint32_t started_ = 1, workers_ = 1;
  uint32_t generation_ = 0;  // a job each; futex word
  uint32_t next_ = 0, tasks_ = 0;
  uint32_t busy_ = 0;  // workers that have not finished the job; futex word
  uint32_t sleepers_ = 0, caller_sleeps_ = 0;
  uint32_t polls_ = 0;  // 0 between batches
  uint32_t wakes_ = 0;
  void (*body_)(void*, uint32_t, uint32_t) = nullptr;
  void* context_ = nullptr;
  Worker each_[kMaxWorkers] = {};
};

}  // namespace dsp
