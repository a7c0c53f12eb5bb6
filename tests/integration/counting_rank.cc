// A rank that logs numbered rows as fast as its ring takes them, for tests that kill it or its
// daemon.
//
//   counting_rank COUNTER_FILE [METRICS]
//
// Row n, from 0 on, is at step n and has METRICS metrics (n, n1, n2, ...; default 1), all with the
// value n. It waits while RankCounter.limit rows are logged, and ends with Finish(0) when
// RankCounter.stop is set. The exit code is 0 if everything was durable.

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "ranklog/ranklog.h"
#include "tests/integration/rank_counter.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  ranklog::testing::RankCounter* const counter = ranklog::testing::MapRankCounter(argv[1]);
  if (counter == nullptr) return 2;
  const size_t metrics = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1;
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  std::vector<std::string> names;
  for (size_t i = 0; i < metrics; ++i) {
    names.emplace_back("n");
    if (i > 0) names.back() += std::to_string(i);
  }
  const std::vector<std::string_view> keys(names.begin(), names.end());
  const ranklog::RowHandle row = run.Row(keys);
  std::vector<double> values(metrics);
  uint64_t n = 0;
  while (counter->stop.load() == 0) {
    std::fill(values.begin(), values.end(), static_cast<double>(n));
    if (n != 0 && n == counter->limit.load()) {
      usleep(1000);
    } else if (run.Log(row, values, static_cast<int64_t>(n))) {
      counter->returned.store(++n);
    } else {
      ++counter->refused;
      usleep(500);  // the ring is full
    }
  }
  return run.Finish(0) == ranklog::FlushResult::kDurable ? 0 : 3;
}
