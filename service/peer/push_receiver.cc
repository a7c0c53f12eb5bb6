#include "service/peer/push_receiver.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "service/base/status_macros.h"
#include "service/ingest/ring/convert.h"
#include "service/peer/pushed_additions.h"

namespace ranklog::peer {
namespace {

using Answer = v1::PushedAnswer;

// After this time without a word, a sender's streams are only in the store.
constexpr absl::Duration kForgetAfter = absl::Hours(1);

// More than the time between two questions of a sender, PartSender::Options::retry.
constexpr absl::Duration kAsksEvery = absl::Seconds(4);

Answer AnswerOf(Answer::Result result, absl::string_view why = "") {
  Answer answer;
  answer.set_result(result);
  answer.set_why(std::string(why));
  return answer;
}

Answer Refusal(const absl::Status& why) {
  switch (why.code()) {
    case absl::StatusCode::kNotFound:
      return AnswerOf(Answer::NOT_YET, why.message());
    case absl::StatusCode::kFailedPrecondition:
      return AnswerOf(Answer::RUN_ENDED, why.message());
    case absl::StatusCode::kAlreadyExists:
      return AnswerOf(Answer::OWN, why.message());
    case absl::StatusCode::kInvalidArgument:
      return AnswerOf(Answer::REFUSED, why.message());
    default:  // of the disk, or the daemon stops
      return AnswerOf(Answer::NOT_YET, why.message());
  }
}

// The sender only says that the stream is live.
bool IsEmpty(const v1::PushedStream& pushed) {
  return pushed.batch_size() == 0 && !pushed.has_passed_step() && !pushed.has_end();
}

}  // namespace

// Calls `done` when the last stream of the request is answered.
struct PushReceiver::Job {
  Job(int streams, absl::AnyInvocable<void(v1::PushReply)> then)
      : left(streams), done(std::move(then)) {
    for (int i = 0; i < streams; ++i) reply.add_stream();
  }
  // Each index is answered once, perhaps on several threads.
  void Answered(int index, Answer answer) {
    {
      absl::MutexLock lock(&mutex);
      *reply.mutable_stream(index) = std::move(answer);
      if (--left > 0) return;
    }
    done(std::move(reply));
  }

  std::string node;
  uint64_t sender = 0;
  absl::Mutex mutex;
  v1::PushReply reply;
  int left;
  absl::AnyInvocable<void(v1::PushReply)> done;
};

PushReceiver::PushReceiver(Options options)
    : options_(std::move(options)), started_(options_.steady_clock()) {}

void PushReceiver::Handle(const v1::PushRequest& request,
                          absl::AnyInvocable<void(v1::PushReply)> done) {
  ++counters_.requests;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = options_.steady_clock();
    senders_[request.sender()] = {request.node().substr(0, kMaxText), now};
    ForgetSilent(now);
  }
  if (request.stream_size() == 0) return done({});
  auto job = std::make_shared<Job>(request.stream_size(), std::move(done));
  job->node = request.node().substr(0, kMaxText);
  job->sender = request.sender();
  const bool full = options_.store->full();
  int hellos = 0;
  for (int i = 0; i < request.stream_size(); ++i) {
    const v1::PushedStream& pushed = request.stream(i);
    if (full || (pushed.has_hello() && ++hellos > kMaxHellos)) {
      job->Answered(i, AnswerOf(Answer::NOT_YET, full ? "too many rows wait for its disk"
                                                      : "too many streams at once"));
      continue;
    }
    const absl::optional<Known> known =
        Find(ingest::ToStreamKey(pushed.stream()), request.sender());
    if (pushed.has_hello()) {
      Attach(job, i, pushed);
    } else if (known && IsEmpty(pushed)) {
      job->Answered(i, AnswerOf(Answer::TAKEN));
    } else if (known) {
      Append(job, i, *known, pushed);
    } else {
      job->Answered(i, AnswerOf(Answer::SEND_HELLO));
    }
  }
}

void PushReceiver::Attach(std::shared_ptr<Job> job, int index, const v1::PushedStream& pushed) {
  absl::StatusOr<model::Session> session = ingest::ToSession(pushed.hello());
  if (session.ok() && session->stream != ingest::ToStreamKey(pushed.stream())) {
    session = absl::InvalidArgumentError("its Hello is of another stream");
  }
  if (session.ok() && session->stream.rank == 0) {
    session = absl::InvalidArgumentError("rank 0 belongs to the daemon of its own node");
  }
  if (!session.ok()) {
    ++counters_.refused;
    return job->Answered(index, Refusal(absl::InvalidArgumentError(session.status().message())));
  }
  session->peer = job->node.empty() ? session->identity.node : job->node;
  if (session->peer.empty()) session->peer = "?";
  const model::StreamKey key = session->stream;
  auto attached = std::make_shared<model::Stream>();  // written by the first lambda, read below
  options_.store->Submit({.apply = [this, session = *std::move(session),
                                    attached](storage::Store& store) -> absl::Status {
                            ASSIGN_OR_RETURN(*attached,
                                             options_.attacher->AttachPeer(session, store));
                            return absl::OkStatus();
                          },
                          .done =
                              [this, job, index, key, attached](absl::Status status) {
                                if (!status.ok()) return job->Answered(index, Refusal(status));
                                const bool live = attached->state == model::StreamState::kLive;
                                if (live) {
                                  Remember(key, {attached->id, attached->run, job->sender,
                                                 std::make_shared<ingest::ShapeBounds>()});
                                  options_.run_changed(attached->run);
                                }
                                Answer answer = AnswerOf(live ? Answer::TAKEN : Answer::ENDED);
                                answer.set_durable_seq(attached->durable_seq);
                                answer.set_late_rows(attached->late_rows);
                                answer.set_open(attached->aggregated_seq < attached->durable_seq);
                                if (!live) SetAsked(attached->id, answer.open());
                                job->Answered(index, std::move(answer));
                              },
                          .urgent = true});
}

void PushReceiver::Append(std::shared_ptr<Job> job, int index, const Known& known,
                          const v1::PushedStream& pushed) {
  absl::StatusOr<Additions> additions = ToAdditions(pushed);
  if (const absl::Status shapes = CheckShapes(known, pushed); !shapes.ok()) additions = shapes;
  if (!additions.ok()) {
    ++counters_.refused;
    return job->Answered(index, Refusal(absl::InvalidArgumentError(additions.status().message())));
  }
  // Written by the first lambda, read by the second.
  struct Result {
    storage::Store::PeerStream before;
    uint64_t durable = 0;
  };
  auto result = std::make_shared<Result>();
  const uint64_t rows = additions->rows;
  const bool ends = additions->end.has_value();
  const model::StreamKey key = ingest::ToStreamKey(pushed.stream());
  options_.store->Submit(
      {.apply = [this, known, additions = *std::move(additions),
                 result](storage::Store& store) -> absl::Status {
         ASSIGN_OR_RETURN(result->before, store.GetPeerStream(known.stream));
         if (!result->before.live) return absl::OkStatus();
         ASSIGN_OR_RETURN(result->durable,
                          StoreAdditions(known.stream, additions,
                                         absl::ToUnixMicros(options_.wall_clock()), store));
         return absl::OkStatus();
       },
       .done =
           [this, job, index, key, known, rows, ends, result](absl::Status status) {
             if (absl::IsNotFound(status)) {  // the run was removed
               Forget(key);
               return job->Answered(index, AnswerOf(Answer::SEND_HELLO));
             }
             if (absl::IsInvalidArgument(status)) {
               ++counters_.refused;
               spdlog::warn("peer {}: rank {} of {}: {}", job->node, key.rank, key.job_id,
                            std::string(status.message()));
             }
             if (!status.ok()) return job->Answered(index, Refusal(status));
             counters_.rows += rows;
             const bool live = result->before.live;
             if (ends || !live) Forget(key);
             if (ends && live) SetAsked(known.stream, /*open=*/true);
             options_.run_changed(known.run);
             // With ENDED, the sender does not know whether its end arrived earlier: its Hello asks.
             Answer answer = AnswerOf(live ? Answer::TAKEN : Answer::SEND_HELLO);
             answer.set_durable_seq(result->durable);
             answer.set_late_rows(result->before.late_rows);
             answer.set_open(ends);
             job->Answered(index, std::move(answer));
           },
       .bytes = pushed.ByteSizeLong()});
}

// The bounds of a rank's connection.
absl::Status PushReceiver::CheckShapes(const Known& known, const v1::PushedStream& pushed) {
  absl::MutexLock lock(&mutex_);
  for (const v1::DefineShape& shape : pushed.shape()) {
    RETURN_IF_ERROR(known.shapes->Add(shape.id(), shape.keys()));
  }
  return absl::OkStatus();
}

absl::optional<PushReceiver::Known> PushReceiver::Find(const model::StreamKey& key,
                                                       uint64_t sender) {
  absl::MutexLock lock(&mutex_);
  const auto found = streams_.find(key);
  if (found == streams_.end()) return absl::nullopt;
  found->second.sender = sender;
  sender_of_[found->second.stream] = sender;
  return found->second;
}

void PushReceiver::Remember(const model::StreamKey& key, const Known& known) {
  absl::MutexLock lock(&mutex_);
  // Above the limit, each request begins with a Hello, which is only slower.
  if (streams_.size() >= kMaxStreams) return;
  streams_[key] = known;
  sender_of_[known.stream] = known.sender;
}

void PushReceiver::SetAsked(int64_t stream, bool open) {
  absl::MutexLock lock(&mutex_);
  if (open) {
    asked_[stream] = options_.steady_clock();
  } else {
    asked_.erase(stream);
  }
}

bool PushReceiver::told() const {
  absl::MutexLock lock(&mutex_);
  const absl::Time limit = options_.steady_clock() - kAsksEvery;
  return std::none_of(asked_.begin(), asked_.end(),
                      [limit](const auto& stream) { return stream.second >= limit; });
}

void PushReceiver::Forget(const model::StreamKey& key) {
  absl::MutexLock lock(&mutex_);
  const auto found = streams_.find(key);
  if (found == streams_.end()) return;
  sender_of_.erase(found->second.stream);
  streams_.erase(found);
}

void PushReceiver::ForgetSilent(absl::Time now) {
  if (now < next_look_) return;
  next_look_ = now + kForgetAfter / 10;
  const absl::Time limit = now - kForgetAfter;
  std::erase_if(asked_, [limit](const auto& stream) { return stream.second < limit; });
  for (auto it = senders_.begin(); it != senders_.end();) {
    if (it->second.heard >= limit) {
      ++it;
      continue;
    }
    for (auto known = streams_.begin(); known != streams_.end();) {
      if (known->second.sender != it->first) {
        ++known;
        continue;
      }
      sender_of_.erase(known->second.stream);
      known = streams_.erase(known);
    }
    it = senders_.erase(it);
  }
}

absl::Time PushReceiver::Heard(const model::Stream& stream) const {
  absl::MutexLock lock(&mutex_);
  const auto sender = sender_of_.find(stream.id);
  if (sender == sender_of_.end()) return started_;
  const auto found = senders_.find(sender->second);
  return found == senders_.end() ? started_ : found->second.heard;
}

std::vector<PushReceiver::Node> PushReceiver::Nodes() const {
  absl::MutexLock lock(&mutex_);
  std::map<uint64_t, size_t> streams;
  for (const auto& [key, known] : streams_) ++streams[known.sender];
  std::vector<Node> nodes;
  for (const auto& [id, sender] : senders_) {
    nodes.push_back({sender.node, sender.heard, streams[id]});
  }
  return nodes;
}

}  // namespace ranklog::peer
