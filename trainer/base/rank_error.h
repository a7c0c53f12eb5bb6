#ifndef TRAINER_BASE_RANK_ERROR_H_
#define TRAINER_BASE_RANK_ERROR_H_

#include <c10/util/Exception.h>

#include <exception>
#include <stdexcept>
#include <string>

namespace ranklog::trainer {

// An error whose cause is known. After any other error, a rank looks in the store for the rank that
// caused it.
class RankError : public std::runtime_error {
 public:
  enum Cause { kThisRank, kAnotherRank };
  // With kAnotherRank, `message` names that rank.
  RankError(Cause cause, const std::string& message) : std::runtime_error(message), cause_(cause) {}
  Cause cause() const { return cause_; }

 private:
  Cause cause_;
};

// The message of `error`, without the C++ stack that LibTorch appends.
inline std::string ReasonOf(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return torch != nullptr ? torch->what_without_backtrace() : error.what();
}

}  // namespace ranklog::trainer

#endif  // TRAINER_BASE_RANK_ERROR_H_
