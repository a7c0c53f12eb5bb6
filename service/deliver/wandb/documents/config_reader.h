// Reads from the store what a run's config consists of, and detects changes.

#ifndef SERVICE_DELIVER_WANDB_DOCUMENTS_CONFIG_READER_H_
#define SERVICE_DELIVER_WANDB_DOCUMENTS_CONFIG_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "service/aggregate/run_config.h"
#include "service/model/run.h"
#include "service/storage/store_reader.h"

namespace ranklog::deliver::wandb {

// One per run. Not thread-safe.
class ConfigReader {
 public:
  struct Config {
    model::Json config;                            // see aggregate::RunConfig()
    model::Json metrics;                           // see MetricList()
    model::Json metadata;                          // of the run's program and node; null: none
    std::vector<aggregate::SummaryValue> summary;  // the values that ranks set
    bool preempting = false;                       // see aggregate::IsPreempting()
    std::vector<model::StoredItem> singles;        // see Item::IsSingle(); ids ascending
  };
  // Nullopt if nothing has changed since the last call that returned a config. `expand_globs` as in
  // MetricList().
  absl::StatusOr<absl::optional<Config>> Read(storage::StoreReader& reader, const model::Run& run,
                                              bool expand_globs);

  // The run's streams, by the last Read().
  const std::vector<model::Stream>& streams() const { return streams_; }
  // The last item that is included in the config; -1 before the first one was read.
  int64_t items() const { return items_; }
  // The lost or late rows of the run's ranks, by the last Read().
  uint64_t lost_rows() const { return lost_rows_; }

 private:
  int64_t items_ = -1;
  std::vector<model::Stream> streams_;
  model::Json hardware_ = model::Json::object();
  size_t shapes_ = 0;
  uint64_t lost_rows_ = 0;
};

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_DOCUMENTS_CONFIG_READER_H_
