// A rank that measures its calls, for the table of start and finish.
//
//   timed_rank ROWS READY_FILE
//
// Logs ROWS rows, one every 50 us, whose value n counts them. Creates READY_FILE at half of them,
// and READY_FILE.end after the last. Prints two lines, then ends at once:
//
//   1. microseconds of Init(); nanoseconds of Log() at p50, p99, p99.9 and at most; milliseconds of
//      Finish(); rows for which Log() returned true; 1 if Finish() returned durable, else 0
//   2. nanoseconds of Log() at p50 and p99.9 of the first half, then of the second half

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ranklog/ranklog.h"

namespace {

using Clock = std::chrono::steady_clock;

int64_t NanosecondsSince(Clock::time_point start) {
  return std::chrono::nanoseconds(Clock::now() - start).count();
}

void Create(const std::string& file) {
  close(open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

// Of sorted values.
int64_t Quantile(const std::vector<int64_t>& ns, size_t thousandths) {
  return ns[ns.size() * thousandths / 1000];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const size_t rows = strtoull(argv[1], nullptr, 10);
  std::vector<int64_t> log_ns(rows);
  const ranklog::Settings settings = ranklog::Settings::FromEnvironment();

  Clock::time_point start = Clock::now();
  ranklog::Run run = ranklog::Init(settings);
  const int64_t init_ns = NanosecondsSince(start);

  long returned = 0;
  Clock::time_point next = Clock::now();
  for (size_t i = 0; i < rows; ++i) {
    const double x = static_cast<double>(i);
    start = Clock::now();
    returned += run.Log({{"n", x}, {"loss", 1 / (x + 1)}, {"lr", 3e-4}, {"norm", x * 0.5}}) ? 1 : 0;
    log_ns[i] = NanosecondsSince(start);
    if (i == rows / 2) Create(argv[2]);
    next += std::chrono::microseconds(50);
    while (Clock::now() < next) {
    }
  }

  Create(std::string(argv[2]) + ".end");
  start = Clock::now();
  const bool durable = run.Finish(0) == ranklog::FlushResult::kDurable;
  const int64_t finish_ns = NanosecondsSince(start);
  const auto middle = log_ns.begin() + static_cast<ptrdiff_t>(rows / 2);
  std::vector<int64_t> halves[] = {{log_ns.begin(), middle}, {middle, log_ns.end()}};
  for (std::vector<int64_t>& half : halves) std::sort(half.begin(), half.end());
  std::sort(log_ns.begin(), log_ns.end());
  printf("%.0f %ld %ld %ld %ld %.1f %ld %d\n", static_cast<double>(init_ns) * 1e-3,
         Quantile(log_ns, 500), Quantile(log_ns, 990), Quantile(log_ns, 999), log_ns.back(),
         static_cast<double>(finish_ns) * 1e-6, returned, durable ? 1 : 0);
  printf("%ld %ld %ld %ld\n", Quantile(halves[0], 500), Quantile(halves[0], 999),
         Quantile(halves[1], 500), Quantile(halves[1], 999));
  return 0;
}
