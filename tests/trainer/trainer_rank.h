// The ranks that tests and benchmarks of the trainer start. One program, because most of the time to compile each
// goes into the headers of LibTorch.

#ifndef TESTS_TRAINER_TRAINER_RANK_H_
#define TESTS_TRAINER_TRAINER_RANK_H_

#include <string>
#include <vector>

namespace ranklog::trainer {

// Each gets the arguments after its name, and returns an exit code.
int GradientRank(const std::vector<std::string>& arguments);  // trainer_rank gradients
int TrainRank(const std::vector<std::string>& arguments);     // trainer_rank training
int TurnsRank(const std::vector<std::string>& arguments);     // trainer_rank turns

}  // namespace ranklog::trainer

#endif  // TESTS_TRAINER_TRAINER_RANK_H_
