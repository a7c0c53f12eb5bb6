// The items of a run: into the ring, or into a file if one is too large for it.

#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/content/content_files.h"
#include "client/ring/writer_call.h"
#include "client/run/run_state.h"

namespace ranklog::internal {

bool RunState::AddItem(v1::Item& item) {
  if (settings_.disabled) return true;
  if (!usable_) return RefuseItem("the run has no memory");
  if (item.has_summary()) item.set_before_step(steps_->next());
  item.set_called_us(static_cast<int64_t>(MicrosSinceBoot()));
  const std::string content = item.SerializeAsString();
  RingWriter* const writer = FindWriter();
  const WriteResult outcome =
      writer == nullptr ? WriteResult::kRingFull : WriteItem(writer, content);
  if (outcome == WriteResult::kTaken) return true;
  if (outcome == WriteResult::kInterrupting) {  // so do not wait for a lock
    lost_items_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  if (closed_.load(std::memory_order_relaxed)) return RefuseItem("the run has finished");
  if (outcome == WriteResult::kTooLarge) {
    const bool is_possible = writer->too_large() <= v1::kMaxRingBytes / 2;
    std::string why = absl::StrCat(
        "one has ", content.size(), " bytes, and ",
        is_possible ? "no spool directory has room for twice that" : "a ring takes at most 32 MiB");
    {
      MutexLock lock(StateMutex());
      absl::StrAppend(&why, "; ",
                      content_error_.empty() ? "no daemon has answered yet" : content_error_);
    }
    return RefuseItem(std::move(why));
  }
  MutexLock lock(StateMutex());
  lost_items_.fetch_add(1, std::memory_order_relaxed);
  refused_item_ = writer == nullptr ? last_error_ : FullReason(/*refused=*/UINT64_MAX);
  return false;
}

bool RunState::RefuseItem(std::string why) noexcept {
  lost_items_.fetch_add(1, std::memory_order_relaxed);
  try {
    MutexLock lock(StateMutex());
    last_error_ = refused_item_ = std::move(why);
  } catch (...) {  // no memory: it is counted
  }
  return false;
}

WriteResult RunState::WriteItem(RingWriter* writer, std::string_view content) {
  if (WriterCall::IsInterrupted(*writer)) return WriteResult::kInterrupting;
  const WriterCall call(writer);
  if (closed_.load(std::memory_order_relaxed)) return WriteResult::kAfterFinish;
  if (attention_.load(std::memory_order_relaxed) != 0) WriteFacts(writer);
  const WriteResult outcome = writer->WriteItem(content);
  if (outcome != WriteResult::kTooLarge) return outcome;
  if (const auto left = LeaveInFile(writer, content); left.has_value()) return *left;
  return TakeRingForItem(*writer) ? WriteItem(FindWriter(), content) : outcome;
}

std::optional<WriteResult> RunState::LeaveInFile(RingWriter* writer, std::string_view content) {
  v1::ContentPlace place;
  {
    MutexLock lock(StateMutex());
    place = content_place_;
  }
  if (place.dir().empty()) return std::nullopt;  // no daemon has answered yet
  const absl::StatusOr<v1::ContentFile> file = WriteContentFile(place, content);
  if (!file.ok()) {
    MutexLock lock(StateMutex());
    content_error_ = absl::StrCat(file.status().message());
    return std::nullopt;
  }
  v1::Item reference;
  *reference.mutable_file() = *file;
  const WriteResult outcome = writer->WriteItem(reference.SerializeAsString());
  if (outcome != WriteResult::kTaken) RemoveContentFile(place, *file);
  return outcome;
}

}  // namespace ranklog::internal
