// Delivers one run to a Weights & Biases server. README.md beside this describes the
// handling of each answer, format.md its state.

#ifndef SERVICE_DELIVER_WANDB_WANDB_DELIVERY_H_
#define SERVICE_DELIVER_WANDB_WANDB_DELIVERY_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/aggregate/metric_table.h"
#include "service/deliver/bisection.h"
#include "service/deliver/destination.h"
#include "service/deliver/http/circuit_breaker.h"
#include "service/deliver/http/retry.h"
#include "service/deliver/http/transport.h"
#include "service/deliver/tracker/tracker_delivery.h"
#include "service/deliver/wandb/api/run_files.h"
#include "service/deliver/wandb/api/run_standing.h"
#include "service/deliver/wandb/api/run_upsert.h"
#include "service/deliver/wandb/artifacts/content_upload.h"
#include "service/deliver/wandb/cursor.h"
#include "service/deliver/wandb/documents/config_reader.h"
#include "service/deliver/wandb/documents/sent_config.h"
#include "service/deliver/wandb/history/branch_point.h"
#include "service/deliver/wandb/history/history.h"
#include "service/deliver/wandb/history/run_clock.h"

namespace ranklog::deliver::wandb {

// The `answer` of a dead letter for something other than a row starts with one of these.
inline constexpr char kConfigLetter[] = "config: ";
inline constexpr char kSummaryLetter[] = "summary: ";
inline constexpr char kSamplesLetter[] = "system metrics: ";
inline constexpr char kFileLetter[] = "file ";
inline constexpr char kArtifactLetter[] = "artifact ";
inline constexpr char kAlertLetter[] = "alert: ";
inline constexpr char kConsoleLetter[] = "console: ";
bool IsOfRow(const model::DeadLetter& letter);

// A bare line keeps the position of a row that the server refuses, so that the lines have no gap.
class WandbDelivery : public TrackerDelivery {
 public:
  // The defaults match the official client.
  struct Options {
    // Has the run's settings, address and key; null: W&B. Must outlive the delivery.
    const Destination* destination = nullptr;
    // Between posts with data; the first is sent at once.
    absl::Duration transmit_interval = absl::Seconds(15);
    absl::Duration heartbeat_interval = absl::Seconds(30);
    // Interval of checks for a changed config and new definitions.
    absl::Duration config_interval = absl::Seconds(5);
    absl::Duration poll_interval = absl::Seconds(1);  // interval of checks for new rows
    // After a pause of this length, another store may have written to the run, so the delivery asks
    // for its standing. The shorter pause applies if nothing of the run was sent yet or the run has
    // ended.
    absl::Duration ask_after = absl::Seconds(30);
    absl::Duration ask_after_at_ends = absl::Seconds(5);
    absl::Duration graphql_timeout = absl::Seconds(30);
    absl::Duration stream_timeout = absl::Seconds(180);
    // Of a file, with a second more for each MiB. Rows wait meanwhile.
    absl::Duration upload_timeout = absl::Seconds(10);
    // Of lines; a post of this size does not wait for transmit_interval.
    size_t max_post_bytes = 10485760;
    // Longer lines become dead letters, because the server refuses them.
    size_t max_line_bytes = 10383360;
    bool gzip = true;   // if the server supports it
    bool files = true;  // upload the run's files
    // A file of an artifact from this size on is sent in parts; as the official client.
    uint64_t multipart_bytes = uint64_t{2} << 30;
    uint64_t part_bytes = 100 << 20;
    Backoff::Options backoff{};
    std::string username{};  // user shown for runs of a service account
    std::string user_email{};
  };

  WandbDelivery(model::Run run, model::Delivery delivery, const DeliveryParts& parts,
                Options options);

 private:
  absl::StatusOr<absl::Duration> Act(storage::StoreReader& reader, absl::Time now,
                                     bool draining) override;
  bool IsCreated() const override { return cursor_.created(); }
  bool HasCursor() const override { return IsCreated() || !cursor_.sent_config.empty(); }
  model::Json CursorJson() const override { return ToJson(cursor_); }
  std::string PageUrl() const override;
  bool IsStopRequested() const override { return stop_requested_; }
  bool IsPrepared() const override { return !lines_.content.empty(); }
  // Each of these makes at most one exchange, and returns the time to wait.
  absl::Duration AskFeatures(absl::Time now);
  // Defined in wandb_standing.cc.
  absl::Duration AskStanding(absl::Time now);
  absl::Duration AskState(absl::Time now);
  // Records that the run's standing is not known; `last_error` has the reason.
  absl::Duration StandingUnknown(absl::Duration wait);
  absl::StatusOr<absl::Duration> ApplyStanding(storage::StoreReader& reader, absl::Time now);
  absl::StatusOr<absl::Duration> LookForRow(storage::StoreReader& reader, absl::Time now);
  absl::Status MoveAfterOthers(storage::StoreReader& reader, uint64_t found);
  absl::StatusOr<bool> ContinuesRun(storage::StoreReader& reader) const;
  absl::StatusOr<int64_t> TimeOfRow(storage::StoreReader& reader, uint64_t row) const;
  absl::StatusOr<bool> IsNewest(storage::StoreReader& reader) const;
  absl::optional<BranchPoint> Fork() const;
  void BeginAfter(int64_t step);
  void DropCut();

  // Defined in wandb_config.cc.
  absl::Status ReadConfig(storage::StoreReader& reader);
  bool IsDescribed() const;
  Upsert Description() const;
  std::string WriterId() const;
  bool HasUsualGroup() const;
  absl::Duration UpsertRun(absl::Time now);
  absl::Duration OnUpserted(const absl::StatusOr<HttpResponse>& answer, absl::Time now);
  absl::Duration UpsertRefused(const absl::StatusOr<HttpResponse>& answer, absl::Time now);
  void SettleItems();
  // The last of the items up to `items` before which nothing must still be sent.
  int64_t SettledOf(int64_t items) const;
  RunClock Clock() const {
    return RunClock(run_, config_reader_.streams(), cursor_.runtime_before_us);
  }

  // Defined in wandb_alerts.cc.
  // The next alert to send; null: none.
  const model::StoredItem* NextAlert() const;
  // Sends it. Nullopt: there is none.
  absl::optional<absl::Duration> SendAlert(absl::Time now);

  // Defined in wandb_samples.cc.
  bool HasSamples() const {
    return !cursor_.continued && run_.samples > cursor_.samples + cursor_.cut_samples;
  }
  // True: samples were added to the cut.
  bool CutSamples();
  absl::Status WriteSamples(storage::StoreReader& reader);
  absl::Duration SamplesRefused(const absl::StatusOr<HttpResponse>& answer);
  void SamplesSettled();
  // The number of lines of system metrics, if the server has all that were sent.
  int64_t EndOfEvents() const {
    return cursor_.events_offset + static_cast<int64_t>(cursor_.samples + cursor_.cut_samples);
  }

  // Defined in wandb_console.cc.
  absl::Status ReadConsole(storage::StoreReader& reader);
  // Sends changed lines. `at_once`: without a pause after the last ones. Nullopt: there is nothing to
  // do now.
  absl::StatusOr<absl::optional<absl::Duration>> SendConsole(storage::StoreReader& reader,
                                                             absl::Time now, bool at_once);
  void PlaceConsole(int64_t lines);
  absl::Status ReadConsoleFile(storage::StoreReader& reader);

  // Defined in wandb_files.cc.
  struct RunFile {
    RunFile(std::string file, std::string text)
        : name(std::move(file)), content(std::move(text)), digest(Digest(content)) {}
    std::string name;
    std::string content;
    std::string digest;
  };
  // Call it when the metadata has changed.
  void SetFacts(const model::Json& libraries);
  std::vector<RunFile> FilesToSend(bool ending) const;
  absl::optional<absl::Duration> SendFiles(bool ending, absl::Time now);
  absl::Duration AskForUploads(const std::vector<RunFile>& files, bool ending, absl::Time now);
  absl::Duration Upload(const std::vector<RunFile>& files, CircuitBreaker* store, bool ending,
                        absl::Time now);
  absl::Duration FilesFailed(const std::vector<RunFile>& files, const std::string& why, bool ending,
                             absl::Time now);
  void FileRefused(const RunFile& file, const std::string& why);

  // Defined in wandb_content.cc.
  void SetContent(const std::vector<model::StoredItem>& singles);
  // Makes at most one exchange, or works on one. Nullopt: there is nothing to do now.
  absl::optional<absl::Duration> SendContent(bool ending, absl::Time now);
  absl::Duration WorkOnContent(absl::Time now);
  // Puts into the cursor what the server has of the upload, every two seconds.
  void PublishContent(absl::Time now);
  absl::Duration ContentFailed(const std::string& why, bool refused, absl::Time now);
  void ContentDone();
  // The last of these items whose content was sent, if earlier ones were.
  int64_t ContentSentThrough(int64_t items) const {
    return content_items_.empty() ? items : std::min(items, content_items_.front().id - 1);
  }

  absl::StatusOr<absl::Duration> Scan(storage::StoreReader& reader);
  absl::StatusOr<absl::Duration> Stream(storage::StoreReader& reader, absl::Time now,
                                        bool draining);
  absl::StatusOr<absl::Duration> PostAfterOthers(storage::StoreReader& reader, absl::Time now,
                                                 bool draining);
  absl::StatusOr<absl::Duration> Cut(storage::StoreReader& reader);
  absl::StatusOr<absl::Duration> PassReplays(storage::StoreReader& reader);
  absl::Status WriteCut(storage::StoreReader& reader);
  absl::StatusOr<absl::Duration> PostCut(storage::StoreReader& reader, absl::Time now);
  absl::Duration PostRows(uint64_t rows, absl::Time now);

  absl::Status DefineMetrics(storage::StoreReader& reader, int64_t through);
  absl::Status WriteLines(storage::StoreReader& reader, uint64_t to, size_t max_bytes);
  // Whether the server has answered for a row.
  bool has_sent() const { return delivery_.delivered_rows > cursor_.replayed_rows; }
  bool MaySendRows(absl::Time now, bool draining) const;
  bool MustAsk(absl::Time now) const;
  std::string SummaryText(uint64_t refused_rows) const;
  int32_t ExitCode() const;

  // kUnavailable: also if a program other than the server answered.
  enum class Endpoint { kGraphql, kFileStream };
  // Whether an answer that is not accepted concerns every request, also the rows. Other failures are
  // of the one query.
  static bool ConcernsServer(const absl::StatusOr<HttpResponse>& answer);
  absl::StatusOr<HttpResponse> Post(Endpoint endpoint, std::string body,
                                    size_t max_answer = HttpRequest().max_answer);
  absl::Duration Accepted(uint64_t rows, bool last, absl::Time now);
  void CutLess();
  void SettleRefusals(uint64_t end);
  uint64_t RefusedBefore(uint64_t end) const;
  absl::Duration RowsRefused(Outcome outcome, uint64_t rows, bool with_summary,
                             const absl::StatusOr<HttpResponse>& answer, absl::Time now);

  Cursor cursor_;
  const Options options_;

  // Time of the last accepted post with rows or a summary.
  absl::Time last_data_ = absl::InfinitePast();
  // Time at which the server last received a request for the run.
  absl::Time last_request_ = absl::InfinitePast();

  // Features of the server; requested once.
  bool features_known_ = false;
  bool gzip_ = false;
  bool globs_ = false;
  bool structured_console_ = false;
  bool names_used_project_ = false;

  // The run's standing. Several stores may feed the run, one after the other.
  bool asked_ = false;                          // asked since the start
  absl::Time known_at_ = absl::InfinitePast();  // when an answer last confirmed the standing
  absl::optional<ServerRunState> standing_;     // an answer that is not fully handled yet
  ServerRunState server_run_;                   // the last answer
  std::string server_state_;                    // of a run that another store continues
  uint64_t found_ = 0;      // number of rows of the cut, from its first, that are at the server
  uint64_t not_found_ = 0;  // first row of the cut that is known to be missing at the server
  bool ask_after_cut_ = false;
  std::string unsettled_;            // error to clear once the standing is known
  bool other_store_active_ = false;  // another store continues the run and is writing to it
  // Our rows after the run's end reopened it, and the end cannot be sent again.
  bool reopened_ = false;
  // Exit code with which the run has ended at the server.
  absl::optional<int32_t> server_exit_code_;

  // Config.
  absl::Time next_config_ = absl::InfinitePast();
  ConfigReader config_reader_;
  SentConfig config_;
  model::Json config_document_;
  model::Json metadata_ = nullptr;
  std::vector<model::StoredItem> singles_;  // alerts, artifacts and files, ids ascending
  uint32_t clock_attempt_ = 0;              // the clock knows the attempts up to this one
  // What the last request for an upsert contained, for the cursor.
  std::map<std::string, std::string> upserted_texts_;
  std::string upserted_config_;
  bool upserted_whole_ = false;                       // not without the config
  absl::Time config_read_at_ = absl::InfinitePast();  // when the server's config was read
  absl::Time config_sent_at_ = absl::InfinitePast();

  // Rows.
  aggregate::MetricTable table_;
  int64_t defined_items_ = 0;  // table_ has the definitions up to this item
  History history_;
  std::vector<std::vector<std::string>> shapes_;
  HistoryLines lines_;       // lines of the cut; empty if they must be written again
  std::set<uint64_t> bare_;  // rows to write without values
  Bisection bisection_;
  // A refused row whose bare line is being tried.
  absl::optional<model::DeadLetter> bare_line_trial_;
  size_t post_bytes_;         // size of the next cut; reduced after HTTP 413
  double bytes_per_row_ = 0;  // of the last cut

  // System metrics.
  std::vector<std::string> events_;  // lines of the cut; empty if they must be written again
  // A post with system metrics and more was refused. They are sent alone, so that the cause shows.
  bool samples_alone_ = false;

  // The console.
  std::vector<model::ConsoleLine> console_;  // changed lines to send, by number
  int64_t console_through_ = 0;              // the last of these changes
  absl::Time console_not_before_ = absl::InfinitePast();
  absl::optional<std::string> console_file_;  // read at the run's end

  // Files.
  CircuitBreakers* const breakers_of_all_;
  std::vector<RunFile> facts_;  // of the run's program and node
  UploadUrls upload_urls_;      // for the next ones; an empty URL: not accepted
  int file_failures_ = 0;       // in a row, while the run is live
  int failures_at_end_ = 0;
  absl::Time files_not_before_ = absl::InfinitePast();

  // Alerts.
  absl::Time alerts_not_before_ = absl::InfinitePast();

  // Artifacts and files.
  const std::string content_dir_;
  std::deque<model::StoredItem> content_items_;  // not sent yet
  std::unique_ptr<ContentUpload> upload_;        // of the first one
  std::unique_ptr<Exchange> exchange_;           // of a part of it
  uint64_t exchange_sent_ = 0;                   // bytes
  absl::Time content_published_ = absl::InfinitePast();
  uint64_t content_published_bytes_ = 0;
  uint64_t content_most_bytes_ = 0;  // that the server had at once
  int content_failures_ = 0;         // in a row
  int content_refusals_ = 0;         // among them
  absl::Time content_not_before_ = absl::InfinitePast();

  // Summary.
  bool summary_changed_ = false;
  bool preempting_ = false;
  bool stop_requested_ = false;  // by the last answer to a post, unless that was the run's end
  // Until the cut is delivered: a post with rows and the summary was refused. The cause is not
  // known yet: the summary, a row, or the size.
  bool hold_summary_ = false;
  std::string sent_summary_;
  std::string refused_summary_;  // not sent again until it changes
  std::string summary_answer_;   // answer to refused_summary_; not yet a dead letter
};

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_WANDB_DELIVERY_H_
