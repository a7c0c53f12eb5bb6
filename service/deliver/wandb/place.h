// What has to be remembered of a run at a W&B server to go on at the same place; Delivery.place
// holds it. See README.md beside this.

#ifndef SERVICE_DELIVER_WANDB_PLACE_H_
#define SERVICE_DELIVER_WANDB_PLACE_H_

#include <cstdint>
#include <string>

#include "service/model/run.h"

namespace ranklog::deliver::wandb {

struct Place {
  std::string storage_id;  // empty: the run was not created yet
  std::string entity;      // these three as the server has them
  std::string project;
  std::string run_id;
  std::string display_name;
  int64_t base_offset = 0;  // row i that is not delivered yet will be line base_offset + i
  uint64_t cut_rows = 0;    // rows after the delivered ones that may have been sent, unanswered
  int64_t cut_updates = 0;  // the last update whose metric definitions count for them
  bool continued = false;   // by another store: config, summary and end of the run are that one's
  // Where `continued`, when the newest row was logged there. The server tells only when its last
  // line was, which is ours once we have sent rows behind.
  int64_t continued_us = 0;
  // The last step that other stores had brought the run to when this one took it up; -1: none had.
  // Rows that were given a step up to there are replays, which are not sent (LineSteps).
  int64_t replays_through = -1;
  uint64_t replayed_rows = 0;  // of the delivered ones

  bool created() const { return !storage_id.empty(); }
};

model::Json ToJson(const Place& place);
// What is missing or of another type keeps its default.
Place PlaceFrom(const model::Json& json);

// How many of the delivered rows were not sent, since they are replays.
uint64_t ReplayedRows(const model::Delivery& delivery);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_PLACE_H_
