#ifndef TRAINER_START_CHECK_H_
#define TRAINER_START_CHECK_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ranklog/settings.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/data/data.h"
#include "trainer/options.h"
#include "trainer/parallel/process_group.h"
#include "trainer/plan.h"

namespace ranklog::trainer {

// The checks before a training changes anything: before a checkpoint is moved and a run is opened.

// Fingerprint of a training: options by the names of their flags, and the data. Stored in
// checkpoints.
using Fingerprint = std::map<std::string, std::string>;
Fingerprint FingerprintOf(const Options& options, const Settings& settings, const Plan& plan,
                          const Corpus& corpus, int world_size);

// Compares the fingerprint and the options with those of rank 0. Collective. Throws on all ranks if
// one differs: RankError on that rank, with the differences in its message.
void CheckRanksAgree(const Options& options, const Fingerprint& fingerprint, ProcessGroup& group);

// Whether a training of `fingerprint` can resume from the checkpoint in `path`. Returns the changed
// values, such as "lr is 0.1 and was 0.2". They are allowed, but the loss curve may change slope.
//   kInvalidArgument  it is of another training, or has more steps; the message lists the differences
absl::StatusOr<std::vector<std::string>> CheckResume(const Checkpoint& checkpoint,
                                                     const std::string& path,
                                                     const Fingerprint& fingerprint, int64_t steps);

// Whether the weights of the checkpoint in `path` match the model of `fingerprint`.
//   kInvalidArgument  they do not; the message names the options that differ
absl::Status CheckInitFrom(const Checkpoint& checkpoint, const std::string& path,
                           const Fingerprint& fingerprint);

}  // namespace ranklog::trainer

#endif  // TRAINER_START_CHECK_H_
