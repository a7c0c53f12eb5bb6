// A program of a user's, in C++17 and later, which install.cmake builds in each way. It logs
// without a daemon: the rows wait in the spool. Ends with 0 if the run took all of them.

#include <ranklog/ranklog.h>

#include <array>
#include <vector>
#if __cplusplus > 201703L
#include <span>
#endif

int main() {
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  const std::vector<ranklog::Metric> metrics = {{"loss", 0.5}, {"phase", "warm-up"}};
  const std::vector<ranklog::HandleValue> handles = {{run.MetricKey("lr"), 1e-3}};
  const ranklog::RowHandle row = run.Row({"a", "b"});
  std::array<double, 2> values = {1, 2};
  bool taken = run.Config({{"layers", 12}}) && run.DefineMetric("loss");
  taken = run.Log({{"loss", 1}}, 0) && run.Log(metrics) && run.Log(handles, 1) && taken;
  taken = run.Log(row, values, 2) && run.Log(row, {values.data(), 2}) && taken;
#if __cplusplus > 201703L
  taken = run.Log(row, std::span(values), 3) && taken;
#endif
  run.Finish(0);
  return taken && run.stats().rows_logged >= 5 && ranklog::Version() != nullptr ? 0 : 1;
}
