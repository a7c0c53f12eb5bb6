#ifndef TRAINER_RANK_H_
#define TRAINER_RANK_H_

#include "ranklog/settings.h"
#include "trainer/options.h"

namespace ranklog::trainer {

// Trains as the rank in `settings` and logs to its run. Joins the other ranks, loads the
// data, agrees on the run id, trains, and finishes the run. Returns the program's exit code.
// Reports an error on stderr and in torchrun's error file; once the run is open, an error finishes
// it with exit code 1.
int TrainAsRank(const Options& options, Settings settings);

}  // namespace ranklog::trainer

#endif  // TRAINER_RANK_H_
