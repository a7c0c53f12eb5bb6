// What Slurm says of a job that has ended: its state, as far as the job's own processes cannot know it.

#ifndef SERVICE_PIPELINE_SLURM_JOB_H_
#define SERVICE_PIPELINE_SLURM_JOB_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace ranklog::pipeline {

// The number in a Launch::batch_job, "slurm-JOB" or "slurm-JOB.STEP". Empty: it is not of Slurm. Only
// digits: a rank wrote it, and it becomes an argument of a program.
std::string SlurmJobId(absl::string_view batch_job);

// Why Slurm ended the job, from the output of `scontrol show job JOB`: "Slurm job 12 reached its
// time limit (TIMEOUT)". Empty where Slurm knows no more than the ranks do: the job ran to its end.
// None while Slurm does not know yet, or does not name the job. `requeue` is how often the job had
// been queued again when its ranks started.
absl::optional<std::string> WhySlurmEnded(absl::string_view output, const std::string& job,
                                          uint32_t requeue);

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_SLURM_JOB_H_
