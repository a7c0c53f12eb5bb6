// The data of the local page, as JSON. The paths and their members may change with the page. `run` is the key of a run in the
// page's URLs.
//
//   path            parameters                    members
//   /api/runs                                     stores[] (dir, error), runs[]: those of service/json.md, with `key`
//   /api/run        run                           a run, with config, metadata, metrics[], commands, console_ranks
//   /api/summary    run                           summary
//   /api/curves     run, metric (repeated; none:  curves by name: x (steps), t (Unix seconds), v (null: a gap), not_finite
//                   all), since (a step), quick=1  (how many of each kind, and where); rewinds: if it changes, read the curves
//                                                 anew; complete: false for a sample; more: metrics that /api/run lacks,
//                                                 integers above 2^53
//   /api/system     run                           curves by name: t, v
//   /api/ranks      run, metric                   steps, ranks, values by rank and step, highest and not_finite by rank,
//                                                 compared, rows_left_out
//   /api/console    run, rank, from (a line)      lines[]: number, time, 1 if it is of stderr, text
//   /api/delivery   run                           refused records
//   /api/artifacts  run                           artifacts and files
//   /api/live       run (repeated; none: all)     server-sent events (server.h): the keys of those of these runs that have changed

#ifndef SERVICE_UI_ANSWERS_H_
#define SERVICE_UI_ANSWERS_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/model/run.h"
#include "service/ui/curve_cache.h"
#include "service/ui/params.h"
#include "service/ui/stores.h"

namespace ranklog::ui {

// Reads only. Call it from any thread.
class Answers {
 public:
  // `stores` must outlive this object.
  explicit Answers(const Stores* stores) : stores_(*stores) {}

  // The answer to a request for `path`, such as "/api/runs". It is valid JSON: NaN and infinities
  // are null in curves and texts elsewhere, and invalid UTF-8 is replaced.
  //   kNotFound         there is no such path, run or store
  //   kInvalidArgument  a parameter is missing or malformed
  absl::StatusOr<std::string> Get(absl::string_view path, const Params& params);

  // By run key, a text that changes if the run does: with keys in parameters `run`, of these runs,
  // else of all. Cheap, for a loop that waits for changes. A store that cannot be read has no runs.
  std::map<std::string, std::string> States(const Params& params) const;

 private:
  struct RunOf {
    RunKey key;
    std::unique_ptr<storage::StoreReader> reader;
  };
  absl::StatusOr<RunOf> OpenRun(const Params& params) const;  // of the parameter `run`

  absl::StatusOr<std::string> GetOnce(absl::string_view path, const Params& params);
  absl::StatusOr<std::string> Runs() const;
  absl::StatusOr<std::string> Run(const Params& params) const;
  absl::StatusOr<std::string> Summary(const Params& params);
  absl::StatusOr<std::string> Curves(const Params& params);
  absl::StatusOr<std::string> System(const Params& params) const;
  absl::StatusOr<std::string> Ranks(const Params& params) const;
  absl::StatusOr<std::string> Console(const Params& params) const;
  absl::StatusOr<std::string> Delivery(const Params& params) const;
  absl::StatusOr<std::string> Artifacts(const Params& params) const;

  const Stores& stores_;
  CurveCache cache_;
};

// As it goes to the browser, which reads only finite doubles: NaN, infinities and integers above 2^53
// become texts.
std::string JsonText(model::Json json);

// NaN, inf or -inf.
absl::string_view NotFiniteText(double value);

}  // namespace ranklog::ui

#endif  // SERVICE_UI_ANSWERS_H_
