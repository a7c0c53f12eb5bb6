// The part of AttachSession that attaches the stream: from its Hello to the answer.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/base/fault_point.h"
#include "service/base/status_macros.h"
#include "service/ingest/rank_ring.h"
#include "service/ingest/ring/convert.h"
#include "service/ingest/server/attach_session.h"
#include "service/ingest/server/hello_reply.h"

namespace ranklog::ingest {
namespace {

// An attached process has its own environment. Its credentials must not replace those of the maker,
// but count if the maker has ended and this daemon may not know any.
bool CredentialsCount(const v1::Hello& hello, const StreamRegistry& registry) {
  if (!hello.attached()) return true;
  return !registry.HasProcess(hello.launch().process()) &&
         std::any_of(hello.credentials().begin(), hello.credentials().end(),
                     [](const auto& credential) { return !credential.second.empty(); });
}

}  // namespace

absl::Status AttachSession::HandleHello(const v1::Hello& hello) {
  key_ = ToStreamKey(hello.stream());
  other_version_ = hello.protocol() != v1::kProtocolVersion;
  ASSIGN_OR_RETURN(model::Session session, ToSession(hello));
  if (context_.registry->full() && !context_.registry->Find(key_)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", StreamRegistry::kMaxStreams, " live streams already"));
  }
  if (context_.registry->ReplacesProgram(key_, peer_.get(), hello.identity().began_us())) {
    return absl::UnavailableError(
        "the rows of the previous program must be stored first; try again");
  }
  if (CredentialsCount(hello, *context_.registry)) {
    context_.credentials.remember(session,
                                  {hello.credentials().begin(), hello.credentials().end()});
  }
  ResolveDestinations(context_.credentials, &session);
  SubscribeToNotices();  // before the attach, which waits while the disk is full
  std::shared_ptr<const RingFile> ring = OpenRankRing(hello, peer_.get(), *context_.counters);
  if (context_.registry->Find(key_) || context_.registry->HasProcess(session.launch.process)) {
    SubmitAttach(std::move(session), std::move(ring));
    return absl::OkStatus();
  }
  // A new process may be the successor of a dead one.
  context_.when_caught_up(
      [self = shared_from_this(), session = std::move(session), ring = std::move(ring)]() mutable {
        self->SubmitAttach(std::move(session), std::move(ring));
      });
  return absl::OkStatus();
}

void AttachSession::SubmitAttach(model::Session session, std::shared_ptr<const RingFile> ring) {
  std::vector<std::string> destinations = session.settings.destinations;
  std::vector<std::string> mistakes = session.mistakes;
  const bool first = session.stream.rank == 0 && session.identity.thread == 0;
  absl::optional<v1::Notice> nodes;
  if (first && context_.nodes_notice) nodes = context_.nodes_notice(session);
  // Written by the first lambda, read by the second.
  auto attached = std::make_shared<model::Stream>();
  Submit(
      [this, session = std::move(session), attached, ring](storage::Store& store) -> absl::Status {
        // Checked here, in the order in which streams are attached.
        if (context_.registry->MustWaitForPredecessor(key_, session.launch.process)) {
          return absl::CancelledError(
              "the rows of the previous process must be stored first; try again");
        }
        context_.registry->BeginAttaching(
            {.key = key_, .process = session.launch.process, .ring = ring, .peer = peer_});
        // Before the attach, so that the next daemon finds the ring if this daemon dies now.
        // Attached() retries and logs the error.
        RememberDirOf(ring.get(), context_.spool_dirs).IgnoreError();
        ASSIGN_OR_RETURN(*attached, context_.attacher->Attach(session, store));
        FaultPoint("attach");
        return absl::OkStatus();
      },
      // Copies `ring`, because the evaluation order of the two lambdas is unspecified.
      [this, attached, destinations = std::move(destinations), mistakes = std::move(mistakes),
       nodes = std::move(nodes),
       ring] { Attached(*attached, ring, destinations, mistakes, nodes); },
      /*bytes=*/0, /*urgent=*/true);
}

// Notices for all runs reach the stream at once. Notices of its run come with HelloReply.
void AttachSession::SubscribeToNotices() {
  if (context_.notices == nullptr) return;
  const uint64_t listener =
      context_.notices->AddListener([weak = weak_from_this()](const v1::Notice& notice) {
        if (const auto self = weak.lock()) self->OnNotice(notice);
      });
  {
    absl::MutexLock lock(&mutex_);
    listener_ = listener;
    if (!done_) return;
  }
  context_.notices->RemoveListener(listener);
}

void AttachSession::OnNotice(const v1::Notice& notice) {
  absl::MutexLock lock(&mutex_);
  outgoing_.AddNotice(notice);
  ContinueWriting();
}

void AttachSession::Attached(const model::Stream& stream, std::shared_ptr<const RingFile> ring,
                             const std::vector<std::string>& destinations,
                             std::vector<std::string> mistakes,
                             const absl::optional<v1::Notice>& nodes) {
  stream_ = stream.id;
  run_ = stream.run;
  ++context_.counters->attaches;
  context_.run_attached(stream.run);
  // Already done, except if the disk was full. Now the disk has stored the attach, so it can
  // succeed.
  if (const absl::Status status = RememberDirOf(ring.get(), context_.spool_dirs); !status.ok()) {
    spdlog::warn(
        "cannot record the directory of the spool {}: {}; the next daemon will not search it",
        ring->path(), std::string(status.message()));
  }
  if (!stream.notice.empty() && stream.identity.thread == 0) spdlog::warn("{}", stream.notice);
  for (std::string& mistake : mistakes) {
    absl::StrReplaceAll({{"{run}", stream.run_id.empty() ? "RUN" : stream.run_id}}, &mistake);
    spdlog::warn("run {}: {}", stream.run_id, mistake);
  }
  const uint64_t attachment = context_.registry->Attach(stream, std::move(ring), peer_);
  context_.registry->EndAttaching(key_);
  absl::optional<LiveStream> live = context_.registry->Find(stream.key);
  uint64_t listener = 0;
  {
    absl::MutexLock lock(&mutex_);
    listener = listener_;
  }
  std::vector<v1::Notice> notices;
  if (listener != 0) {
    // This rank may be the first of its node.
    context_.notices->SendRunId(stream.run, stream.run_id);
    notices = context_.notices->FollowRun(listener, stream.run);
  }
  if (!stream.notice.empty()) notices.push_back(StartNotice(stream));
  if (!mistakes.empty()) notices.push_back(SettingsNotice(mistakes));
  if (nodes) notices.push_back(*nodes);
  absl::MutexLock lock(&mutex_);
  attachment_ = attachment;
  // Closed before the attach was complete.
  if (done_) context_.registry->Detach(stream.key, attachment);
  outgoing_.SetReply(ReplyTo(stream, destinations, context_.state_dir, context_.content,
                             /*send_descriptor=*/!live || live->ring == nullptr));
  // Notices that arrived since then are newer.
  outgoing_.AddOlderNotices(notices);
  ContinueWriting();
  ContinueReading();
}

}  // namespace ranklog::ingest
