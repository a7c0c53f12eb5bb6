// The points of an MLflow server: a row's numbers, and system metrics.

#ifndef SERVICE_DELIVER_MLFLOW_FORMAT_POINTS_H_
#define SERVICE_DELIVER_MLFLOW_FORMAT_POINTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "service/model/batch.h"
#include "service/model/sample.h"

namespace ranklog::deliver::mlflow {

// Consecutive points, as elements of "metrics". Old servers refuse a whole request if it repeats a
// NaN, so those have a request of their own.
struct Slice {
  std::string finite;
  std::string nan;
  size_t points = 0;
  // The position after the slice: `next_point` of this row's points are in it or before it.
  uint64_t next_row = 0;
  uint64_t next_point = 0;
  uint64_t replays = 0;  // rows in it that are not sent

  size_t bytes() const { return finite.size() + nan.size(); }
};

// Bodies of a slice, for a run. Empty: it has no such points.
std::string MetricsBody(absl::string_view run_id, const std::string& points);

// What the server keeps of a value: infinities are the largest finite numbers.
double StoredValue(double value);

// The microseconds of Unix time as the server keeps them.
inline int64_t ToMs(int64_t time_us) { return time_us / 1000; }

// Translates the rows of one run. Not thread-safe.
class RowPoints {
 public:
  // `imported`: another program logged the run; its columns of times and steps are left out.
  // `replays_through`: the run had steps up to this one before our first row. Rows that give such a
  // step are not sent. Rows without a step come after it.
  RowPoints(bool imported, int64_t replays_through)
      : imported_(imported), replays_through_(replays_through) {}

  // The step at the server; -1: not sent.
  int64_t StepOf(const model::Block& block, size_t row) const;

  // Visits the numbers of a row: fn(name at the server, value). A bool is 0 or 1. An object has a
  // name for each number in it, joined by dots. False: it has other values, whose keys are added to
  // unsent().
  bool Visit(const model::Block& block, size_t row,
             const std::vector<std::vector<std::string>>& shapes,
             absl::FunctionRef<void(const std::string& name, double value)> fn);

  // Appends points from the slice's position on, to the rows before `to`, while the slice has less
  // than `max_points`, and room for another one.
  void Append(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes,
              uint64_t to, size_t max_points, Slice* slice);

  // The keys of values that are not numbers.
  const std::set<std::string>& unsent() const { return unsent_; }

 private:
  // The names of a shape's columns; empty: not sent.
  const std::vector<std::string>& NamesOf(uint32_t shape,
                                          const std::vector<std::vector<std::string>>& shapes);

  const bool imported_;
  const int64_t replays_through_;
  std::map<uint32_t, std::vector<std::string>> names_;
  std::set<std::string> unsent_;
};

// NaN goes to `nan`, all others to `finite`.
void AppendPoint(const std::string& name, double value, int64_t time_us, int64_t step,
                 Slice* slice);
void AppendSample(const model::Sample& sample, const std::string& node, Slice* slice);
// A system metric: system/NODE/NAME, with MLflow's own name and unit if it has one.
struct SystemPoint {
  std::string name;
  double value = 0;
};
SystemPoint SystemPointOf(const std::string& node, const std::string& name, double value);

}  // namespace ranklog::deliver::mlflow

#endif  // SERVICE_DELIVER_MLFLOW_FORMAT_POINTS_H_
