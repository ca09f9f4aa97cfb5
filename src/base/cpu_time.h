// Processor time: what a thread computed, waiting for others left out.
#pragma once

namespace llada {

// Seconds of processor time that the calling thread has used since it began.
double thread_cpu_seconds();

}  // namespace llada
