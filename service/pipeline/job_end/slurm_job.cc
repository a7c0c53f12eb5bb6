#include "service/pipeline/job_end/slurm_job.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace ranklog::pipeline {
namespace {

// Slurm's mark of a step in whose memory cgroup a process was killed (SIG_OOM of slurm.h).
constexpr char kOomCode[] = "0:125";

// Lines whose values come from Slurm. Other lines, such as the first, contain text of users.
constexpr absl::string_view kOwnLines[] = {"JobState=", "Requeue=", "DerivedExitCode="};

// The fields of the job's record; empty if the record belongs to another job.
std::map<std::string, std::string> FieldsOf(absl::string_view record, const std::string& job) {
  std::map<std::string, std::string> fields;
  if (!absl::StartsWith(record, absl::StrCat("JobId=", job, " "))) return fields;
  for (absl::string_view line : absl::StrSplit(record, '\n')) {
    line = absl::StripLeadingAsciiWhitespace(line);
    const bool own =
        std::any_of(std::begin(kOwnLines), std::end(kOwnLines),
                    [&](absl::string_view key) { return absl::StartsWith(line, key); });
    if (!own) continue;
    for (absl::string_view field : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      const std::pair<std::string, std::string> parts =
          absl::StrSplit(field, absl::MaxSplits('=', 1));
      fields.insert(parts);
    }
  }
  return fields;
}

}  // namespace

std::string SlurmJobId(absl::string_view batch_job) {
  constexpr size_t kLongest = 20;  // digits of a 64-bit number
  if (!absl::ConsumePrefix(&batch_job, "slurm-")) return "";
  const std::string job(batch_job.substr(0, batch_job.find('.')));
  const bool digits = std::all_of(job.begin(), job.end(), absl::ascii_isdigit);
  return digits && job.size() <= kLongest ? job : "";
}

absl::optional<std::string> SlurmEndReason(absl::string_view output, const std::string& job,
                                           uint32_t requeue) {
  std::map<std::string, std::string> fields;
  // The tasks of an array are printed together, separated by empty lines.
  for (absl::string_view record : absl::StrSplit(output, "\n\n")) {
    fields = FieldsOf(absl::StripLeadingAsciiWhitespace(record), job);
    if (!fields.empty()) break;
  }
  const std::string& state = fields["JobState"];
  const std::string name = absl::StrCat("Slurm job ", job, " ");
  uint32_t restarts = 0;
  // By then Slurm no longer reports whether that was a preemption.
  if (absl::SimpleAtoi(fields["Restarts"], &restarts) && restarts > requeue) {
    return absl::StrCat(name, "was queued again (preempted or requeued)");
  }
  static const std::map<std::string, std::string> kEnds = {
      {"BOOT_FAIL", "could not boot its nodes"},
      {"CANCELLED", "was cancelled"},
      {"DEADLINE", "reached its deadline"},
      {"NODE_FAIL", "lost a node"},
      {"OUT_OF_MEMORY", "ran out of memory"},
      {"PREEMPTED", "was preempted"},
      {"REVOKED", "was revoked"},
      {"TIMEOUT", "reached its time limit"}};
  if (const auto end = kEnds.find(state); end != kEnds.end()) {
    return absl::StrCat(name, end->second, " (", state, ")");
  }
  if (state != "COMPLETED" && state != "FAILED") return absl::nullopt;
  if (fields["DerivedExitCode"] == kOomCode || fields["ExitCode"] == kOomCode) {
    return absl::StrCat(name, "ran out of memory (OUT_OF_MEMORY)");
  }
  return "";
}

}  // namespace ranklog::pipeline
