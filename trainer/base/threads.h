// The number of threads that compute in a rank.

#ifndef TRAINER_BASE_THREADS_H_
#define TRAINER_BASE_THREADS_H_

namespace ranklog::trainer {

// Whether the value of OMP_NUM_THREADS or the like gives a number of threads, as OpenMP reads it.
bool IsThreadCount(const char* value);

// Limits this process to one computing thread, unless OMP_NUM_THREADS gives a number. A machine has
// a rank per core or GPU, so more threads would only compete for the cores. Call it before the
// first tensor is made.
void LimitThreads();

}  // namespace ranklog::trainer

#endif  // TRAINER_BASE_THREADS_H_
