// Processor time of a thread: time that it computed, without time that it waited for others.
#pragma once

namespace llada {

// Seconds of processor time that the calling thread has used since it began.
double thread_cpu_seconds();

}  // namespace llada
