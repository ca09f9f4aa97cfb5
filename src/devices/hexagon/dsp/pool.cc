#include "devices/hexagon/dsp/pool.h"

namespace dsp {

uint32_t Pool::use(uint32_t workers) {
  const uint32_t most = os_threads() < kMaxWorkers ? os_threads() : kMaxWorkers;
  if (workers == 0 || workers > kMaxWorkers) workers = most;
  while (started_ < workers) {
    each_[started_] = {this, started_, 0, generation_};
    if (!os_start_worker(started_, main, &each_[started_])) break;
    ++started_;
  }
  return workers_ = workers < started_ ? workers : started_;
}

void Pool::work(uint32_t worker) {
  const auto begin = static_cast<uint32_t>(os_packets());
  for (;;) {
    const uint32_t task = __atomic_fetch_add(&next_, 1u, __ATOMIC_SEQ_CST);
    if (task >= tasks_) break;
    body_(context_, task, worker);
  }
  each_[worker].packets += static_cast<uint32_t>(os_packets()) - begin;
}

void Pool::await(uint32_t* word, uint32_t seen, uint32_t* asleep) {
  for (uint32_t look = 0; look < __atomic_load_n(&polls_, __ATOMIC_RELAXED); ++look) {
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != seen) return;
    os_pause();
  }
  // Whoever changes the word looks at `asleep` behind that, and the sleep looks at the word behind this.
  __atomic_add_fetch(asleep, 1u, __ATOMIC_SEQ_CST);
  os_wait(word, seen);
  __atomic_sub_fetch(asleep, 1u, __ATOMIC_SEQ_CST);
}

void Pool::wake(uint32_t* word, const uint32_t* asleep) {
  if (__atomic_load_n(asleep, __ATOMIC_SEQ_CST) == 0) return;
  __atomic_add_fetch(&wakes_, 1u, __ATOMIC_RELAXED);
  os_wake(word);
}

void Pool::main(void* argument) {
  auto* self = static_cast<Worker*>(argument);
  Pool& pool = *self->pool;
  for (uint32_t seen = self->seen;;) {
    const uint32_t generation = __atomic_load_n(&pool.generation_, __ATOMIC_SEQ_CST);
    if (generation == seen) {
      pool.await(&pool.generation_, seen, &pool.sleepers_);
      continue;
    }
    if (pool.stopping_) return;
    seen = generation;
    if (self->index < pool.workers_) pool.work(self->index);
    if (__atomic_sub_fetch(&pool.busy_, 1u, __ATOMIC_SEQ_CST) == 0) pool.wake(&pool.busy_, &pool.caller_sleeps_);
  }
}

void Pool::stop() {
  stopping_ = true;
  __atomic_add_fetch(&generation_, 1u, __ATOMIC_SEQ_CST);
  os_wake(&generation_);
  for (uint32_t i = 1; i < started_; ++i) os_join_worker(i);
  started_ = workers_ = 1;
  stopping_ = false;
}

void Pool::run(uint32_t tasks, void (*body)(void*, uint32_t, uint32_t), void* context) {
  body_ = body, context_ = context, tasks_ = tasks;
  next_ = 0;
  const bool alone = workers_ == 1 || tasks < 2;
  if (!alone) {
    __atomic_store_n(&busy_, started_ - 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&generation_, 1u, __ATOMIC_SEQ_CST);
    wake(&generation_, &sleepers_);
  }
  work(0);
  while (!alone) {
    const uint32_t busy = __atomic_load_n(&busy_, __ATOMIC_SEQ_CST);
    if (busy == 0) break;
    await(&busy_, busy, &caller_sleeps_);
  }
}

Pool::Awake::Awake(Pool& pool, uint32_t polls) : pool_(pool) {
  for (Worker& worker : pool.each_) worker.packets = 0;
  pool.wakes_ = 0;
  __atomic_store_n(&pool.polls_, polls > 0 ? polls : os_polls(), __ATOMIC_SEQ_CST);
}
Pool::Awake::~Awake() { __atomic_store_n(&pool_.polls_, 0u, __ATOMIC_SEQ_CST); }

uint64_t Pool::packets() const {
  uint64_t sum = 0;
  for (const Worker& worker : each_) sum += worker.packets;
  return sum;
}

}  // namespace dsp
