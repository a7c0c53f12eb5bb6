// The part of ClickhouseDelivery that sends the description of the run and its end. Of several
// descriptions, the one with the largest version counts, so sending one twice does no harm.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/clickhouse/clickhouse_delivery.h"

namespace ranklog::deliver::clickhouse {
namespace {

constexpr char kRunColumns[] =
    "project, run, part, version, run_id, name, job_group, job_type, notes, tags, strategy, "
    "is_primary, node, host, program, state, exit_code, reason, started, ended, rows, last_step, "
    "late_rows, config, summary, metadata";
constexpr char kRankColumns[] =
    "project, run, stream, version, rank, local_rank, world_size, node, attempt, thread, pid, "
    "state, exit_code, reason, started, ended, rows, late_rows, lost_rows, losses";

}  // namespace

// The summary comes from all rows of the run, so it is made once the run has ended.
absl::StatusOr<ClickhouseDelivery::Wait> ClickhouseDelivery::ReadSummary(
    storage::StoreReader& reader) {
  if (!ended()) {
    has_summary_ = false;
    summary_.reset();
    return absl::nullopt;
  }
  if (has_summary_ || run_.local_only) return absl::nullopt;
  if (summary_ == nullptr) {
    ASSIGN_OR_RETURN(const std::vector<model::StoredItem> items, reader.Items(run_.id, 0));
    summary_ = std::make_unique<RunSummaryReader>(items, streams_);
  }
  ASSIGN_OR_RETURN(const bool done, summary_->Read(reader, run_));
  if (!done) return absl::ZeroDuration();
  summary_text_ = summary_->Text();
  summary_.reset();
  has_summary_ = true;
  return absl::nullopt;
}

absl::StatusOr<ClickhouseDelivery::Wait> ClickhouseDelivery::SendDescription(
    storage::StoreReader& reader, absl::Time now) {
  if (ended() && (WaitingRows() > 0 || cursor_.samples < run_.samples)) return absl::nullopt;
  ASSIGN_OR_RETURN(const Wait reading, ReadSummary(reader));
  if (reading) return *reading;
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> items, reader.Items(run_.id, 0));
  const int64_t last_item = items.empty() ? 0 : items.back().id;
  // Versions grow even if the clock is set back.
  const auto wall_us =
      static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixMicros(options_.wall_clock()), 0));
  const uint64_t version = std::max(wall_us, cursor_.version + 1);
  ASSIGN_OR_RETURN(const std::vector<model::Stream> all, reader.Streams(run_.id));
  const Description description = Describe(run_, streams_, items, ConfigText(run_, all, items),
                                           has_summary_ ? summary_text_ : "", version);
  if (description.digest != cursor_.described && description.digest != ranks_described_) {
    const absl::StatusOr<HttpResponse> answer =
        SendRequest(Insert(at(), "ranks", kRankColumns, "JSONEachRow", "", description.ranks),
                    /*is_insert=*/true);
    if (OutcomeOf(answer) != Outcome::kAccepted) {
      return NotAccepted("insert into ranks", answer, now);
    }
    ranks_described_ = description.digest;
    OnSuccess();
    return absl::ZeroDuration();
  }
  if (description.digest != cursor_.described) {
    const absl::StatusOr<HttpResponse> answer =
        SendRequest(Insert(at(), "runs", kRunColumns, "JSONEachRow", "", description.run),
                    /*is_insert=*/true);
    if (OutcomeOf(answer) != Outcome::kAccepted) {
      return NotAccepted("insert into runs", answer, now);
    }
    cursor_.version = version;
    cursor_.described = description.digest;
    delivery_.last_error.clear();
    OnSuccess();
  }
  for (const model::StoredItem& stored : items) {
    if (stored.item.IsUpload() && stored.id > delivery_.delivered_items && !told_files_) {
      told_files_ = true;
      AddDeadLetter(0, "ClickHouse holds no files: artifacts and files stay on this node", "");
    }
  }
  delivery_.delivered_items = std::max(delivery_.delivered_items, last_item);
  return absl::nullopt;
}

}  // namespace ranklog::deliver::clickhouse
