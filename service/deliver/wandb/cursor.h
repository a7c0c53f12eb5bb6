// The cursor of a run at a W&B server, stored in Delivery.cursor. See format.md beside this.

#ifndef SERVICE_DELIVER_WANDB_CURSOR_H_
#define SERVICE_DELIVER_WANDB_CURSOR_H_

#include <cstdint>
#include <string>

#include "service/model/run.h"

namespace ranklog::deliver::wandb {

struct Cursor {
  std::string storage_id;  // empty: the run was not created yet
  std::string entity;      // this and the next three as the server returned them
  std::string project;
  std::string run_id;
  std::string display_name;
  int64_t base_offset = 0;  // row i that is not delivered yet will be line base_offset + i
  uint64_t cut_rows = 0;  // rows after the delivered ones that may have been sent without an answer
  int64_t cut_updates = 0;  // last item whose metric definitions apply to them
  bool continued = false;   // another store continues the run, and sets its config, summary and end
  // If `continued`: when the newest row was logged at the other store. The server reports only the
  // time of its last line, which is ours once we have appended rows.
  int64_t continued_us = 0;
  // The last step of other stores when this store took over the run; -1: no other store had rows.
  // Rows with an explicit step up to it are replays, which are not sent (LineSteps).
  int64_t replays_through = -1;
  uint64_t replayed_rows = 0;  // replays among the delivered rows

  bool created() const { return !storage_id.empty(); }
};

model::Json ToJson(const Cursor& cursor);
// Missing members, and members of a wrong type, keep their default.
Cursor CursorFrom(const model::Json& json);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_CURSOR_H_
