// A rank that logs values of every type, keys that cannot be logged, and a config and a summary of
// 10 MB. With the argument "die", it kills itself after that.

#include <signal.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ranklog/ranklog.h"

int main(int argc, char** argv) {
  using ranklog::Value;
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  constexpr int64_t kBeyond = (int64_t{1} << 53) + 1;
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const Value nested =
      Value::Object({{"a", Value::Object({{"flag", true}, {"nan", NAN}, {"key \"x\"\n", "y"}})},
                     {"big", kBeyond}});
  run.Config({{"flag", true}, {"most", kMost}, {"least", kLeast}, {"nested", nested}});
  bool all = run.Log({{"loss", 0.5},
                      {"flag", true},
                      {"beyond", kBeyond},
                      {"least", kLeast},
                      {"most", kMost},
                      {"nested", nested},
                      {"list", Value::List({1, 2.5, false, "x", Value()})},
                      {"null", Value()},
                      {"_custom", 7},
                      {"_step", 99},
                      {"", 1},
                      {"\xff\xfe", true},
                      {"note", "\xc3"}},
                     1);
  all = run.Log({{"loss", 0.25}, {"nested", Value::Object({{"c", 2}})}, {"flag", false}}, 2) && all;
  run.Summary({{"best", Value::Object({{"most", kMost}, {"flag", false}})}});
  // Larger than the ring. The values of the same keys before and after it say whether the order
  // holds.
  std::vector<Value::Field> large = {{"order", 2}};
  for (int i = 0; i < 100; ++i)
    large.emplace_back("part" + std::to_string(i), std::string(100000, 'c'));
  all = run.Config({{"order", 1}, {"part0", "small"}}) && run.Config(large) &&
        run.Config({{"order", 3}}) && all;
  large[0].second = "later";
  all = run.Summary({{"order", "earlier"}, {"part0", "small"}}) && run.Summary(large) && all;
  // Each thread has a ring of its own.
  std::thread([&run] {
    run.Config({{"thread", "worker"}});
    run.Summary({{"thread", "worker"}});
  }).join();
  all = run.Config({{"thread", "main"}}) && run.Summary({{"thread", "main"}}) && all;
  if (argc > 1 && std::string(argv[1]) == "die") raise(SIGKILL);
  return run.Finish(0) == ranklog::FlushResult::kDurable && all ? 0 : 3;
}
