#ifndef SERVICE_DELIVER_WANDB_FILE_STREAM_H_
#define SERVICE_DELIVER_WANDB_FILE_STREAM_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace ranklog::deliver::wandb {

// One post to a run's file stream. With nothing in it, it is the heartbeat.
struct StreamPost {
  int64_t history_offset = 0;
  absl::string_view
      history;  // members of a JSON array: quoted lines with commas between; empty: none
  absl::optional<std::string> summary;  // JSON text of the whole summary
  absl::optional<int32_t> exit_code;    // the run's end
};

std::string StreamBody(const StreamPost& post);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_FILE_STREAM_H_
