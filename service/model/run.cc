#include "service/model/run.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ranklog::model {
namespace {

// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/, folded to 32 bits.
std::string Mark(absl::string_view id) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return absl::StrCat(absl::Hex(static_cast<uint32_t>(hash ^ (hash >> 32)), absl::kZeroPad8));
}

}  // namespace

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

uint64_t Delivery::replayed_rows() const {
  if (!cursor.is_object()) return 0;
  const auto found = cursor.find("replayed_rows");
  if (found == cursor.end() || !found->is_number_unsigned()) return 0;
  return std::min(found->get<uint64_t>(), delivered_rows);
}

Delivery::Uploads Delivery::uploads() const {
  const auto member = [this](const char* key) {
    if (!cursor.is_object()) return int64_t{0};
    const auto found = cursor.find(key);
    if (found == cursor.end() || !found->is_number_integer()) return int64_t{0};
    return std::max<int64_t>(found->get<int64_t>(), 0);
  };
  Uploads uploads;
  uploads.through = std::max(delivered_items, member("content"));
  uploads.sent_files = static_cast<uint64_t>(member("content_files"));
  uploads.sent_bytes = static_cast<uint64_t>(member("content_bytes"));
  return uploads;
}

std::string WithNumber(absl::string_view id, uint64_t number) {
  std::string numbered = absl::StrCat(id, "-", number);
  if (numbered.size() <= kMaxIdBytes) return numbered;
  const std::string end = absl::StrCat("-", Mark(id), "-", number);
  return absl::StrCat(id.substr(0, kMaxIdBytes - end.size()), end);
}

bool IsNumbered(absl::string_view run_id, absl::string_view wanted) {
  if (run_id == wanted) return true;
  const size_t dash = run_id.rfind('-');
  uint32_t number = 0;
  return dash != absl::string_view::npos && absl::SimpleAtoi(run_id.substr(dash + 1), &number) &&
         number >= 2 && run_id == WithNumber(wanted, number);
}

bool AddNumberNotice(absl::string_view job_id, absl::string_view run_id, uint32_t primary_rank,
                     std::string* notice) {
  const std::string of_rank = WithNumber(job_id, primary_rank);
  if (run_id == job_id || run_id == of_rank) return false;
  for (const absl::string_view wanted : {absl::string_view(of_rank), job_id}) {
    if (!IsNumbered(run_id, wanted)) continue;
    absl::StrAppend(notice, notice->empty() ? "" : "; ", "another run has the id '", wanted,
                    "': this one is '", run_id, "'");
    return true;
  }
  return false;
}

// The node's store may have rows that its daemon could not send any more.
bool SpoolIsUnread(const Stream& stream) {
  return absl::StrContains(stream.reason, kSpoolUnread) || stream.reason == kNotHeardOf;
}

}  // namespace ranklog::model
