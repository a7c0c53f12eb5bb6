#ifndef SERVICE_DELIVER_WANDB_API_FILE_STREAM_H_
#define SERVICE_DELIVER_WANDB_API_FILE_STREAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace ranklog::deliver::wandb {

// One post to a run's file stream. An empty post is the heartbeat.
struct StreamPost {
  int64_t history_offset = 0;
  // Elements of a JSON array: quoted lines, separated by commas; empty: no lines.
  absl::string_view history{};
  int64_t events_offset = 0;
  std::vector<std::string> events{};  // JSON text of each line of system metrics
  int64_t console_offset = 0;
  std::vector<std::string> console{};     // what was printed, in the server's form
  absl::optional<std::string> summary{};  // JSON text of the whole summary
  std::vector<std::string> uploaded{};    // run files whose bytes the server has
  bool preempting = false;                // its job is about to be preempted
  absl::optional<int32_t> exit_code{};    // set if the run has ended
};

std::string StreamBody(const StreamPost& post);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_API_FILE_STREAM_H_
