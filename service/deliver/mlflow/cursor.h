// What a delivery to an MLflow server must remember.

#ifndef SERVICE_DELIVER_MLFLOW_CURSOR_H_
#define SERVICE_DELIVER_MLFLOW_CURSOR_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "service/model/run.h"

namespace ranklog::deliver::mlflow {

// Members of Delivery::cursor, by these names. Absent ones have their defaults.
struct Cursor {
  std::string experiment_id;
  std::string run_id;            // the server's; empty: not created yet
  std::string parent_id;         // of a run of a node or a rank
  std::string artifact_uri;      // where the server keeps the run's files
  bool joined = false;           // the run was there before this delivery
  std::string status;            // as the server has it
  uint64_t points = 0;           // of the next row, those that the server has
  int64_t replays_through = -1;  // rows of a joined run with steps up to this one are not sent
  uint64_t replayed_rows = 0;    // such rows
  uint64_t samples = 0;          // of system metrics, those that the server has
  std::string params;            // digest of the params that the server has
  std::map<std::string, std::string> tags;  // digests of the tags that were sent
  std::set<std::string> unsent_keys;        // of rows, with values that MLflow cannot hold
  int64_t content = 0;                      // uploads up to this item are there
  std::string console;                      // digest of the console's text that was sent
  std::string summary;                      // digest of the points of the summary that were sent

  bool created() const { return !run_id.empty(); }
};

Cursor CursorFrom(const model::Json& json);
model::Json ToJson(const Cursor& cursor);

}  // namespace ranklog::deliver::mlflow

#endif  // SERVICE_DELIVER_MLFLOW_CURSOR_H_
