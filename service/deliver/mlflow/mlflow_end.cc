// The part of MlflowDelivery that follows the last row: summary, console, status.

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/mlflow/format/names.h"
#include "service/deliver/mlflow/mlflow_delivery.h"
#include "service/deliver/run_shapes.h"

namespace ranklog::deliver::mlflow {
namespace {

constexpr size_t kScanBytes = 4 << 20;

}  // namespace

absl::StatusOr<absl::Duration> MlflowDelivery::End(storage::StoreReader& reader, absl::Time now) {
  ASSIGN_OR_RETURN(const Wait summary, SendSummary(reader, now));
  if (summary) return *summary;
  if (const Wait wait = SendDescription(now)) return *wait;  // tags of the summary
  ASSIGN_OR_RETURN(const Wait console, SendConsole(reader, now));
  if (console) return *console;
  if (const Wait wait = SetStatus(StatusOf(run_.state), ToMs(run_.ended_us), now)) return *wait;
  if (const Wait wait = SettleParent(now)) return *wait;
  if (const Wait wait = EndParent(now)) return *wait;
  delivery_.delivered_items = std::max(delivery_.delivered_items, items_);
  delivery_.complete = true;
  delivery_.last_error.clear();
  ForgetEnd();  // it may have continued meanwhile, and end again before the next step
  return absl::InfiniteDuration();
}

// A metric has its latest value by itself. What the summary has beyond that becomes further metrics,
// at the last step: KEY.min and so on, and numbers that ranks set. Other values become tags.
absl::StatusOr<MlflowDelivery::Wait> MlflowDelivery::SendSummary(storage::StoreReader& reader,
                                                                 absl::Time now) {
  if (summary_done_) return absl::nullopt;
  if (!summary_) {
    ASSIGN_OR_RETURN(const std::vector<model::StoredItem> items, reader.Items(run_.id, 0));
    summary_.emplace(items, streams_);
    if (summary_->IsPlain()) {
      summary_done_ = true;
      summary_.reset();
      return absl::nullopt;
    }
  }
  if (summary_->next_row < run_.rows) {
    ASSIGN_OR_RETURN(const std::vector<storage::StoredBatch> batches,
                     reader.RunBatches(run_.id, summary_->next_row, kScanBytes));
    if (batches.empty()) return absl::DataLossError("rows of the run are not in the store");
    for (const storage::StoredBatch& stored : batches) {
      RETURN_IF_ERROR(ReadShapes(reader, run_.id, stored.batch, &shapes_));
      summary_->Add(stored.batch, shapes_, run_.rows);
    }
    return absl::ZeroDuration();
  }
  // The run may have ended before, and continued without a row.
  Slice timeless;
  Pairs tags;
  summary_->Finish(shapes_, 0, &timeless, &tags);
  const std::string digest = Digest(absl::StrCat(timeless.finite, "\n", timeless.nan));
  Slice slice;
  if (digest != cursor_.summary) {
    tags.clear();
    summary_->Finish(shapes_, run_.ended_us, &slice, &tags);
  }
  for (std::string* part : {&slice.finite, &slice.nan}) {
    if (part->empty() || summary_->sent.count(*part) > 0) continue;
    const absl::StatusOr<HttpResponse> answer =
        SendRequest(Post(server(), "runs/log-batch", MetricsBody(cursor_.run_id, *part)),
                    /*large=*/true);
    const Outcome outcome = Classify(answer);
    if (IsRefusal(outcome)) {
      if (!run_checked_) {
        check_run_ = true;
        return absl::ZeroDuration();
      }
      AddDeadLetter(0, absl::StrCat("summary: ", Explain(answer)), *part);
    } else if (outcome != Outcome::kAccepted) {
      return NotAccepted("send the summary", answer, now);
    } else {
      OnSuccess();
    }
    summary_->sent.insert(*part);
    return absl::ZeroDuration();
  }
  AddTags(tags);
  cursor_.summary = digest;
  summary_.reset();
  summary_done_ = true;
  return absl::nullopt;
}

}  // namespace ranklog::deliver::mlflow
