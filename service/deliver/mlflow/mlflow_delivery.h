// Delivers one run to an MLflow server. README.md beside this describes what becomes of it there.

#ifndef SERVICE_DELIVER_MLFLOW_MLFLOW_DELIVERY_H_
#define SERVICE_DELIVER_MLFLOW_MLFLOW_DELIVERY_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/deliver/bisection.h"
#include "service/deliver/destination.h"
#include "service/deliver/mlflow/api.h"
#include "service/deliver/mlflow/cursor.h"
#include "service/deliver/mlflow/format/description.h"
#include "service/deliver/mlflow/format/points.h"
#include "service/deliver/mlflow/format/summary.h"
#include "service/deliver/tracker/tracker_delivery.h"

namespace ranklog::deliver::mlflow {

class MlflowDelivery : public TrackerDelivery {
 public:
  struct Options {
    // Between requests with points of a live run; the first is sent at once.
    absl::Duration transmit_interval = absl::Seconds(15);
    absl::Duration poll_interval = absl::Seconds(1);      // of checks for new rows
    absl::Duration describe_interval = absl::Seconds(5);  // of checks for a changed config
    absl::Duration timeout = absl::Seconds(30);
    // Of points and files. A server takes seconds for points that it has already.
    absl::Duration long_timeout = absl::Seconds(180);
    Backoff::Options backoff{};
  };

  MlflowDelivery(const Destination& destination, model::Run run, model::Delivery delivery,
                 const DeliveryParts& parts, Options options);

 private:
  absl::StatusOr<absl::Duration> Act(storage::StoreReader& reader, absl::Time now,
                                     bool draining) override;
  bool IsCreated() const override { return cursor_.created(); }
  model::Json CursorJson() const override { return ToJson(cursor_); }
  std::string PageUrl() const override;

  // Each of these makes at most one exchange. Nullopt: there is nothing to do.
  using Wait = absl::optional<absl::Duration>;

  // Defined in mlflow_start.cc: the experiment and the run.
  absl::StatusOr<absl::Duration> Begin(storage::StoreReader& reader, absl::Time now);
  absl::Duration FindExperiment(absl::Time now);
  absl::Duration FindRun(absl::Time now);
  absl::Duration ReadGivenRun(absl::Time now);
  absl::Duration CreateRun(absl::Time now);
  absl::Duration FoundRunDeleted(const ServerRun& run, absl::Time now);
  absl::Duration Join(const ServerRun& found, absl::Time now);
  void Created(const ServerRun& run);
  std::string NameOfRun() const;
  std::string Setting(const char* name) const {
    return run_.settings.Of(destination_.kind(), name);
  }
  Wait SetStatus(absl::string_view status, int64_t end_ms, absl::Time now);

  // Defined in mlflow_parent.cc: the parent of the runs of a job.
  bool HasParent() const { return run_.settings.strategy != model::LogStrategy::kMain; }
  bool MakesParent() const { return HasParent() && Setting("run_id").empty(); }
  absl::Duration FindParent(absl::Time now);
  absl::Duration RemoveMadeParent(absl::Time now);
  absl::Duration ReopenParent(absl::Time now);
  Wait SettleParent(absl::Time now);
  absl::Duration MoveChildren(absl::Time now);
  Wait EndParent(absl::Time now);

  // Defined in mlflow_description.cc: params and tags.
  absl::Status ReadDescription(storage::StoreReader& reader);
  void AddTags(const Pairs& tags);
  Wait SendDescription(absl::Time now);
  absl::Duration OnPairsRefused(const char* kind, const Pairs& pairs,
                                const absl::StatusOr<HttpResponse>& answer);
  void SettleItems();

  // Defined in mlflow_points.cc: rows and system metrics.
  absl::StatusOr<Wait> SendRows(storage::StoreReader& reader, absl::Time now, bool draining);
  absl::StatusOr<Wait> SendSamples(storage::StoreReader& reader, absl::Time now, bool draining);
  bool MaySend(absl::Time now, bool draining) const;
  size_t MostPoints() const;
  absl::StatusOr<Slice> ReadSlice(storage::StoreReader& reader);
  void RowsSent(const Slice& slice);
  void SetRowApart(const std::string& answer, const std::string& point);
  absl::Duration CheckRun(absl::Time now);
  absl::Duration OnRunGone(absl::Time now);

  // Defined in mlflow_end.cc: what follows the last row.
  absl::StatusOr<absl::Duration> End(storage::StoreReader& reader, absl::Time now);
  void ForgetEnd() { console_done_ = summary_done_ = parent_ended_ = settled_at_end_ = false; }
  absl::StatusOr<Wait> SendSummary(storage::StoreReader& reader, absl::Time now);

  // Defined in mlflow_content.cc: files.
  Wait SendContent(absl::Time now);
  absl::StatusOr<Wait> SendConsole(storage::StoreReader& reader, absl::Time now);
  absl::optional<std::string> ArtifactUrl(const std::string& path) const;
  absl::Duration Put(HttpRequest request, const std::string& path, absl::Time now, bool* done);

  // `large`: the server may need long.
  absl::StatusOr<HttpResponse> SendRequest(HttpRequest request, bool large = false);
  // The runs of the experiment that fit, by one page a call. Nullopt: they are in `runs`.
  Wait SearchRuns(const RunFilter& filter, absl::string_view what, absl::Time now,
                  std::vector<ServerRun>* runs);
  // An answer that is neither accepted nor a refusal of the request's content.
  absl::Duration NotAccepted(absl::string_view what, const absl::StatusOr<HttpResponse>& answer,
                             absl::Time now);

  Cursor cursor_;
  const Options options_;
  const std::string content_dir_;

  std::string job_id_;       // of its first stream
  bool searched_ = false;    // the server has no run of this delivery
  std::string made_parent_;  // made here; another one may have been made at the same time
  bool parent_runs_ = true;  // as the server has it
  // Another daemon may have made a parent meanwhile. When to look for it.
  absl::Time settle_parent_at_ = absl::InfiniteFuture();
  bool settled_ = false;
  bool settled_at_end_ = false;
  std::vector<std::string> lost_parents_;  // their children move to the run's parent
  std::vector<std::string> lost_children_;
  RunPage found_;  // of the search that is under way

  absl::Time next_description_ = absl::InfinitePast();
  std::vector<model::Stream> streams_;
  int64_t items_ = -1;  // the last item that was read
  model::RunState described_state_ = model::RunState::kRunning;
  uint64_t described_losses_ = 0;
  size_t described_shapes_ = 0;
  Pairs params_;                                    // to be sent
  std::map<std::string, std::string> params_sent_;  // digests
  std::string params_digest_;                       // of all params that were read
  Pairs tags_;
  size_t most_pairs_ = kMaxParams;  // fewer after a refusal
  std::set<std::string> told_;      // what the user was told

  std::vector<std::vector<std::string>> shapes_;
  absl::optional<RowPoints> points_;
  absl::optional<Slice> slice_;
  bool more_ = false;  // the next slice does not wait for further rows
  bool sample_failed_ = false;
  uint64_t point_at_ = 0;      // points that were sent since the start
  uint64_t unsure_until_ = 0;  // points before this one may be there already
  Bisection bisection_;        // over points
  uint64_t refused_row_ = UINT64_MAX;
  absl::Time last_data_ = absl::InfinitePast();
  absl::Time last_samples_ = absl::InfinitePast();
  double points_per_row_ = 1;
  bool check_run_ = false;  // whether it is deleted
  bool run_checked_ = false;
  bool gone_ = false;  // it is

  absl::optional<Summary> summary_;
  bool summary_done_ = false;
  struct ParentEnd {
    size_t asked = 0;  // of the statuses that its children may have
    std::string status = "FINISHED";
    int64_t end_ms = 0;
  };
  ParentEnd parent_end_;
  bool parent_ended_ = false;
  std::deque<model::StoredItem> content_;
  size_t content_entry_ = 0;
  bool console_done_ = false;
};

}  // namespace ranklog::deliver::mlflow

#endif  // SERVICE_DELIVER_MLFLOW_MLFLOW_DELIVERY_H_
