#include "service/deliver/wandb/wandb_delivery.h"

#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/run_shapes.h"
#include "service/deliver/wandb/api/base_url.h"
#include "service/deliver/wandb/api/file_stream.h"
#include "service/deliver/wandb/api/server_info.h"
#include "service/deliver/wandb/api/server_json.h"
#include "service/deliver/wandb/wandb_destination.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr size_t kScanBytes = 4 << 20;  // read in one Step() while catching up

}  // namespace

bool IsOfRow(const model::DeadLetter& letter) {
  for (const char* const other : {kConfigLetter, kSummaryLetter, kSamplesLetter, kFileLetter,
                                  kArtifactLetter, kAlertLetter, kConsoleLetter}) {
    if (absl::StartsWith(letter.answer, other)) return false;
  }
  return true;
}

WandbDelivery::WandbDelivery(model::Run run, model::Delivery delivery, const DeliveryParts& parts,
                             Options options)
    : TrackerDelivery(options.destination == nullptr ? Wandb() : *options.destination,
                      std::move(run), std::move(delivery), parts, options.backoff),
      cursor_(CursorFrom(delivery_.cursor)),
      options_(std::move(options)),
      history_(&table_, Clock(), options_.max_line_bytes, run_.settings.imported),
      post_bytes_(options_.max_post_bytes),
      breakers_of_all_(parts.breakers),
      content_dir_(parts.content_dir) {
  history_.SetFirstStep(cursor_.replays_through);
  if (cursor_.cut_rows > 0) history_.SetClock(RunClock(cursor_.cut_clock));
}

std::string WandbDelivery::PageUrl() const {
  return RunUrl(address(), cursor_.entity, cursor_.project, cursor_.run_id);
}

absl::StatusOr<absl::Duration> WandbDelivery::Act(storage::StoreReader& reader, absl::Time now,
                                                  bool draining) {
  if (!features_known_) return AskFeatures(now);
  if (standing_.has_value()) return ApplyStanding(reader, now);
  if (!asked_) return AskStanding(now);
  if (!cursor_.created() || now >= next_config_ || ended() || draining) {
    RETURN_IF_ERROR(ReadConfig(reader));
    next_config_ = now + options_.config_interval;
    if (!cursor_.created() || (!IsDescribed() && !cursor_.continued)) {
      // What the server has of the config must be fresh: a person may change it.
      if (now < config_read_at_ + options_.ask_after_at_ends) return UpsertRun(now);
      next_config_ = absl::InfinitePast();  // the config must still be sent
      return AskStanding(now);
    }
  }
  if (const auto wait = SendAlert(now)) return *wait;
  if (history_.next() < delivery_.delivered_rows) return Scan(reader);
  return Stream(reader, now, draining);
}

absl::Duration WandbDelivery::AskFeatures(absl::Time now) {
  const absl::StatusOr<HttpResponse> answer = Post(Endpoint::kGraphql, FeaturesBody());
  const Outcome outcome = Classify(answer);
  // A server that does not know the query has no optional features. A server that cannot answer now
  // is asked again.
  const bool busy = !answer.ok() || answer->code == 401 || answer->code == 403 ||
                    answer->code == 429 || (answer->code >= 502 && answer->code <= 504);
  if (outcome != Outcome::kAccepted && busy)
    return Failed(outcome, "ask for the server's features", answer, now);
  const std::set<std::string> features =
      outcome == Outcome::kAccepted ? ParseFeatures(answer->body) : std::set<std::string>();
  gzip_ = options_.gzip && features.count("FILESTREAM_GZIP") > 0;
  names_used_project_ = features.count("USE_ARTIFACT_WITH_ENTITY_AND_PROJECT_INFORMATION") > 0;
  globs_ = features.count("EXPAND_DEFINED_METRIC_GLOBS") > 0;
  structured_console_ = features.count("STRUCTURED_CONSOLE_LOGS") > 0;
  features_known_ = true;
  OnSuccess();
  return absl::ZeroDuration();
}

// After a restart, reads the delivered rows once, for the summary.
absl::StatusOr<absl::Duration> WandbDelivery::Scan(storage::StoreReader& reader) {
  if (history_.next() == 0) RETURN_IF_ERROR(DefineMetrics(reader, cursor_.cut_updates));
  const uint64_t before = history_.next();
  ASSIGN_OR_RETURN(const std::vector<storage::StoredBatch> batches,
                   reader.RunBatches(run_.id, before, kScanBytes));
  for (const storage::StoredBatch& stored : batches) {
    RETURN_IF_ERROR(ReadShapes(reader, run_.id, stored.batch, &shapes_));
    history_.Skip(stored.batch, shapes_, delivery_.delivered_rows);
  }
  if (history_.next() == before) {
    return absl::DataLossError(
        absl::StrCat("row ", before, " of run ", run_.run_id, " is not in the store"));
  }
  summary_changed_ = true;
  return absl::ZeroDuration();
}

absl::Status WandbDelivery::DefineMetrics(storage::StoreReader& reader, int64_t through) {
  if (through <= defined_items_) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> items,
                   reader.Items(run_.id, defined_items_));
  for (const model::StoredItem& stored : items) {
    if (stored.id > through) break;
    if (stored.item.kind == model::Item::Kind::kMetric) table_.Define(stored.item.metric);
    defined_items_ = stored.id;
  }
  return absl::OkStatus();
}

bool WandbDelivery::ConcernsServer(const absl::StatusOr<HttpResponse>& answer) {
  return !answer.ok() || answer->code == HttpResponse::kUnauthorized ||
         (Classify(answer) == Outcome::kLater && answer->code != 500);
}

absl::StatusOr<HttpResponse> WandbDelivery::Post(Endpoint endpoint, std::string body,
                                                 size_t max_answer) {
  const bool stream = endpoint == Endpoint::kFileStream;
  HttpRequest request;
  request.url = stream ? FileStreamUrl(server(), cursor_.entity, cursor_.project, cursor_.run_id)
                       : GraphqlUrl(server());
  request.headers = {{"Content-Type", "application/json"}};
  if (!stream) {
    for (const auto& [name, variable, own] :
         {std::tuple("X-WANDB-USERNAME", "WANDB_USERNAME", &options_.username),
          std::tuple("X-WANDB-USER-EMAIL", "WANDB_USER_EMAIL", &options_.user_email)}) {
      const std::string value = requests().Variable(variable, *own);
      if (!value.empty()) request.headers.emplace_back(name, value);
    }
  }
  request.body = std::move(body);
  request.gzip = stream && gzip_;
  request.max_answer = max_answer;
  request.timeout = stream ? options_.stream_timeout : options_.graphql_timeout;
  absl::StatusOr<HttpResponse> answer = Send(std::move(request), /*limited=*/stream);
  // An answer from another program means that the server did not receive the request, whatever its
  // code.
  if (Classify(answer) != Outcome::kAccepted) return answer;
  const absl::Status ours = CheckAnswer(*answer);
  if (ours.ok()) return answer;
  return absl::Status(
      ours.code(), absl::StrCat(ours.message(), kToContinue, "check the address; to correct it, ",
                                kCorrectAddress));
}

}  // namespace ranklog::deliver::wandb
