// A job of one counting rank, and checks of its rows in the store.

#ifndef TESTS_INTEGRATION_COUNTING_JOB_H_
#define TESTS_INTEGRATION_COUNTING_JOB_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "service/model/run.h"
#include "tests/integration/node.h"
#include "tests/integration/rank_counter.h"

namespace ranklog::testing {

class CountingJob {
 public:
  // Starts the rank. `rows` 0: no end. `metrics`: per row. `wrapper` comes before the program, e.g.
  // {"unshare", "-m"}.
  CountingJob(const Node& node, const std::string& job, uint64_t rows,
              std::map<std::string, std::string> environment = {},
              std::vector<std::string> wrapper = {}, size_t metrics = 1);
  ~CountingJob();

  ChildProcess& rank() { return *rank_; }
  uint64_t returned() const { return counter_->returned.load(); }
  uint64_t refused() const { return counter_->refused.load(); }
  bool WaitForReturned(uint64_t rows) const;
  // Lets the rank log `rows` more rows. Then it waits again.
  void LogMore(uint64_t rows) { counter_->limit += rows; }
  // Lets the rank finish. Returns its exit code.
  int Finish();

  // Checks that the store has every row for which Log() returned true, exactly once and in order.
  // One more row is allowed: Log() had published it when the rank was killed. Fails the test
  // otherwise. Returns how many rows are lost, duplicated or different.
  uint64_t ExpectEveryReturnedRowOnce() const;
  // Returns the only stream of the job; fails the test if there is none.
  model::Stream Stream() const;

 private:
  const Node& node_;
  const std::string job_;
  TempDir dir_;
  RankCounter* const counter_;
  std::unique_ptr<ChildProcess> rank_;
};

}  // namespace ranklog::testing

#endif  // TESTS_INTEGRATION_COUNTING_JOB_H_
