#include "service/model/run.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

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

bool IsNumbered(absl::string_view run_id, absl::string_view wanted) {
  if (!absl::ConsumePrefix(&run_id, wanted)) return false;
  uint32_t number = 0;
  return run_id.empty() ||
         (absl::ConsumePrefix(&run_id, "-") && absl::SimpleAtoi(run_id, &number) && number >= 2);
}

bool AddNumberNotice(absl::string_view job_id, absl::string_view run_id, uint32_t primary_rank,
                     std::string* notice) {
  const std::string of_rank = absl::StrCat(job_id, "-", primary_rank);
  if (run_id == job_id || run_id == of_rank) return false;
  for (const absl::string_view wanted : {absl::string_view(of_rank), job_id}) {
    if (!IsNumbered(run_id, wanted)) continue;
    absl::StrAppend(notice, notice->empty() ? "" : "; ", "another run has the id '", wanted,
                    "': this one is '", run_id, "'");
    return true;
  }
  return false;
}

bool SpoolIsUnread(const Stream& stream) { return absl::StrContains(stream.reason, kSpoolUnread); }

}  // namespace ranklog::model
