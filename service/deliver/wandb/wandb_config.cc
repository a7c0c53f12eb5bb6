// The part of WandbDelivery that describes the run to the server: its texts, its config, and the
// facts of its program and node.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/json/json_members.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/wandb/api/server_json.h"
#include "service/deliver/wandb/documents/config_document.h"
#include "service/deliver/wandb/wandb_delivery.h"

namespace ranklog::deliver::wandb {
namespace {

// wandb.ai needs 2 to 4 s.
constexpr absl::Duration kServerSettles = absl::Minutes(1);

// The name of the newest artifact with source files.
std::string CodeIn(const std::vector<model::StoredItem>& uploads) {
  std::string name;
  for (const model::StoredItem& upload : uploads) {
    const bool artifact = upload.item.kind == model::Item::Kind::kArtifact;
    if (artifact && TextOf(upload.item.object, "type") == "code") {
      name = TextOf(upload.item.object, "name");
    }
  }
  return name;
}

}  // namespace

absl::Status WandbDelivery::ReadConfig(storage::StoreReader& reader) {
  const uint64_t lost_rows = config_reader_.lost_rows();
  absl::StatusOr<absl::optional<ConfigReader::Config>> config =
      config_reader_.Read(reader, run_, /*expand_globs=*/!globs_);
  summary_changed_ |= config_reader_.lost_rows() != lost_rows;
  RETURN_IF_ERROR(config.status());
  if (cursor_.cut_rows == 0) {
    history_.SetClock(Clock());
    clock_attempt_ = run_.attempt;
  }
  if (!config->has_value()) return absl::OkStatus();
  preempting_ = (*config)->preempting;
  singles_ = std::move((*config)->singles);
  SetContent(singles_);
  metadata_ = std::move((*config)->metadata);
  if (metadata_.is_object()) metadata_["writerId"] = WriterId();
  model::Json libraries = nullptr;
  if (const auto found = metadata_.find("libraries"); found != metadata_.end()) {
    libraries = std::move(*found);
    metadata_.erase(found);
  }
  SetFacts(libraries);
  // A run that was there before its start with `fork_from` is no fork.
  absl::optional<BranchPoint> fork = Fork();
  if (fork && fork->step != cursor_.replays_through) fork.reset();
  config_document_ = ConfigDocument((*config)->config, (*config)->metrics,
                                    {.id = WriterId(),
                                     .metadata = metadata_,
                                     .began_at = std::move(fork),
                                     .code = CodeIn(singles_)});
  config_.Set(ToJsonText(config_document_),
              ToJsonText(ConfigDocument(model::Json::object(), model::Json::array())));
  for (const aggregate::SummaryValue& value : (*config)->summary) {
    // Of the last row; W&B finds by them where the run stands.
    if (value.key == "_step" || value.key == "_timestamp") continue;
    history_.summary().Set(value);
    summary_changed_ = true;
  }
  return absl::OkStatus();
}

// The same for every process that delivers this run from this node.
std::string WandbDelivery::WriterId() const {
  const std::vector<model::Stream>& streams = config_reader_.streams();
  return Digest(absl::StrCat(run_.project, "\n", run_.run_id, "\n",
                             streams.empty() ? "" : streams.front().identity.node));
}

Upsert WandbDelivery::Description() const {
  const model::RunSettings& settings = run_.settings;
  Upsert upsert;
  upsert.display_name = run_.name;
  upsert.group = settings.group;
  upsert.job_type = settings.job_type;
  upsert.notes = settings.notes;
  upsert.host = settings.host;
  upsert.program = settings.program;
  upsert.commit = TextOf(MemberOf(metadata_, "git"), "commit");
  upsert.repo = TextOf(MemberOf(metadata_, "git"), "remote");
  upsert.tags = settings.tags;
  return upsert;
}

// A run's group is the id of its job, unless the job gives another one. Only a new run needs that.
bool WandbDelivery::HasUsualGroup() const {
  const std::vector<model::Stream>& streams = config_reader_.streams();
  return run_.settings.group == run_.run_id ||
         (!streams.empty() && run_.settings.group == streams.front().key.job_id);
}

// Whether the server has everything that describes the run.
bool WandbDelivery::IsDescribed() const {
  bool sent = config_.IsSent();
  Description().VisitTexts([&](const char* name, std::string* text) {
    const auto found = cursor_.sent_texts.find(name);
    const bool same = found != cursor_.sent_texts.end() && found->second == Digest(*text);
    const bool usual = text->empty() || (name == absl::string_view("group") && HasUsualGroup());
    sent &= usual || same;
  });
  return sent;
}

absl::Duration WandbDelivery::UpsertRun(absl::Time now) {
  const bool created = cursor_.created();
  // A request may take effect after this daemon's end, and after later requests. So the cursor with
  // the digests is stored before it is sent.
  std::map<std::string, std::string> digests = cursor_.sent_config;
  AddDigests(config_document_, /*accepted=*/false, &digests);
  if (digests != cursor_.sent_config) {
    cursor_.sent_config = std::move(digests);
    next_config_ = absl::InfinitePast();
    return absl::ZeroDuration();
  }
  Upsert upsert = Description();
  upsert.storage_id = cursor_.storage_id;
  upsert.run_id = created ? cursor_.run_id : run_.run_id;
  upsert.entity = created ? cursor_.entity : run_.settings.entity;
  upsert.project = created ? cursor_.project : run_.project;
  // A text is sent once, so that what a person changes at the server stays. The same holds for the
  // texts of a run that another program has begun.
  const bool taken_over = !created && server_run_.started;
  upserted_texts_.clear();
  upsert.VisitTexts([&](const absl::string_view name, std::string* text) {
    if (text->empty()) return;
    std::string digest = Digest(*text);
    const auto sent = cursor_.sent_texts.find(std::string(name));
    const bool is_there = sent != cursor_.sent_texts.end() && sent->second == digest;
    const bool has_own = (name == "name" && !server_run_.display_name.empty()) ||
                         (name == "notes" && server_run_.has_notes) ||
                         (name == "tags" && server_run_.has_tags);
    const bool group = name == "group" && (created || taken_over) && HasUsualGroup();
    const bool theirs = group || (taken_over && has_own);
    if (is_there || theirs) text->clear();
    upserted_texts_[std::string(name)] = std::move(digest);
  });
  upsert.config = config_.ToSend(created);
  const bool whole = upsert.config == config_.text();
  if (whole && server_run_.config.is_object() && !server_run_.config.empty()) {
    // Soon after an upsert, the server may still show the config before it.
    const bool settled = now >= config_sent_at_ + kServerSettles;
    upsert.config = ToJsonText(
        MergeConfig(config_document_, server_run_.config,
                    settled ? cursor_.sent_config : std::map<std::string, std::string>()));
  }
  upserted_config_ = upsert.config;
  upserted_whole_ = whole;
  return OnUpserted(Post(Endpoint::kGraphql, UpsertBody(upsert)), now);
}

absl::Duration WandbDelivery::OnUpserted(const absl::StatusOr<HttpResponse>& answer,
                                         absl::Time now) {
  const Outcome outcome = Classify(answer);
  if (IsRefusal(outcome)) {
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
    // If a copy of this store has sent rows, also since the server was asked where the run stands, it
    // is asked again for which lines are ours.
    const bool more = upserted->history_lines > server_run_.lines;
    cursor_.base_offset = found_ > 0 ? 0 : std::min(upserted->history_lines, server_run_.lines);
    if (found_ > 0 || more) known_at_ = absl::InfinitePast();
  }
  if (!upserted_config_.empty()) server_run_.config = ParseServerJson(upserted_config_);
  upserted_config_.clear();
  config_sent_at_ = now;
  for (auto& [name, digest] : upserted_texts_) cursor_.sent_texts[name] = std::move(digest);
  if (upserted_whole_) AddDigests(config_document_, /*accepted=*/true, &cursor_.sent_config);
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
  delivery_.delivered_items =
      std::max(delivery_.delivered_items, SettledOf(config_reader_.items()));
}

int64_t WandbDelivery::SettledOf(int64_t items) const {
  const model::StoredItem* const alert = NextAlert();
  items = ContentSentThrough(items);
  return alert == nullptr ? items : std::min(items, alert->id - 1);
}

absl::Duration WandbDelivery::UpsertRefused(const absl::StatusOr<HttpResponse>& answer,
                                            absl::Time now) {
  if (config_.OnRefused(Explain(answer))) return absl::ZeroDuration();
  return Failed(Outcome::kBlocked, "create or update the run", answer, now);
}

}  // namespace ranklog::deliver::wandb
