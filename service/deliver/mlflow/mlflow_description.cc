// The part of MlflowDelivery that sends params and tags. Params can be written once: a later value
// becomes a tag. A tag is sent once, so that what a person changes at the server stays.

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/mlflow/format/names.h"
#include "service/deliver/mlflow/mlflow_delivery.h"

namespace ranklog::deliver::mlflow {

absl::Status MlflowDelivery::ReadDescription(storage::StoreReader& reader) {
  ASSIGN_OR_RETURN(std::vector<model::Stream> streams, reader.Streams(run_.id));
  ASSIGN_OR_RETURN(shapes_, reader.RunShapes(run_.id));
  uint64_t losses = 0;
  for (const model::Stream& stream : streams) losses += stream.losses.total() + stream.late_rows;
  const bool same = items_ >= 0 && run_.last_item <= items_ && streams.size() == streams_.size() &&
                    described_state_ == run_.state && described_losses_ == losses &&
                    described_shapes_ == shapes_.size();
  streams_ = std::move(streams);
  if (same) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> items, reader.Items(run_.id, 0));
  for (const model::StoredItem& stored : items) {
    const int64_t known = content_.empty() ? cursor_.content : content_.back().id;
    if (stored.item.IsUpload() && stored.id > known) content_.push_back(stored);
  }
  items_ = items.empty() ? 0 : items.back().id;
  described_state_ = run_.state;
  described_losses_ = losses;
  described_shapes_ = shapes_.size();

  const Description description = Describe(run_, streams_, items, shapes_);
  std::string all;
  for (const auto& [key, value] : description.params) absl::StrAppend(&all, key, "\n", value, "\n");
  params_digest_ = Digest(all);
  params_.clear();
  for (const auto& [key, value] : description.params) {
    if (cursor_.params == params_digest_) {  // sent by the daemon before this one
      params_sent_.emplace(key, Digest(value));
      continue;
    }
    const auto sent = params_sent_.find(key);
    if (sent == params_sent_.end()) {
      params_.emplace_back(key, value);
    } else if (sent->second != Digest(value)) {
      AddTags({{ChangedParamTag(key), value}});
    }
  }
  AddTags(description.tags);
  const bool told = cursor_.params == params_digest_;
  for (const auto& [text, value] : description.cut) {
    if (told_.insert(text).second && !told) AddDeadLetter(0, text, value);
  }
  return absl::OkStatus();
}

void MlflowDelivery::AddTags(const Pairs& tags) {
  for (const auto& [key, whole] : tags) {
    const absl::string_view kept = FirstCharacters(whole, kMaxTagValue);
    const std::string value(kept.data(), kept.size());
    const auto sent = cursor_.tags.find(key);
    if (sent != cursor_.tags.end() && sent->second == Digest(value)) continue;
    if (kept.size() < whole.size()) {
      const std::string text = absl::StrCat("tag ", key, ": ", Characters(whole),
                                            " characters; MLflow has the first ", kMaxTagValue);
      if (told_.insert(text).second) AddDeadLetter(0, text, whole);
    }
    const auto waiting = std::find_if(tags_.begin(), tags_.end(),
                                      [&name = key](const auto& tag) { return tag.first == name; });
    if (waiting == tags_.end()) {
      tags_.emplace_back(key, value);
    } else {
      waiting->second = value;
    }
  }
}

MlflowDelivery::Wait MlflowDelivery::SendDescription(absl::Time now) {
  const bool is_tag = !tags_.empty();
  Pairs& waiting = is_tag ? tags_ : params_;
  if (waiting.empty()) {
    if (items_ >= 0) cursor_.params = params_digest_;
    return absl::nullopt;
  }
  const char* const kind = is_tag ? "tags" : "params";
  Pairs pairs;
  size_t bytes = 0;
  for (const auto& [key, value] : waiting) {
    bytes += key.size() + value.size();
    if (pairs.size() >= most_pairs_ || (bytes > kMaxBodyBytes / 2 && !pairs.empty())) break;
    pairs.emplace_back(key, value);
  }
  const absl::StatusOr<HttpResponse> answer =
      SendRequest(Post(server(), "runs/log-batch", PairsBody(cursor_.run_id, kind, pairs)));
  const Outcome outcome = Classify(answer);
  if (IsRefusal(outcome)) {
    return OnPairsRefused(kind, pairs, answer);
  }
  if (outcome != Outcome::kAccepted) {
    return NotAccepted(absl::StrCat("send ", kind), answer, now);
  }
  for (const auto& [key, value] : pairs) {
    (is_tag ? cursor_.tags : params_sent_)[key] = Digest(value);
  }
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<ptrdiff_t>(pairs.size()));
  most_pairs_ = kMaxParams;
  delivery_.last_error.clear();
  OnSuccess();
  return absl::ZeroDuration();
}

absl::Duration MlflowDelivery::OnPairsRefused(const char* kind, const Pairs& pairs,
                                              const absl::StatusOr<HttpResponse>& answer) {
  if (!run_checked_) {
    check_run_ = true;
    return absl::ZeroDuration();
  }
  if (pairs.size() > 1) {
    most_pairs_ = pairs.size() / 2;
    return absl::ZeroDuration();
  }
  const bool is_tag = absl::string_view(kind) == "tags";
  const auto [key, value] = pairs.front();
  (is_tag ? tags_ : params_).erase((is_tag ? tags_ : params_).begin());
  most_pairs_ = kMaxParams;
  if (!is_tag) {
    params_sent_[key] = Digest(value);
    // Another process, or an earlier attempt, set another value.
    if (absl::StrContains(answer->body, "Changing param")) {
      AddTags({{ChangedParamTag(key), value}});
      return absl::ZeroDuration();
    }
  } else {
    cursor_.tags[key] = Digest(value);
  }
  AddDeadLetter(0, absl::StrCat(is_tag ? "tag " : "param ", key, ": ", Explain(answer)), value);
  return absl::ZeroDuration();
}

// The server has, or has refused, all items up to this one.
void MlflowDelivery::SettleItems() {
  const int64_t settled = content_.empty() ? items_ : std::min(items_, content_.front().id - 1);
  delivery_.delivered_items = std::max(delivery_.delivered_items, settled);
}

}  // namespace ranklog::deliver::mlflow
