#include "service/deliver/wandb/wandb_delivery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/wandb/advice.h"
#include "service/deliver/wandb/base_url.h"
#include "service/deliver/wandb/config_document.h"
#include "service/deliver/wandb/graphql.h"
#include "service/deliver/wandb/wandb_destination.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr int kTooManyRequests = 429;
constexpr size_t kScanBytes = 4 << 20;  // read in one Step() while catching up
// Interval at which a run without a valid key looks for another key. Short, because a user who has
// just corrected the key is watching the run. Each check reads three small files.
constexpr absl::Duration kLookForKey = absl::Seconds(2);
constexpr absl::Duration kLookForRanks = absl::Milliseconds(200);  // such a step sends no request

std::string AddressOf(const model::Run& run) { return Wandb().AddressOf(run.settings); }

absl::optional<absl::Duration> RetryAfter(const absl::StatusOr<HttpResponse>& answer) {
  return answer.ok() ? answer->retry_after : absl::nullopt;
}

bool Same(const model::Delivery& a, const model::Delivery& b) {
  return a.delivered_rows == b.delivered_rows && a.refused_rows == b.refused_rows &&
         a.delivered_items == b.delivered_items && a.complete == b.complete &&
         a.last_error == b.last_error && a.cursor == b.cursor;
}

}  // namespace

int64_t StartOf(const model::Run& run) {
  return run.settings.start_time_us > 0 ? run.settings.start_time_us : run.started_us;
}

WandbDelivery::WandbDelivery(model::Run run, model::Delivery delivery, Transport* transport,
                             CircuitBreakers* breakers, const CredentialStore* credentials,
                             Options options)
    : run_(std::move(run)),
      delivery_(std::move(delivery)),
      cursor_(CursorFrom(delivery_.cursor)),
      breakers_(breakers->Of(AddressOf(run_)),
                breakers->Of(
                    absl::StrCat(AddressOf(run_), " ", run_.settings.entity, " ", run_.project))),
      options_(std::move(options)),
      address_(AddressOf(run_)),
      requests_(transport, credentials, address_, run_.project,
                {.graphql_timeout = options_.graphql_timeout,
                 .stream_timeout = options_.stream_timeout,
                 .user_agent = options_.user_agent,
                 .username = options_.username,
                 .user_email = options_.user_email}),
      reported_(delivery_),
      backoff_(options_.backoff),
      history_(&table_, StartOf(run_), options_.max_line_bytes),
      post_bytes_(options_.max_post_bytes) {
  history_.SetFirstStep(cursor_.replays_through);
}

StepResult WandbDelivery::Step(storage::StoreReader& reader, absl::Time now, bool draining) {
  absl::Duration wait = Enter(now);
  if (wait <= absl::ZeroDuration()) {
    if (absl::StatusOr<absl::Duration> acted = Act(reader, now, draining); acted.ok()) {
      wait = *acted;
    } else {
      wait = Blocked(absl::string_view(acted.status().message()), now);
    }
    breakers_.Leave();
  } else {
    // While it waits, checks whether the run has ended, because that decides its place in the
    // schedule.
    if (!ended()) ReadRun(reader).IgnoreError();
    SetWaitReason(wait);
  }
  if (cursor_.created()) delivery_.cursor = ToJson(cursor_);
  StepResult result;
  result.delivery = delivery_;
  result.dead_letters = std::exchange(dead_letters_, {});
  result.changed = !result.dead_letters.empty() || !Same(delivery_, reported_);
  result.wait = wait;
  result.rows = run_.rows;
  result.live = !ended();
  result.exchange = requests_.TakeExchange();
  if (cursor_.created()) {
    result.url = RunUrl(address_, cursor_.entity, cursor_.project, cursor_.run_id);
  }
  result.prepared = !lines_.content.empty() && wait <= absl::ZeroDuration();
  reported_ = delivery_;
  return result;
}

absl::Status WandbDelivery::ReadRun(storage::StoreReader& reader) {
  ASSIGN_OR_RETURN(run_, reader.GetRun(run_.id));
  if (std::string address = AddressOf(run_); address != address_) {
    address_ = std::move(address);
    requests_.SetAddress(address_);
  }
  return absl::OkStatus();
}

absl::Duration WandbDelivery::Enter(absl::Time now) {
  if (requests_.HasNewKey()) not_before_ = absl::InfinitePast();
  if (now < not_before_) return Until(not_before_, now);
  return breakers_.Enter();
}

// For a run that sent no request itself and waits because another one failed.
void WandbDelivery::SetWaitReason(absl::Duration wait) {
  constexpr absl::Duration kBrief = absl::Seconds(5);  // shorter waits are not reported
  const bool nothing_to_do = !ended() && delivery_.delivered_rows >= run_.rows;
  if (wait < kBrief || nothing_to_do || !delivery_.last_error.empty()) return;
  delivery_.last_error = breakers_.why();
}

// The time until `time`, or until the next check for a key if a key is missing.
absl::Duration WandbDelivery::Until(absl::Time time, absl::Time now) const {
  return requests_.awaits_key() ? std::min(time - now, kLookForKey) : time - now;
}

// Whether a missing key may be harmless: the daemon has just started, and the run's ranks have not
// attached yet.
bool WandbDelivery::AwaitsRanks(absl::Time now) const {
  return now < options_.ranks_return_by && !ended() && !requests_.JobHasAttached() &&
         !requests_.HasKey();
}

absl::StatusOr<absl::Duration> WandbDelivery::Act(storage::StoreReader& reader, absl::Time now,
                                                  bool draining) {
  RETURN_IF_ERROR(ReadRun(reader));
  if (!requests_.has_job()) {
    ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run_.id));
    if (!streams.empty()) requests_.SetJob(JobOf(run_.project, streams.front().key.job_id));
  }
  if (delivery_.complete) {
    if (ended() && run_.rows == delivery_.delivered_rows &&
        run_.last_item <= delivery_.delivered_items) {
      return absl::InfiniteDuration();
    }
    delivery_.complete = false;  // the run continues
  }
  if (AwaitsRanks(now)) return kLookForRanks;
  // Cleared before the next answer, which may take long.
  if (LacksKey(delivery_.last_error) && requests_.HasKey()) {
    delivery_.last_error.clear();
    return absl::ZeroDuration();
  }
  if (!features_known_) return AskFeatures(now);
  if (standing_.has_value()) return ApplyStanding(reader, now);
  if (!asked_) return AskStanding(now);
  if (!cursor_.created() || now >= next_config_ || ended() || draining) {
    RETURN_IF_ERROR(ReadConfig(reader));
    next_config_ = now + options_.config_interval;
    if (!cursor_.created() || (!config_.IsSent() && !cursor_.continued)) {
      if (now < known_at_ + options_.ask_after) return UpsertRun(now);
      next_config_ = absl::InfinitePast();  // the config must still be sent
      return AskStanding(now);
    }
  }
  if (history_.next() < delivery_.delivered_rows) return Scan(reader);
  return Stream(reader, now, draining);
}

absl::Duration WandbDelivery::AskFeatures(absl::Time now) {
  const absl::StatusOr<HttpResponse> answer = Send(Endpoint::kGraphql, FeaturesBody());
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
  globs_ = features.count("EXPAND_DEFINED_METRIC_GLOBS") > 0;
  features_known_ = true;
  OnSuccess();
  return absl::ZeroDuration();
}

absl::Status WandbDelivery::ReadConfig(storage::StoreReader& reader) {
  const uint64_t lost_rows = config_reader_.lost_rows();
  const absl::StatusOr<absl::optional<ConfigReader::Config>> config =
      config_reader_.Read(reader, run_, /*expand_globs=*/!globs_);
  summary_changed_ |= config_reader_.lost_rows() != lost_rows;
  RETURN_IF_ERROR(config.status());
  if (!config->has_value()) return absl::OkStatus();
  config_.Set((*config)->document, ConfigDocument(model::Json::object(), model::Json::array()));
  for (const aggregate::SummaryValue& value : (*config)->summary) {
    history_.summary().Set(value);
    summary_changed_ = true;
  }
  return absl::OkStatus();
}

absl::Duration WandbDelivery::UpsertRun(absl::Time now) {
  const bool created = cursor_.created();
  const Upsert upsert = {.storage_id = cursor_.storage_id,
                         .run_id = created ? cursor_.run_id : run_.run_id,
                         .entity = created ? cursor_.entity : run_.settings.entity,
                         .project = created ? cursor_.project : run_.project,
                         .display_name = run_.name,
                         .config = config_.ToSend(created)};
  return OnUpserted(Send(Endpoint::kGraphql, UpsertBody(upsert, run_.settings)), now);
}

absl::Duration WandbDelivery::OnUpserted(const absl::StatusOr<HttpResponse>& answer,
                                         absl::Time now) {
  const Outcome outcome = Classify(answer);
  if (outcome == Outcome::kRefused || outcome == Outcome::kTooLarge) {
    return UpsertRefused(answer, now);
  }
  if (outcome != Outcome::kAccepted)
    return Failed(outcome, "create or update the run", answer, now);
  absl::StatusOr<Upserted> upserted = ParseUpserted(answer->body);
  // The code of such an answer is 200 too.
  if (absl::IsFailedPrecondition(upserted.status())) return UpsertRefused(answer, now);
  if (!upserted.ok()) return BlockedByAnswer(upserted.status(), answer, now);

  if (!cursor_.created()) {
    cursor_.storage_id = std::move(upserted->storage_id);
    cursor_.entity = std::move(upserted->entity);
    cursor_.project = std::move(upserted->project);
    cursor_.run_id = std::move(upserted->run_id);
    cursor_.display_name = std::move(upserted->display_name);
    cursor_.base_offset = upserted->history_lines;
  }
  if (absl::optional<SentConfig::Refused> refused = config_.OnAccepted()) {
    AddDeadLetter(0, absl::StrCat(kConfigLetter, refused->answer), std::move(refused->config));
  }
  last_request_ = now;
  delivery_.last_error.clear();
  SettleItems();
  OnSuccess();
  return absl::ZeroDuration();
}

// The server has, or has refused, a config and a summary with all items that were read.
void WandbDelivery::SettleItems() {
  if (cursor_.continued || !config_.IsSent() || summary_changed_ || hold_summary_) return;
  delivery_.delivered_items = std::max(delivery_.delivered_items, config_reader_.items());
}

absl::Duration WandbDelivery::UpsertRefused(const absl::StatusOr<HttpResponse>& answer,
                                            absl::Time now) {
  if (config_.OnRefused(Explain(answer))) return absl::ZeroDuration();
  return Failed(Outcome::kBlocked, "create or update the run", answer, now);
}

// After a restart, reads the delivered rows once, for the summary.
absl::StatusOr<absl::Duration> WandbDelivery::Scan(storage::StoreReader& reader) {
  if (history_.next() == 0) RETURN_IF_ERROR(DefineMetrics(reader, cursor_.cut_updates));
  const uint64_t before = history_.next();
  ASSIGN_OR_RETURN(const std::vector<storage::StoredBatch> batches,
                   reader.RunBatches(run_.id, before, kScanBytes));
  for (const storage::StoredBatch& stored : batches) {
    RETURN_IF_ERROR(ReadShapes(reader, stored.batch));
    history_.Skip(stored.batch, shapes_, delivery_.delivered_rows);
  }
  if (history_.next() == before) {
    return absl::DataLossError(
        absl::StrCat("row ", before, " of run ", run_.run_id, " is not in the store"));
  }
  summary_changed_ = true;
  return absl::ZeroDuration();
}

absl::Status WandbDelivery::ReadShapes(storage::StoreReader& reader, const model::Batch& batch) {
  const bool known =
      std::all_of(batch.blocks.begin(), batch.blocks.end(),
                  [this](const model::Block& block) { return block.shape < shapes_.size(); });
  if (known) return absl::OkStatus();
  ASSIGN_OR_RETURN(shapes_, reader.RunShapes(run_.id));
  return absl::OkStatus();
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

absl::StatusOr<HttpResponse> WandbDelivery::Send(Endpoint endpoint, std::string body,
                                                 size_t max_answer) {
  RunRequests::Request request{.body = std::move(body), .max_answer = max_answer};
  if (endpoint == Endpoint::kFileStream) {
    request.stream = {cursor_.entity, cursor_.project, cursor_.run_id};
    request.gzip = gzip_;
  }
  const absl::StatusOr<HttpResponse> answer = requests_.Post(std::move(request));
  if (answer.ok() && Classify(answer) != Outcome::kLater) {
    const bool limited = endpoint == Endpoint::kFileStream;
    breakers_.Answered(limited ? answer->quota_after : absl::nullopt);
  }
  return answer;
}

absl::Duration WandbDelivery::Failed(Outcome outcome, absl::string_view what,
                                     const absl::StatusOr<HttpResponse>& answer, absl::Time now) {
  if (requests_.TakeOtherKey()) return absl::ZeroDuration();
  // Caused by our own Stop(): the tracker is not at fault, and the next process retries.
  if (absl::IsCancelled(answer.status())) return backoff_.Next(outcome, absl::nullopt);
  // If the key or the address is at fault, no request was sent.
  const bool asked = !absl::IsFailedPrecondition(answer.status());
  delivery_.last_error =
      absl::StrCat(asked ? absl::StrCat(what, ": ") : std::string(), Explain(answer));
  if (outcome == Outcome::kBlocked && !AwaitsPerson(delivery_.last_error)) {
    absl::StrAppend(&delivery_.last_error, kToContinue,
                    Advice(answer, address_, cursor_.created()));
  }
  absl::optional<absl::Duration> wait_of_all;
  if (outcome == Outcome::kLater) {
    const bool over_limit = answer.ok() && answer->code == kTooManyRequests;
    wait_of_all = breakers_.Failed(over_limit, RetryAfter(answer), delivery_.last_error);
  }
  const absl::Duration wait =
      wait_of_all ? *wait_of_all : backoff_.Next(outcome, RetryAfter(answer));
  not_before_ = now + wait;
  return Until(not_before_, now);
}

void WandbDelivery::OnSuccess() {
  breakers_.Succeeded();
  backoff_.Reset();
}

absl::Duration WandbDelivery::Blocked(absl::string_view message, absl::Time now) {
  delivery_.last_error = std::string(message);
  const absl::Duration wait = backoff_.Next(Outcome::kBlocked, absl::nullopt);
  not_before_ = now + wait;
  return wait;
}

absl::Duration WandbDelivery::BlockedByAnswer(const absl::Status& why,
                                              const absl::StatusOr<HttpResponse>& answer,
                                              absl::Time now) {
  return Blocked(
      absl::StrCat(why.message(), kToContinue, Advice(answer, address_, cursor_.created())), now);
}

void WandbDelivery::AddDeadLetter(uint64_t row, std::string answer, std::string content) {
  dead_letters_.push_back({.run = run_.id,
                           .kind = delivery_.kind,
                           .row = row,
                           .answer = std::move(answer),
                           .content = content.substr(0, model::DeadLetter::kMaxContent)});
}

}  // namespace ranklog::deliver::wandb
