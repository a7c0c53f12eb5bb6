#ifndef TRAINER_RANK_H_
#define TRAINER_RANK_H_

#include "ranklog/settings.h"
#include "trainer/options.h"

namespace ranklog::trainer {

// Trains as the rank that `settings` say this process is, and keeps its log: joins the other ranks,
// loads the data, agrees with them on the run's id, trains, finishes the run. Returns the program's
// exit code. An error is said on stderr and in torchrun's error file, and finishes the run with exit
// code 1.
int TrainAsRank(const Options& options, Settings settings);

}  // namespace ranklog::trainer

#endif  // TRAINER_RANK_H_
