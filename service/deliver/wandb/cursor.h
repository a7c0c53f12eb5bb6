// The cursor of a run at a W&B server, stored in Delivery.cursor. See format.md beside this.

#ifndef SERVICE_DELIVER_WANDB_CURSOR_H_
#define SERVICE_DELIVER_WANDB_CURSOR_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
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
  // What the clock of those rows knows (RunClock::Attempts()): their lines must not change.
  std::vector<std::pair<int64_t, int64_t>> cut_clock;
  bool continued = false;  // another store continues the run, and sets its config, summary and end
  // If `continued`: when the newest row was logged at the other store. The server reports only the
  // time of its last line, which is ours once we have appended rows.
  int64_t continued_us = 0;
  // The last step of other stores when this store took over the run; -1: no other store had rows.
  // Rows with an explicit step up to it are replays, which are not sent (LineSteps).
  int64_t replays_through = -1;
  uint64_t replayed_rows = 0;  // replays among the delivered rows

  // System metrics: sample i that is not delivered yet will be line events_offset + i.
  uint64_t samples = 0;  // delivered
  int64_t events_offset = 0;
  uint64_t cut_samples =
      0;  // samples after the delivered ones that may have been sent, as cut_rows

  // The console: line n, from console_from on, is line console_offset + n at the server.
  int64_t console_change = 0;  // the server has, or has refused, all changes up to this one
  uint64_t console_end = 0;    // lines before it may have been sent
  uint64_t console_from = 0;
  int64_t console_offset = 0;

  int64_t alerts = 0;  // id of the last alert item that was sent or refused

  // What other programs left when this store took over the run.
  int64_t runtime_before_us = 0;
  model::Json summary_before = nullptr;  // an object, or null

  // Digests of what was sent last, so that what a person changes at the server later is not undone:
  // of the texts that describe the run, by name; of each value of the config, by key; of each file's
  // content, by name.
  std::map<std::string, std::string> sent_texts;
  std::map<std::string, std::string> sent_config;
  std::map<std::string, std::string> sent_files;
  int64_t content = 0;         // the last item with an artifact or a file that was sent or refused
  uint64_t content_files = 0;  // of the item after it: what the server has, for display
  uint64_t content_bytes = 0;
  model::Json content_progress = nullptr;  // the same, for the upload: ContentUpload::Progress()
  std::vector<std::string> unannounced_files;  // sent, but the file stream did not name them yet

  bool created() const { return !storage_id.empty(); }
};

// A short digest of a text, of lower-case letters and digits. Equal texts have equal digests in every
// version of this program.
std::string Digest(absl::string_view text);

model::Json ToJson(const Cursor& cursor);
// Missing members, and members of a wrong type, keep their default.
Cursor CursorFrom(const model::Json& json);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_CURSOR_H_
