#ifndef TRAINER_RANK_ERROR_H_
#define TRAINER_RANK_ERROR_H_

#include <stdexcept>
#include <string>

namespace ranklog::trainer {

// An error of known cause. A rank that gets any other error asks the store which rank caused it.
class RankError : public std::runtime_error {
 public:
  enum Cause { kThisRank, kAnotherRank };
  // `message` names the other rank.
  RankError(Cause cause, const std::string& message) : std::runtime_error(message), cause_(cause) {}
  Cause cause() const { return cause_; }

 private:
  Cause cause_;
};

}  // namespace ranklog::trainer

#endif  // TRAINER_RANK_ERROR_H_
