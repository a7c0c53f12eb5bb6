#include "service/model/run.h"

#include "absl/strings/match.h"

namespace ranklog::model {

absl::string_view Name(RunState state) {
  switch (state) {
    case RunState::kRunning:
      return "running";
    case RunState::kFinished:
      return "finished";
    case RunState::kFailed:
      return "failed";
    case RunState::kCrashed:
      return "crashed";
  }
  return "unknown";
}

absl::optional<RunState> ParseRunState(absl::string_view name) {
  for (RunState state :
       {RunState::kRunning, RunState::kFinished, RunState::kFailed, RunState::kCrashed}) {
    if (Name(state) == name) return state;
  }
  return absl::nullopt;
}

bool SpoolIsUnread(const Stream& stream) { return absl::StrContains(stream.reason, kSpoolUnread); }

}  // namespace ranklog::model
