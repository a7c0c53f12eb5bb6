// The part of WandbDelivery that uploads what ranks staged: artifacts, and files of the run. One after
// the other, in the order of the calls. A large upload is made piece by piece between the posts of
// rows. Sending one twice is harmless.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/json/json_members.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/wandb/wandb_delivery.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr size_t kReadPiece = 32 << 20;                           // takes some 60 ms
constexpr absl::Duration kPiece = absl::Milliseconds(100);        // of an upload, between posts
constexpr size_t kMostOfAnswer = 64 << 20;                        // of 10,000 addresses of parts
constexpr absl::Duration kBetweenPublishings = absl::Seconds(2);  // each is a commit
// Sooner if so much was sent, so that a restarted daemon sends less again: about a part.
constexpr uint64_t kBytesToPublish = 64 << 20;
constexpr absl::Duration kFirstContentWait = absl::Seconds(2);
constexpr absl::Duration kLongestContentWait = absl::Minutes(1);
// The same request is tried so often, with fresh addresses, before its content is set apart.
constexpr int kMostRefusals = 3;

bool IsContent(const model::Item& item) {
  return item.kind == model::Item::Kind::kArtifact || item.kind == model::Item::Kind::kRunFile;
}

}  // namespace

void WandbDelivery::SetContent(const std::vector<model::StoredItem>& singles) {
  const int64_t known = content_items_.empty() ? cursor_.content : content_items_.back().id;
  for (const model::StoredItem& stored : singles) {
    if (stored.id > known && IsContent(stored.item)) content_items_.push_back(stored);
  }
}

absl::optional<absl::Duration> WandbDelivery::SendContent(bool ending, absl::Time now) {
  if (content_items_.empty() || !cursor_.created()) return absl::nullopt;
  if (now < content_not_before_) {
    if (!ending) return absl::nullopt;
    return content_not_before_ - now;
  }
  if (upload_ == nullptr) {
    const model::Item& item = content_items_.front().item;
    ContentUpload::Place place{.entity = cursor_.entity,
                               .project = cursor_.project,
                               .run_id = cursor_.run_id,
                               .staged = content_dir_,
                               .multipart_bytes = options_.multipart_bytes,
                               .part_bytes = options_.part_bytes,
                               .names_used_project = names_used_project_};
    if (!TextOf(item.object, "use").empty()) {
      upload_ = UseArtifact(item, std::move(place));
    } else if (item.kind == model::Item::Kind::kArtifact) {
      upload_ = UploadArtifact(item, std::move(place));
    } else {
      // Only the newest of equal names is sent.
      const std::string path = TextOf(item.object, "path");
      const bool is_replaced = std::any_of(
          content_items_.begin() + 1, content_items_.end(), [&](const model::StoredItem& later) {
            return later.item.kind == item.kind && TextOf(later.item.object, "path") == path;
          });
      if (is_replaced) {
        ContentDone();
        return absl::ZeroDuration();
      }
      upload_ = UploadRunFile(item, std::move(place));
    }
    upload_->Continue(cursor_.content_progress);
    content_published_ = now;
  }
  const absl::Duration wait = WorkOnContent(now);
  PublishContent(now);
  return wait;
}

absl::Duration WandbDelivery::WorkOnContent(absl::Time now) {
  switch (upload_->work()) {
    case ContentUpload::Work::kRead: {
      const absl::Status status = upload_->Read(kReadPiece);
      if (status.ok()) return absl::ZeroDuration();
      content_refusals_ = kMostRefusals;  // a retry cannot help
      return ContentFailed(std::string(status.message()), /*refused=*/true, now);
    }
    case ContentUpload::Work::kQuery: {
      const absl::StatusOr<HttpResponse> answer =
          Post(Endpoint::kGraphql, upload_->Query(), kMostOfAnswer);
      const Outcome outcome = Classify(answer);
      if (ConcernsServer(answer)) {
        return Failed(outcome, absl::StrCat("send ", upload_->Name()), answer, now);
      }
      OnSuccess();
      if (outcome != Outcome::kAccepted) {
        return ContentFailed(Explain(answer), outcome != Outcome::kLater, now);
      }
      const absl::Status read = upload_->OnAnswer(answer->body);
      if (!read.ok()) return ContentFailed(std::string(read.message()), /*refused=*/true, now);
      return absl::ZeroDuration();
    }
    case ContentUpload::Work::kPut: {
      if (exchange_ == nullptr) {
        HttpRequest request = upload_->Put();
        request.on_progress = [this](uint64_t sent) { exchange_sent_ = sent; };
        exchange_ = BeginOutside(std::move(request));
      }
      const absl::optional<absl::StatusOr<HttpResponse>> answer = exchange_->Continue(kPiece);
      if (!answer.has_value()) return absl::ZeroDuration();
      exchange_.reset();
      exchange_sent_ = 0;
      if (absl::IsCancelled(answer->status())) return kFirstContentWait;  // by our own Stop()
      const Outcome outcome = Classify(*answer);
      if (outcome != Outcome::kAccepted) {
        return ContentFailed(Explain(*answer), outcome != Outcome::kLater, now);
      }
      const absl::Status status = upload_->OnPut(**answer);
      if (!status.ok()) return ContentFailed(std::string(status.message()), /*refused=*/true, now);
      // After a restart, what was accepted before says nothing about what was refused.
      if (const uint64_t bytes = upload_->sent().bytes; bytes > content_most_bytes_) {
        content_most_bytes_ = bytes;
        content_failures_ = content_refusals_ = 0;
      }
      return absl::ZeroDuration();
    }
    case ContentUpload::Work::kDone:
      break;
  }
  const model::Item& item = content_items_.front().item;
  if (item.kind == model::Item::Kind::kRunFile) {
    cursor_.unannounced_files.push_back(TextOf(item.object, "path"));
  }
  ContentDone();
  return absl::ZeroDuration();
}

void WandbDelivery::PublishContent(absl::Time now) {
  if (upload_ == nullptr) return;
  const ContentUpload::Sent sent = upload_->sent();
  if (now < content_published_ + kBetweenPublishings &&
      sent.bytes < content_published_bytes_ + kBytesToPublish) {
    return;
  }
  content_published_bytes_ = sent.bytes;
  cursor_.content_progress = upload_->Progress();
  cursor_.content_files = sent.files;
  cursor_.content_bytes = sent.bytes + exchange_sent_;
  content_published_ = now;
}

// A store of files that does not answer is tried again without a limit: nothing else of the run waits
// for it but its end.
absl::Duration WandbDelivery::ContentFailed(const std::string& why, bool refused, absl::Time now) {
  const std::string what = absl::StrCat(upload_->Name(), ": ", why);
  upload_->Restart(refused);
  if (refused && ++content_refusals_ > kMostRefusals) {
    AddDeadLetter(0, what, ToJsonText(content_items_.front().item.object));
    ContentDone();
    return absl::ZeroDuration();
  }
  delivery_.last_error = what;
  content_not_before_ = now + std::min(kFirstContentWait * (1 << std::min(content_failures_++, 10)),
                                       kLongestContentWait);
  return absl::ZeroDuration();
}

void WandbDelivery::ContentDone() {
  cursor_.content = content_items_.front().id;
  cursor_.content_files = cursor_.content_bytes = content_published_bytes_ = 0;
  content_most_bytes_ = 0;
  cursor_.content_progress = nullptr;
  content_items_.pop_front();
  upload_.reset();
  exchange_.reset();
  content_failures_ = content_refusals_ = 0;
  content_not_before_ = absl::InfinitePast();
  delivery_.last_error.clear();
  SettleItems();
}

}  // namespace ranklog::deliver::wandb
