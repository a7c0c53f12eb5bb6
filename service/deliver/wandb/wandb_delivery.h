// Delivers one run to a Weights & Biases server. README.md beside this says what it remembers and
// how it deals with each answer.

#ifndef SERVICE_DELIVER_WANDB_WANDB_DELIVERY_H_
#define SERVICE_DELIVER_WANDB_WANDB_DELIVERY_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/aggregate/metric_table.h"
#include "service/deliver/backend.h"
#include "service/deliver/credentials.h"
#include "service/deliver/gate.h"
#include "service/deliver/retry.h"
#include "service/deliver/transport.h"
#include "service/deliver/wandb/graphql.h"
#include "service/deliver/wandb/history.h"
#include "service/deliver/wandb/narrowing.h"
#include "service/deliver/wandb/place.h"

namespace ranklog::deliver::wandb {

inline constexpr char kKind[] = "wandb";  // Delivery.kind

// Dead letters of a run's config or summary begin their `answer` by one of these; all others are of
// rows.
inline constexpr char kConfigLetter[] = "config: ";
inline constexpr char kSummaryLetter[] = "summary: ";

// The `last_error` of a run that `resume=must` wants to be there, and that is not, begins so.
inline constexpr char kMustBeThere[] = "resume=must, and the tracker has no run '";

// Unix time in microseconds at which the run's clock stood at 0.
int64_t StartOf(const model::Run& run);

// Nothing is given up: whatever fails is tried again, and `last_error` says what it was. Rows that
// the server refuses become dead letters; a bare row keeps their line, so that the lines have no
// gap.
class WandbDelivery : public RunDelivery {
 public:
  // The defaults are what the official client does.
  struct Options {
    absl::Duration transmit_interval =
        absl::Seconds(15);  // between posts with data; the first goes at once
    absl::Duration heartbeat_interval = absl::Seconds(30);
    absl::Duration config_interval =
        absl::Seconds(5);  // config and definitions are looked at this often
    absl::Duration poll_interval = absl::Seconds(1);  // rows may have come
    // After a pause this long another store may have written to the run, and it is asked where it
    // stands; the shorter pause is that of a run of which nothing is there yet, or which has ended.
    absl::Duration ask_after = absl::Seconds(30);
    absl::Duration ask_after_at_ends = absl::Seconds(5);
    absl::Duration graphql_timeout = absl::Seconds(30);
    absl::Duration stream_timeout = absl::Seconds(180);
    size_t max_post_bytes = 10485760;  // of lines; a post this full does not wait for the interval
    size_t max_line_bytes = 10383360;  // longer lines are dead letters: the server refuses them
    bool gzip = true;                  // where the server can
    // Until then, of a steady clock, the ranks of a live run may still bring the key again that they
    // had brought to the daemon before this one.
    absl::Time ranks_return_by = absl::InfinitePast();
    Backoff::Options backoff;  // for what only this run meets; the gates have their own
    std::string user_agent;    // empty: ranklog/VERSION
    std::string username;      // the person under whom a service account's runs appear
    std::string user_email;
  };

  // `run` and `delivery` as stored; a new delivery has no place. `transport`, `gates` and
  // `credentials` outlive this. The gates are of servers, and of projects, which have the limits.
  WandbDelivery(model::Run run, model::Delivery delivery, Transport* transport, Gates* gates,
                const CredentialStore* credentials, Options options);

  StepResult Step(storage::StoreReader& reader, absl::Time now, bool draining) override;

 private:
  // How long this run has to wait; zero: it is inside of both gates.
  absl::Duration Enter(absl::Time now);
  void Leave();
  void TellWhy(absl::Duration wait);
  absl::Duration Until(absl::Time time, absl::Time now) const;
  bool HasNewKey() const;
  bool HasKey() const;
  bool AwaitsRanks(absl::Time now) const;
  // Each makes at most one exchange, and returns how long to wait.
  absl::StatusOr<absl::Duration> Act(storage::StoreReader& reader, absl::Time now, bool draining);
  absl::Duration AskFeatures(absl::Time now);
  // In wandb_standing.cc.
  absl::Duration AskStanding(absl::Time now);
  // It is not known where the run stands, and `last_error` says why.
  absl::Duration Unsettled(absl::Duration wait);
  absl::StatusOr<absl::Duration> Settle(storage::StoreReader& reader, absl::Time now);
  absl::StatusOr<absl::Duration> LookForRow(storage::StoreReader& reader, absl::Time now);
  absl::Status GoBehind(storage::StoreReader& reader, uint64_t found);
  absl::StatusOr<bool> TakesUp(storage::StoreReader& reader) const;
  absl::StatusOr<int64_t> TimeOfRow(storage::StoreReader& reader, uint64_t row) const;
  absl::StatusOr<bool> IsNewest(storage::StoreReader& reader) const;
  void DropCut();

  absl::Duration UpsertRun(absl::Time now);
  absl::StatusOr<absl::Duration> Scan(storage::StoreReader& reader);
  absl::StatusOr<absl::Duration> Stream(storage::StoreReader& reader, absl::Time now,
                                        bool draining);
  absl::StatusOr<absl::Duration> StreamBehind(storage::StoreReader& reader, absl::Time now,
                                              bool draining);
  absl::StatusOr<absl::Duration> Cut(storage::StoreReader& reader);
  absl::StatusOr<absl::Duration> PassReplays(storage::StoreReader& reader);
  absl::Status WriteCut(storage::StoreReader& reader);
  absl::StatusOr<absl::Duration> PostCut(storage::StoreReader& reader, absl::Time now);
  absl::Duration PostRows(uint64_t rows, absl::Time now);

  absl::Status ReadConfig(storage::StoreReader& reader);
  absl::Status ReadShapes(storage::StoreReader& reader, const model::Batch& batch);
  absl::Status DefineMetrics(storage::StoreReader& reader, int64_t through);
  absl::Status WriteLines(storage::StoreReader& reader, uint64_t to, size_t max_bytes);
  // The server has answered for a row.
  bool has_sent() const { return delivery_.delivered_rows > place_.replayed_rows; }
  bool ended() const { return run_.state != model::RunState::kRunning; }
  bool MaySendRows(absl::Time now, bool draining) const;
  bool MustAsk(absl::Time now) const;
  std::string SummaryText(uint64_t refused_rows);
  int32_t ExitCode() const;

  enum class Endpoint { kGraphql, kFileStream };
  absl::StatusOr<HttpResponse> Send(Endpoint endpoint, std::string body,
                                    size_t max_answer = HttpRequest().max_answer);
  absl::Duration OnUpserted(const absl::StatusOr<HttpResponse>& answer, absl::Time now);
  absl::Duration UpsertRefused(const absl::StatusOr<HttpResponse>& answer, absl::Time now);
  absl::Duration Accepted(uint64_t rows, bool last, absl::Time now);
  void CutLess();
  void SettleRefusals(uint64_t end);
  uint64_t RefusedBefore(uint64_t end) const;
  absl::Duration RowsRefused(Outcome outcome, uint64_t rows, bool with_summary,
                             const absl::StatusOr<HttpResponse>& answer, absl::Time now);
  absl::Duration Failed(Outcome outcome, absl::string_view what,
                        const absl::StatusOr<HttpResponse>& answer, absl::Time now);
  void WentWell();
  absl::Duration WaitForServer(const absl::StatusOr<HttpResponse>& answer);
  absl::Duration Blocked(absl::string_view message, absl::Time now);
  void AddLetter(uint64_t row, std::string answer, std::string content);

  model::Run run_;
  model::Delivery delivery_;
  Place place_;
  Transport* const transport_;
  Gate* const server_;
  Gate* const project_;
  const CredentialStore* const credentials_;
  const Options options_;

  model::Delivery reported_;                                     // as the last Step() gave it out
  std::vector<model::DeadLetter> letters_;                       // to be given out
  StepResult::Exchange exchange_ = StepResult::Exchange::kNone;  // of this step
  Backoff backoff_;
  absl::optional<uint64_t> answers_at_failure_;  // server_'s; none: the last exchange went well
  absl::Time not_before_ = absl::InfinitePast();
  absl::Time last_data_ = absl::InfinitePast();  // a post with rows or a summary was accepted
  absl::Time last_sign_ = absl::InfinitePast();  // the server heard of the run

  // Whose keys count, and which of them the server did not take.
  std::string job_;
  std::set<std::string> refused_keys_;
  bool other_key_ = false;   // there is one to try at once
  bool awaits_key_ = false;  // the last one was refused, or there was none

  // What the server can do; asked once.
  bool features_known_ = false;
  bool gzip_ = false;
  bool globs_ = false;

  // Where the run stands: several stores may feed it, one after the other.
  bool asked_ = false;                          // since the start
  absl::Time known_at_ = absl::InfinitePast();  // when an answer last said so
  absl::optional<Standing> standing_;           // an answer from which nothing follows yet
  uint64_t found_ = 0;      // so many rows of the cut are there, from its first on
  uint64_t not_found_ = 0;  // the first row of the cut of which it is known that it is not
  bool ask_after_cut_ = false;
  std::string unsettled_;              // the error that is over once it is known
  bool fed_elsewhere_ = false;         // another store, which continues the run, is at it
  bool reopened_ = false;              // by our rows behind an end that cannot be said again
  absl::optional<int32_t> end_there_;  // exit code with which the run has ended there

  // Config.
  absl::Time next_config_ = absl::InfinitePast();
  int64_t config_updates_ = -1;  // the last update that config_ has
  size_t config_streams_ = 0;
  size_t config_shapes_ = 0;
  std::string config_;
  std::string bare_config_;  // without the user's part: makes a run whose config is refused
  std::string sent_config_;
  std::string refused_config_;  // not sent again until it changes
  std::string config_answer_;   // to refused_config_; not yet a dead letter

  // Rows.
  aggregate::MetricTable table_;
  int64_t defined_updates_ = 0;  // table_ has the definitions up to this update
  History history_;
  std::vector<std::vector<std::string>> shapes_;
  HistoryLines lines_;       // of the cut; empty if they have to be written (again)
  std::set<uint64_t> bare_;  // rows to write without values
  Narrowing narrowing_;
  absl::optional<model::DeadLetter> trial_;  // a refused row that is being tried bare
  size_t post_bytes_;                        // how much to cut at once; less after HTTP 413
  double bytes_per_row_ = 0;                 // of the last cut

  // Summary.
  uint64_t lost_rows_ = 0;  // of the run's ranks: lost, or late
  bool summary_changed_ = false;
  // Until the cut is delivered: a post with it was refused. Is it the summary, a row, or their
  // size?
  bool hold_summary_ = false;
  std::string sent_summary_;
  std::string refused_summary_;  // not sent again until it changes
  std::string summary_answer_;   // to refused_summary_; not yet a dead letter
};

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_WANDB_DELIVERY_H_
