// Rows with media: their files are staged, then the items that name the files are written, and then the
// row. So whatever is killed in between, a row never arrives without its files.

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/base/text/fields.h"
#include "client/base/text/keys.h"
#include "client/content/media.h"
#include "client/content/staged_files.h"
#include "client/ring/writer_call.h"
#include "client/run/log_row.h"
#include "client/run/run_state.h"

namespace ranklog::internal {
namespace {

// A daemon that starts with the job answers within this time.
constexpr std::chrono::seconds kDaemonStarts{5};

}  // namespace

bool RunState::LogMedia(std::span<const ranklog_field> row, const int64_t* step) noexcept {
  std::vector<ranklog_field> fields;
  std::vector<Value> entries;
  try {
    fields.reserve(row.size());
    entries.reserve(row.size());
    const bool stages = !settings_.disabled && usable_ && HasRunsRows() && MayTakeRow(step);
    const int64_t path_step = step != nullptr ? *step : std::max<int64_t>(open_step(), 0);
    for (const ranklog_field& field : row) {
      if (!IsMedia(field)) {
        fields.push_back(field);
      } else if (auto entry = stages ? StageMedia(field, path_step) : std::nullopt) {
        entries.push_back(*std::move(entry));
        fields.push_back(entries.back().field());
        fields.back().key = field.key;
        fields.back().key_bytes = field.key_bytes;
      }
    }
  } catch (...) {  // no memory
    lost_without_ring_[LossReasonIndex(WriteResult::kRingFull)].fetch_add(1);
    return false;
  }
  return LogRow(step, [&fields](RingWriter& writer, const RowStep& row_step) {
    return writer.Write(fields, row_step);
  });
}

bool RunState::MayTakeRow(const int64_t* step) {
  const RingWriter* const writer = FindWriter();
  if (writer == nullptr || WriterCall::IsInterrupted(*writer) || closed_.load()) return false;
  return step == nullptr || (*step <= kMaxStep && *step >= writer->least_step_of_thread());
}

std::optional<Value> RunState::StageMedia(const ranklog_field& field, int64_t step) {
  if (std::string error = KeyError(KeyOf(field)); !error.empty()) {
    LeaveOut(1, std::move(error));
    return std::nullopt;
  }
  absl::StatusOr<Media> media = MakeMedia(field, step);
  absl::Status status = media.status();
  if (status.ok()) status = StageMediaFiles(media->files);
  const std::string key(KeyOf(field));
  if (!status.ok()) {
    LeaveOut(1, absl::StrCat(key, ": ", status.message()));
    return std::nullopt;
  }
  if (media->left_out > 0) LeaveOut(media->left_out, absl::StrCat(key, ": ", media->why));
  return std::move(media->entry);
}

absl::Status RunState::StageMediaFiles(const std::vector<MediaFile>& files) {
  const auto patience =
      std::min<std::chrono::milliseconds>(kDaemonStarts, settings_.finish_timeout);
  const absl::StatusOr<v1::ContentPlace> place = AwaitContentPlace(created_ + patience);
  if (!place.ok()) return place.status();
  absl::Status status;
  std::vector<StagedFile> staged;
  for (size_t i = 0; i < files.size() && status.ok(); ++i) {
    absl::StatusOr<StagedFile> file = StageBytes(*place, files[i].bytes);
    status = file.status();
    if (status.ok()) staged.push_back(*std::move(file));
  }
  size_t taken = 0;
  while (taken < staged.size() && status.ok()) {
    v1::Item item = RunFileItem(files[taken].path, staged[taken]);
    if (AddItem(item)) {
      ++taken;
    } else {
      status = absl::ResourceExhaustedError(GetStats().last_error);
    }
  }
  for (; taken < staged.size(); ++taken) RemoveStagedFile(*place, staged[taken].name);
  return status;
}

void RunState::LeaveOut(uint64_t values, std::string reason) {
  if (RingWriter* const writer = FindWriter(); writer != nullptr) writer->CountLostValues(values);
  last_refusal_.store(WriteResult::kTakenInPart, std::memory_order_relaxed);
  AddLeftOut(reason);
}

}  // namespace ranklog::internal
