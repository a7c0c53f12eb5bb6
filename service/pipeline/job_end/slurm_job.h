// Interprets Slurm's record of an ended job, for causes that the job's own processes cannot know.

#ifndef SERVICE_PIPELINE_JOB_END_SLURM_JOB_H_
#define SERVICE_PIPELINE_JOB_END_SLURM_JOB_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace ranklog::pipeline {

// The number in a Launch::batch_job, which has the form "slurm-JOB" or "slurm-JOB.STEP". Empty if
// it is not from Slurm. Accepts only digits, because a rank wrote it and it becomes an argument of
// a program.
std::string SlurmJobId(absl::string_view batch_job);

// Returns why Slurm ended the job, from the output of `scontrol show job JOB`: "Slurm job 12
// reached its time limit (TIMEOUT)". Empty if the job ran to its end, because Slurm then knows no
// more than the ranks. nullopt if Slurm does not know yet, or the output does not contain the job.
// `requeue` is the number of times that the job had been requeued when its ranks started.
absl::optional<std::string> SlurmEndReason(absl::string_view output, const std::string& job,
                                           uint32_t requeue);

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_JOB_END_SLURM_JOB_H_
