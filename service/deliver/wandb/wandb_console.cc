// The part of WandbDelivery that sends what the run's first rank printed: its lines as they come, and
// all of them as a file at the end. A line has a place of its own, so it may be sent again. The count
// of those that may be at the server is stored before they are sent, so that lines of other programs
// are noticed.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/base/status_macros.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/wandb/api/file_stream.h"
#include "service/deliver/wandb/api/server_json.h"
#include "service/deliver/wandb/wandb_delivery.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr size_t kLinesOfPost = 2000;
constexpr size_t kBytesOfPost = 1 << 20;  // far below the server's limit for a post
constexpr size_t kLinesOfRead = 10'000;
constexpr size_t kBytesOfFile = 16 << 20;  // the newest; a terminal's page shows no more

// As the official client: in the form that the server asks for.
std::string ConsoleText(const model::ConsoleLine& line, bool structured) {
  const std::string time = absl::FormatTime(
      "%Y-%m-%dT%H:%M:%E6S", absl::FromUnixMicros(line.time_us), absl::UTCTimeZone());
  if (!structured) return absl::StrCat(line.error ? "ERROR " : "", time, " ", line.text);
  std::string text = line.error ? "{\"level\":\"error\",\"ts\":" : "{\"ts\":";
  AppendString(time, &text);
  text += ",\"content\":";
  AppendString(line.text, &text);
  text += '}';
  return text;
}

}  // namespace

// The next changes, by number.
absl::Status WandbDelivery::ReadConsole(storage::StoreReader& reader) {
  ASSIGN_OR_RETURN(
      std::vector<model::StoredConsoleLine> changes,
      reader.ConsoleChanges(run_.id, run_.primary_rank, cursor_.console_change, kLinesOfPost));
  size_t bytes = 0;
  size_t count = 0;
  while (count < changes.size() && bytes < kBytesOfPost) bytes += changes[count++].line.text.size();
  changes.resize(count);
  if (changes.empty()) return absl::OkStatus();
  console_through_ = changes.back().id;
  for (model::StoredConsoleLine& change : changes) {
    // Earlier ones have lines of other programs behind them.
    if (change.line.number >= cursor_.console_from) console_.push_back(std::move(change.line));
  }
  std::sort(console_.begin(), console_.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  if (console_.empty()) cursor_.console_change = console_through_;
  return absl::OkStatus();
}

absl::StatusOr<absl::optional<absl::Duration>> WandbDelivery::SendConsole(
    storage::StoreReader& reader, absl::Time now, bool at_once) {
  if (cursor_.continued || (console_.empty() && now < console_not_before_ && !at_once)) {
    return absl::nullopt;
  }
  if (console_.empty()) {
    const int64_t before = cursor_.console_change;
    RETURN_IF_ERROR(ReadConsole(reader));
    if (console_.empty() && cursor_.console_change == before) return absl::nullopt;
    if (console_.empty()) return absl::ZeroDuration();
  }
  if (MustAsk(now)) return absl::optional<absl::Duration>(AskStanding(now));
  if (const uint64_t end = console_.back().number + 1; end > cursor_.console_end) {
    cursor_.console_end = end;
    return absl::ZeroDuration();  // so that the cursor is stored
  }
  // Lines without a gap.
  size_t count = 1;
  while (count < console_.size() && console_[count].number == console_[count - 1].number + 1) {
    ++count;
  }
  const uint64_t first = console_.front().number;
  StreamPost post;
  post.console_offset = cursor_.console_offset + static_cast<int64_t>(first);
  for (size_t i = 0; i < count; ++i) {
    post.console.push_back(ConsoleText(console_[i], structured_console_));
  }
  const absl::StatusOr<HttpResponse> answer = Post(Endpoint::kFileStream, StreamBody(post));
  const Outcome outcome = Classify(answer);
  if (IsRefusal(outcome)) {
    AddDeadLetter(0, absl::StrCat(kConsoleLetter, Explain(answer)), post.console.front());
  } else if (outcome != Outcome::kAccepted) {
    return absl::optional<absl::Duration>(
        Failed(outcome, "post the console to the file stream", answer, now));
  } else {
    stop_requested_ = SaysStop(*answer);
    last_request_ = now;
    OnSuccess();
  }
  console_.erase(console_.begin(), console_.begin() + static_cast<ptrdiff_t>(count));
  if (console_.empty()) {
    cursor_.console_change = console_through_;
    console_not_before_ = now + options_.transmit_interval;
  }
  return absl::optional<absl::Duration>(absl::ZeroDuration());
}

// The server has `lines` lines of the console.
void WandbDelivery::PlaceConsole(int64_t lines) {
  if (lines <= cursor_.console_offset + static_cast<int64_t>(cursor_.console_end)) return;
  // Other programs wrote lines. Ours that come now go after them.
  cursor_.console_from = cursor_.console_end;
  cursor_.console_offset = lines - static_cast<int64_t>(cursor_.console_from);
  console_.clear();
}

absl::Status WandbDelivery::ReadConsoleFile(storage::StoreReader& reader) {
  console_file_.emplace();
  uint64_t from = 0;
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<model::StoredConsoleLine> lines,
                     reader.ConsoleLines(run_.id, run_.primary_rank, from, kLinesOfRead));
    for (const model::StoredConsoleLine& stored : lines) {
      absl::StrAppend(&*console_file_, stored.line.text, "\n");
    }
    if (console_file_->size() > kBytesOfFile) {
      console_file_->erase(0, console_file_->find('\n', console_file_->size() - kBytesOfFile) + 1);
    }
    if (lines.size() < kLinesOfRead) return absl::OkStatus();
    from = lines.back().line.number + 1;
  }
}

}  // namespace ranklog::deliver::wandb
