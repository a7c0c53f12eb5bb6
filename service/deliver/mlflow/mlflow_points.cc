// The part of MlflowDelivery that sends rows and system metrics. A point that is sent twice is stored
// once, because its time, step and value are those of the store. So nothing is stored before a
// request, only after its answer.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/deliver/http/url.h"
#include "service/deliver/mlflow/mlflow_delivery.h"
#include "service/deliver/run_shapes.h"

namespace ranklog::deliver::mlflow {
namespace {

constexpr size_t kReadBytes = 64 << 10;
constexpr int kMostReads = 64;  // for one slice, if the rows have no numbers
// Servers before 3.10 refuse more points at once if they have some of them. SQLite takes seconds to
// find many.
constexpr uint64_t kMaxUnsure = 100;
constexpr uint64_t kMaxSamples = 1000;
constexpr size_t kMaxUnsentKeys = 100;  // of which the user is told

// The part that is sent next; empty: all was sent.
std::string& NextPart(Slice& slice) { return slice.finite.empty() ? slice.nan : slice.finite; }

}  // namespace

bool MlflowDelivery::MaySend(absl::Time now, bool draining) const {
  if (draining || ended() || more_ || now >= last_data_ + options_.transmit_interval) return true;
  const auto pending = static_cast<double>(run_.rows - delivery_.delivered_rows);
  return pending * points_per_row_ >= static_cast<double>(kMaxMetrics);
}

size_t MlflowDelivery::MostPoints() const {
  uint64_t most = kMaxMetrics;
  if (point_at_ < unsure_until_) most = std::min(kMaxUnsure, unsure_until_ - point_at_);
  return bisection_.Rows(point_at_, most);
}

absl::StatusOr<Slice> MlflowDelivery::ReadSlice(storage::StoreReader& reader) {
  Slice slice;
  slice.next_row = delivery_.delivered_rows;
  slice.next_point = cursor_.points;
  const size_t most = MostPoints();
  for (int reads = 0; reads < kMostReads && slice.next_row < run_.rows; ++reads) {
    if (slice.points >= most || slice.bytes() >= kMaxBodyBytes) break;
    const uint64_t row = slice.next_row;
    const uint64_t point = slice.next_point;
    ASSIGN_OR_RETURN(const std::vector<storage::StoredBatch> batches,
                     reader.RunBatches(run_.id, row, kReadBytes));
    for (const storage::StoredBatch& stored : batches) {
      RETURN_IF_ERROR(ReadShapes(reader, run_.id, stored.batch, &shapes_));
      points_->Append(stored.batch, shapes_, run_.rows, most, &slice);
      if (slice.next_row <= stored.batch.last) break;
    }
    if (slice.next_row == row && slice.next_point == point) {
      return absl::DataLossError(
          absl::StrCat("row ", row, " of run ", run_.run_id, " is not in the store"));
    }
  }
  return slice;
}

absl::StatusOr<MlflowDelivery::Wait> MlflowDelivery::SendRows(storage::StoreReader& reader,
                                                              absl::Time now, bool draining) {
  if (!slice_) {
    if (run_.rows == delivery_.delivered_rows || !MaySend(now, draining)) return absl::nullopt;
    ASSIGN_OR_RETURN(slice_, ReadSlice(reader));
  }
  if (std::string& part = NextPart(*slice_); !part.empty()) {
    const absl::StatusOr<HttpResponse> answer = SendRequest(
        Post(server(), "runs/log-batch", MetricsBody(cursor_.run_id, part)), /*large=*/true);
    const Outcome outcome = Classify(answer);
    const bool is_there = slice_->points == 1 && IsDuplicate(answer);
    if (outcome == Outcome::kAccepted || is_there) {
      part.clear();
      run_checked_ = false;
      OnSuccess();
      if (!NextPart(*slice_).empty()) return absl::ZeroDuration();
    } else if (IsRefusal(outcome)) {
      if (!run_checked_ && !IsDuplicate(answer)) {
        check_run_ = true;
        return absl::ZeroDuration();
      }
      if (slice_->points > 1) {
        bisection_.Refused(point_at_, slice_->points);
        slice_.reset();
        return absl::ZeroDuration();
      }
      SetRowApart(Explain(answer), part);
    } else {
      unsure_until_ = std::max(unsure_until_, point_at_ + slice_->points);
      slice_.reset();
      return NotAccepted("send points", answer, now);
    }
  }
  RowsSent(*slice_);
  slice_.reset();
  last_data_ = now;
  return absl::ZeroDuration();
}

void MlflowDelivery::RowsSent(const Slice& slice) {
  const uint64_t first = delivery_.delivered_rows;
  if (slice.next_row > first) {
    points_per_row_ =
        static_cast<double>(slice.points) / static_cast<double>(slice.next_row - first);
  }
  delivery_.delivered_rows = slice.next_row;
  cursor_.points = slice.next_point;
  cursor_.replayed_rows += slice.replays;
  point_at_ += slice.points;
  more_ = slice.next_row < run_.rows && MostPoints() < kMaxMetrics;
  // All that a daemon could have sent was sent again.
  if (slice.next_row == run_.rows) unsure_until_ = std::min(unsure_until_, point_at_);
  delivery_.last_error.clear();
  for (const std::string& key : points_->unsent()) {
    if (cursor_.unsent_keys.size() >= kMaxUnsentKeys) break;
    if (!cursor_.unsent_keys.insert(key).second) continue;
    AddDeadLetter(first,
                  absl::StrCat("key ", key,
                               ": MLflow has only numbers in its metrics; other "
                               "values of this key stay on this node"),
                  "");
  }
}

void MlflowDelivery::SetRowApart(const std::string& answer, const std::string& point) {
  bisection_.Clear();
  if (refused_row_ != delivery_.delivered_rows) ++delivery_.refused_rows;
  refused_row_ = delivery_.delivered_rows;
  AddDeadLetter(delivery_.delivered_rows, answer, point);
}

absl::StatusOr<MlflowDelivery::Wait> MlflowDelivery::SendSamples(storage::StoreReader& reader,
                                                                 absl::Time now, bool draining) {
  const bool due =
      ended() || draining || now >= last_samples_ + options_.transmit_interval || sample_failed_;
  if (cursor_.samples >= run_.samples || !due) return absl::nullopt;
  ASSIGN_OR_RETURN(const std::vector<model::Sample> samples,
                   reader.Samples(run_.id, cursor_.samples, kMaxSamples));
  if (samples.empty()) {
    return absl::DataLossError(
        absl::StrCat("system metrics of run ", run_.run_id, " are not in the store"));
  }
  const std::string node = streams_.empty() ? "" : streams_.front().identity.node;
  const size_t most = sample_failed_ ? kMaxUnsure : kMaxMetrics;
  Slice slice;
  uint64_t count = 0;
  for (const model::Sample& sample : samples) {
    if (count > 0 && slice.points + sample.values.size() > most) break;
    AppendSample(sample, node, &slice);
    ++count;
  }
  // No sample has a value that is not a number.
  if (!slice.finite.empty()) {
    const absl::StatusOr<HttpResponse> answer =
        SendRequest(Post(server(), "runs/log-batch", MetricsBody(cursor_.run_id, slice.finite)),
                    /*large=*/true);
    const Outcome outcome = Classify(answer);
    if (IsRefusal(outcome)) {
      if (!run_checked_) {
        check_run_ = true;
        return absl::ZeroDuration();
      }
      AddDeadLetter(0, absl::StrCat("system metrics: ", Explain(answer)), slice.finite);
    } else if (outcome != Outcome::kAccepted) {
      sample_failed_ = true;
      return NotAccepted("send system metrics", answer, now);
    } else {
      OnSuccess();
    }
  }
  cursor_.samples += count;
  sample_failed_ = false;
  if (cursor_.samples >= run_.samples) last_samples_ = now;
  delivery_.last_error.clear();
  return absl::ZeroDuration();
}

// After a refusal: a deleted run refuses everything.
absl::Duration MlflowDelivery::CheckRun(absl::Time now) {
  const absl::StatusOr<HttpResponse> answer =
      SendRequest(Get(server(), absl::StrCat("runs/get?run_id=", PercentEncode(cursor_.run_id))));
  if (Classify(answer) != Outcome::kAccepted) return NotAccepted("read the run", answer, now);
  const absl::StatusOr<ServerRun> run = ParseRun(*answer);
  if (!run.ok()) return BlockedByAnswer(run.status(), answer, now);
  check_run_ = false;
  run_checked_ = true;
  gone_ = run->deleted;
  if (gone_) slice_.reset();
  OnSuccess();
  return absl::ZeroDuration();
}

// A person may restore a live run.
absl::Duration MlflowDelivery::OnRunGone(absl::Time now) {
  constexpr char kDeleted[] = "the run is deleted at the server";
  if (!ended()) {
    check_run_ = true;
    return Blocked(absl::StrCat(kDeleted, kToContinue,
                                "restore it there; what waits at the end of the run is set apart"),
                   now);
  }
  if (const uint64_t rows = run_.rows - delivery_.delivered_rows; rows > 0) {
    AddDeadLetter(delivery_.delivered_rows,
                  absl::StrCat(RowsText(delivery_.delivered_rows, run_.rows - 1), ": ", kDeleted),
                  "");
    delivery_.refused_rows += rows;
  } else {
    AddDeadLetter(0, absl::StrCat("end of the run: ", kDeleted), "");
  }
  delivery_.delivered_rows = run_.rows;
  cursor_.points = 0;
  delivery_.delivered_items = run_.last_item;
  cursor_.samples = run_.samples;
  content_.clear();
  delivery_.complete = true;
  delivery_.last_error.clear();
  return absl::InfiniteDuration();
}

}  // namespace ranklog::deliver::mlflow
