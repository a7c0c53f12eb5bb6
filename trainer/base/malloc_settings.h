// How malloc treats the memory of freed tensors.

#ifndef TRAINER_BASE_MALLOC_SETTINGS_H_
#define TRAINER_BASE_MALLOC_SETTINGS_H_

namespace ranklog::trainer {

// Lets glibc's malloc keep freed memory for the next step. A step frees and allocates the same
// tensors as the previous one. By default malloc returns their pages to the kernel, which must
// clear each page again. Costs no more memory than the peak of a step.
//
// Has no effect with another C library, or if the user has set MALLOC_TRIM_THRESHOLD_,
// MALLOC_MMAP_THRESHOLD_ or GLIBC_TUNABLES. Call it before the first tensor is made.
void KeepFreedMemory();

}  // namespace ranklog::trainer

#endif  // TRAINER_BASE_MALLOC_SETTINGS_H_
