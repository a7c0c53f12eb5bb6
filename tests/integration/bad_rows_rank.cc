// A rank that logs invalid and unusual rows. Each call of Log() that returns false has exactly one
// reason. Prints one line per row: its name, and 1 if it was taken.

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "ranklog/ranklog.h"

namespace {

void Say(const char* name, bool taken) { printf("%s %d\n", name, taken ? 1 : 0); }

bool LogWide(ranklog::Run& run, size_t metrics, int64_t step) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < metrics; ++i) keys.push_back("wide/" + std::to_string(i));
  std::vector<ranklog::Metric> row;
  for (size_t i = 0; i < metrics; ++i) row.emplace_back(keys[i], i);
  return run.Log(row, step);
}

}  // namespace

int main() {
  ranklog::Settings settings = ranklog::Settings::FromEnvironment();
  ranklog::Run run = ranklog::Init(settings);
  Say("first", run.Log({{"loss", 1.0}}, 1));
  Say("nan", run.Log({{"loss", NAN}, {"up", INFINITY}, {"down", -INFINITY}}, 2));
  Say("behind", run.Log({{"loss", 1.0}}, 1));
  Say("empty handle", run.Log(ranklog::RowHandle(), {}, 3));
  Say("only bad keys", run.Log({{"", 1.0}, {"_step", 1.0}, {std::string(2000, 'k'), 1.0}}, 3));
  Say("100000 metrics", LogWide(run, 100'000, 4));
  Say("25 MB", run.Log({{"blob", std::string(25 << 20, 'x')}}, 5));
  const std::string half(17 << 20, 'x');
  Say("over half of the spool", run.Log({{"blob", half}, {"other", half}}, 6));
  Say("last", run.Log({{"loss", 2.0}}, 7));
  return run.Finish(0) == ranklog::FlushResult::kDurable ? 0 : 3;
}
