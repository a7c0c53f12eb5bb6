#include "service/peer/part_sender.h"

#include <algorithm>
#include <utility>

#include "ranklog/v1/spool_layout.h"
#include "service/base/status_macros.h"
#include "service/peer/push_convert.h"

namespace ranklog::peer {

using model::Joined;
using model::Stream;
using model::StreamState;

const Stream* PartSender::Find(int64_t id) const {
  const auto found = std::find_if(streams_.begin(), streams_.end(),
                                  [id](const Stream& stream) { return stream.id == id; });
  return found == streams_.end() ? nullptr : &*found;
}

// The receiver must see the end of a rank's process before it sees the next one, as a daemon does
// whose own ranks they are.
bool PartSender::WaitsForPredecessor(const Stream& stream) const {
  return std::any_of(streams_.begin(), streams_.end(), [&](const Stream& other) {
    return other.key.rank == stream.key.rank && other.id < stream.id &&
           other.launch.process != stream.launch.process && !sent_.at(other.id).closed &&
           !sent_.at(other.id).whole;
  });
}

absl::Status PartSender::Read(storage::StoreReader& reader) {
  ASSIGN_OR_RETURN(part_, reader.GetRun(run_));
  ASSIGN_OR_RETURN(streams_, reader.Streams(run_));
  std::sort(streams_.begin(), streams_.end(),
            [](const Stream& a, const Stream& b) { return a.id < b.id; });
  state_.waiting_rows = 0;
  state_.waits = state_.asks = false;
  state_.late_rows = 0;
  done_ = part_.state != model::RunState::kRunning;
  for (const Stream& stream : streams_) {
    Sent& sent = sent_[stream.id];
    sent.closed |= stream.joined != Joined::kOpen || !stream.peer.empty();
    sent.begun |= stream.joins;
    sent.late_rows = std::max(sent.late_rows, stream.joined_late);
    sent.saved_late = std::max(sent.saved_late, stream.joined_late);
    done_ &= sent.closed;
    state_.late_rows += sent.late_rows;
    if (stream.joined == Joined::kLate) state_.late_rows += stream.durable_seq - stream.joined_seq;
    state_.asks |= sent.whole && !sent.closed;
    if (sent.closed || sent.whole) continue;
    state_.waiting_rows += stream.durable_seq - std::max(sent.seq, stream.joined_seq);
    state_.waits |= stream.state != StreamState::kLive;
  }
  state_.waits |= state_.waiting_rows > 0;
  return absl::OkStatus();
}

absl::StatusOr<absl::optional<v1::PushRequest>> PartSender::Next(storage::StoreReader& reader,
                                                                 absl::Time now) {
  RETURN_IF_ERROR(Read(reader));
  v1::PushRequest request;
  request.set_protocol(v1::kProtocolVersion);
  request.set_node(options_.node);
  request.set_sender(options_.sender);
  size_t bytes = 0;
  more_ = false;
  asked_.clear();
  for (const Stream& stream : streams_) {
    RETURN_IF_ERROR(AddStream(reader, stream, now, &bytes, &request));
  }
  if (request.stream_size() == 0 && (done_ || now < next_heartbeat_)) return absl::nullopt;
  next_heartbeat_ = now + options_.heartbeat;
  return request;
}

absl::Status PartSender::AddStream(storage::StoreReader& reader, const Stream& stream,
                                   absl::Time now, size_t* bytes, v1::PushRequest* request) {
  Sent& sent = sent_[stream.id];
  if (sent.closed || now < sent.again || WaitsForPredecessor(stream)) return absl::OkStatus();
  v1::PushedStream pushed;
  if (!sent.attached) {
    *pushed.mutable_hello() = ToHello(part_, stream);
    *pushed.mutable_stream() = pushed.hello().stream();
    sent.asked_hello = true;
    sent.sent_step = -1;
    if (!std::exchange(sent.begun, true)) begun_.push_back({.stream = stream.id});
    *request->add_stream() = std::move(pushed);
    asked_.push_back(stream.id);
    return absl::OkStatus();
  }
  uint64_t last = sent.seq;
  if (sent.seq < stream.durable_seq && *bytes >= options_.request_bytes) {
    more_ = true;
    return absl::OkStatus();
  }
  if (sent.seq < stream.durable_seq) {
    ASSIGN_OR_RETURN(const std::vector<storage::StoredBatch> batches,
                     reader.StreamBatches(stream.id, sent.seq, options_.stream_bytes));
    absl::optional<std::vector<std::vector<std::string>>> shapes;
    for (const storage::StoredBatch& stored : batches) {
      for (const model::Block& block : stored.batch.blocks) {
        if (block.shape == 0) continue;
        if (sent.shapes.size() <= block.shape) sent.shapes.resize(block.shape + 1);
        if (sent.shapes[block.shape]) continue;
        if (!shapes) {
          ASSIGN_OR_RETURN(shapes, reader.Shapes(stream.id));
        }
        if (block.shape >= shapes->size()) continue;
        v1::DefineShape& shape = *pushed.add_shape();
        shape.set_id(block.shape);
        const std::vector<std::string>& keys = (*shapes)[block.shape];
        *shape.mutable_keys() = {keys.begin(), keys.end()};
        sent.shapes[block.shape] = true;
      }
      *pushed.add_batch() = ToMessage(stored.batch);
      last = stored.batch.last;
    }
    // The last rows were lost with an earlier store.
    if (batches.empty()) last = stream.durable_seq;
    more_ |= last < stream.durable_seq;
  }
  const bool complete = last >= stream.durable_seq;
  sent.sent_step = complete ? stream.passed_step : -1;
  if (sent.sent_step > sent.passed_step) pushed.set_passed_step(sent.sent_step);
  sent.sent_end = complete && stream.state != StreamState::kLive;
  if (sent.sent_end) {
    *pushed.mutable_end() = EndOf(stream);
    *pushed.mutable_losses() = ToMessage(stream.losses);
  }
  const bool anything = pushed.batch_size() > 0 || pushed.has_passed_step() || pushed.has_end();
  if (!anything && now < sent.named + options_.heartbeat) return absl::OkStatus();
  sent.named = now;
  *pushed.mutable_stream() = ToMessage(stream.key);
  *bytes += pushed.ByteSizeLong();
  *request->add_stream() = std::move(pushed);
  asked_.push_back(stream.id);
  return absl::OkStatus();
}

std::vector<PartSender::Progress> PartSender::OnReply(const v1::PushReply& reply, absl::Time now) {
  std::vector<Progress> progress;
  if (reply.stream_size() != static_cast<int>(asked_.size())) {
    OnError();
    return progress;
  }
  if (!asked_.empty()) {
    state_.why.clear();
    state_.own = false;
  }
  for (size_t i = 0; i < asked_.size(); ++i) {
    const v1::PushedAnswer& answer = reply.stream(static_cast<int>(i));
    const Stream* const stream = Find(asked_[i]);
    Sent& sent = sent_[asked_[i]];
    const bool ended = stream->state != StreamState::kLive;
    Joined joined = Joined::kOpen;
    // Until the receiver knows which rows are late, it is asked again.
    const auto settled = [&](const v1::PushedAnswer& by, Joined as) {
      if (!by.open()) {
        joined = as;
        return;
      }
      sent.attached = false;
      sent.again = now + options_.retry;
    };
    switch (answer.result()) {
      case v1::PushedAnswer::TAKEN:
        // After a Hello, it may be less than before: the receiver's store may be an older copy.
        // Without a Hello, rows and an end, the answer has no number.
        sent.seq =
            sent.asked_hello ? answer.durable_seq() : std::max(sent.seq, answer.durable_seq());
        sent.again = absl::InfinitePast();
        sent.passed_step = std::max(sent.passed_step, sent.sent_step);
        sent.attached = true;
        sent.whole = sent.sent_end;
        sent.late_rows = std::max(sent.late_rows, answer.late_rows());
        if (sent.whole) settled(answer, Joined::kWhole);
        break;
      case v1::PushedAnswer::SEND_HELLO:
        sent.attached = false;
        break;
      case v1::PushedAnswer::ENDED:
        // The end that arrived may be that of an earlier request, whose answer was lost.
        sent.seq = answer.durable_seq();
        sent.whole = ended && sent.seq >= stream->durable_seq;
        sent.late_rows = std::max(sent.late_rows, answer.late_rows());
        settled(answer, sent.whole ? Joined::kWhole : Joined::kLate);
        break;
      case v1::PushedAnswer::RUN_ENDED:
        if (ended) joined = sent.whole ? Joined::kWhole : Joined::kLate;
        sent.again = now + options_.retry;
        if (!sent.whole) state_.why = answer.why();
        break;
      case v1::PushedAnswer::OWN:
        state_.own = true;
        sent.closed = true;
        break;
      case v1::PushedAnswer::NOT_YET:
        // Rows that could not be stored are sent again, with their shapes.
        sent.attached = false;
        sent.again = now + (sent.whole ? options_.refused_retry : options_.retry);
        if (!sent.whole) state_.why = answer.why();
        break;
      default:
        sent.again = now + options_.refused_retry;
        sent.attached = false;
        if (!sent.whole) state_.why = answer.why();
    }
    if (!sent.attached) {  // the shapes go with the first rows
      sent.shapes.clear();
      sent.passed_step = -1;
    }
    // A late stream that is live goes on here, and more of its rows will be late.
    if (joined == Joined::kLate && !ended) {
      sent.again = now + options_.refused_retry;
      sent.attached = false;
      state_.why = "its stream has ended there";
      joined = Joined::kOpen;
    }
    sent.closed |= joined != Joined::kOpen;
    const bool changed = sent.seq > sent.saved_seq || sent.late_rows > sent.saved_late;
    if (joined != Joined::kOpen ||
        (changed && (sent.whole || now >= sent.saved + options_.save_interval))) {
      Progress of{.stream = asked_[i],
                  .seq = sent.seq,
                  .joined = joined,
                  .late_rows = sent.late_rows,
                  .new_late_rows = sent.late_rows - sent.saved_late};
      if (joined == Joined::kLate && stream->durable_seq > sent.seq) {
        of.new_late_rows += stream->durable_seq - sent.seq;
      }
      progress.push_back(of);
      sent.saved_seq = sent.seq;
      sent.saved_late = sent.late_rows;
      sent.saved = now;
    }
    sent.asked_hello = sent.sent_end = false;
  }
  return progress;
}

// The receiver may have been started again, and may have all of the request or nothing.
void PartSender::OnError() {
  for (const int64_t stream : asked_) {
    Sent& sent = sent_[stream];
    sent.attached = false;
    sent.shapes.clear();
    sent.passed_step = -1;
    sent.asked_hello = sent.sent_end = false;
  }
  asked_.clear();
}

absl::Time PartSender::NextDeadline() const {
  if (done_) return absl::InfiniteFuture();
  absl::Time next = next_heartbeat_;
  for (const auto& [id, sent] : sent_) {
    if (!sent.closed && sent.again != absl::InfinitePast()) next = std::min(next, sent.again);
  }
  return next;
}

}  // namespace ranklog::peer
