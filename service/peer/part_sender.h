// Decides what the daemon of rank 0's node is told about one run, and keeps what it has.

#ifndef SERVICE_PEER_PART_SENDER_H_
#define SERVICE_PEER_PART_SENDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/model/run.h"
#include "service/storage/store_reader.h"

namespace ranklog::peer {

// One per run that is a part: its ranks are not on the node of rank 0. Not thread-safe, and does no
// I/O besides reading the store. One request at a time: the next one is made after the answer, or
// after the error, of the last.
//
// Exactly once: the receiver's store has the number of each stream's last row. Every request begins
// after the row that the last answer named. After an error, or a restart of either daemon, a Hello
// asks for it. So a request may arrive twice, or not at all.
class PartSender {
 public:
  struct Options {
    std::string node;     // of this daemon, for people
    uint64_t sender = 0;  // of this start of the daemon
    size_t stream_bytes = 256 << 10;
    size_t request_bytes = 2 << 20;  // below the limit of a message
    // So often the receiver hears of each live stream: it may have been started again.
    absl::Duration heartbeat = absl::Seconds(5);
    // Between tries to attach a stream that was not taken.
    absl::Duration retry = absl::Seconds(2);
    absl::Duration refused_retry = absl::Minutes(1);
    // Between writes of how far the receiver is, which are for people only.
    absl::Duration save_interval = absl::Seconds(10);
  };

  PartSender(int64_t run, Options options) : run_(run), options_(std::move(options)) {}

  // Reads the run and its streams, and counts what waits.
  absl::Status Read(storage::StoreReader& reader);
  // Reads, and makes the next request, if there is anything to say at `now`, a time of a steady
  // clock.
  absl::StatusOr<absl::optional<v1::PushRequest>> Next(storage::StoreReader& reader,
                                                       absl::Time now);
  // How far the receiver has a stream, to be stored.
  struct Progress {
    int64_t stream = 0;
    uint64_t seq = 0;
    model::Joined joined = model::Joined::kOpen;
    uint64_t late_rows = 0;      // that the receiver has
    uint64_t new_late_rows = 0;  // since the last one, and those that it will never take
  };
  // Streams that Next() has begun to send, and that are not stored as such.
  std::vector<Progress> TakeBegun() { return std::exchange(begun_, {}); }
  // Each request of Next() is followed by one of these.
  std::vector<Progress> OnReply(const v1::PushReply& reply, absl::Time now);
  void OnError();

  // When Next() has something to say without a new row.
  absl::Time NextDeadline() const;
  // Nothing is left to send, now or later.
  bool done() const { return done_; }
  bool more() const { return more_; }
  const model::Run& run() const { return part_; }  // as last read

  struct State {
    uint64_t waiting_rows = 0;
    bool waits = false;      // rows, or ends of streams
    bool asks = false;       // the receiver has not told yet which rows are late
    uint64_t late_rows = 0;  // at the receiver: their step was closed, or the run had ended
    std::string why;         // the receiver's reason for taking no rows; empty: it takes them
    bool own = false;        // the receiver is this daemon itself
  };
  const State& state() const { return state_; }

 private:
  struct Sent {
    bool attached = false;                    // the receiver knows the stream
    uint64_t seq = 0;                         // it has the rows up to this one
    std::vector<bool> shapes;                 // that it knows, by id
    int64_t passed_step = -1;                 // that it knows
    bool whole = false;                       // it has all rows, and the end
    bool closed = false;                      // nothing more to send or to ask
    uint64_t late_rows = 0;                   // of those that it has
    bool begun = false;                       // stored as one that is sent
    absl::Time again = absl::InfinitePast();  // the next try
    absl::Time named = absl::InfinitePast();  // in a request
    uint64_t saved_seq = 0;
    uint64_t saved_late = 0;
    absl::Time saved = absl::InfinitePast();
    // Of the request without an answer.
    bool asked_hello = false;
    bool sent_end = false;
    int64_t sent_step = -1;
  };

  // Adds what is new of a stream. `bytes` is the size of the rows so far.
  absl::Status AddStream(storage::StoreReader& reader, const model::Stream& stream, absl::Time now,
                         size_t* bytes, v1::PushRequest* request);
  bool WaitsForPredecessor(const model::Stream& stream) const;
  const model::Stream* Find(int64_t stream) const;

  const int64_t run_;
  const Options options_;
  model::Run part_;
  std::vector<model::Stream> streams_;  // as last read
  std::map<int64_t, Sent> sent_;        // by the store's id of the stream
  std::vector<int64_t> asked_;          // the streams of the request without an answer
  std::vector<Progress> begun_;
  absl::Time next_heartbeat_ = absl::InfinitePast();
  bool more_ = false;
  bool done_ = false;
  State state_;
};

}  // namespace ranklog::peer

#endif  // SERVICE_PEER_PART_SENDER_H_
