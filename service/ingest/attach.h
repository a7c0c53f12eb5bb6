// The effect of an attach on the store: the run of the session, and the destinations of the run.

#ifndef SERVICE_INGEST_ATTACH_H_
#define SERVICE_INGEST_ATTACH_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/model/run.h"
#include "service/model/session.h"
#include "service/storage/store.h"
#include "service/storage/store_reader.h"

namespace ranklog::ingest {

// The credential functions that ingest needs. Keys and variables that a rank sends are stored for
// its job and for the server in its settings.
struct Credentials {
  // Stores the keys and variables that a rank of this session sent, by variable name.
  std::function<void(const model::Session&, const std::map<std::string, std::string>&)> remember;
  // The destination of a session that names none: the first one with a key, else local.
  std::function<std::string(const model::Session&)> usual_destination;
};

// Replaces empty destinations by the usual one.
void ResolveDestinations(const Credentials& credentials, model::Session* session);

// Attaches sessions in the store. Use it only on the store loop's thread.
class Attacher {
 public:
  // `reader` reads the database that the store loop writes.
  explicit Attacher(std::unique_ptr<storage::StoreReader> reader,
                    std::function<absl::Time()> wall_clock = absl::Now)
      : reader_(std::move(reader)), wall_clock_(std::move(wall_clock)) {}

  // Determines the start of the job that the session belongs to (aggregate/start.h). Finds or
  // creates its stream and run, and a delivery for each destination that the run does not have yet.
  // A local-only run gets no other destination. `session.settings.destinations` must be resolved.
  absl::StatusOr<model::Stream> Attach(const model::Session& session, storage::Store& store);
  // Attaches a rank of another node, whose daemon sends its rows, to the run of rank 0. A known
  // stream may have ended.
  //   kNotFound            no run of rank 0 takes it yet
  //   kFailedPrecondition  the run has ended
  //   kAlreadyExists       it is a stream of a rank of this daemon
  //   kInvalidArgument     the run's strategy is not `main`
  absl::StatusOr<model::Stream> AttachPeer(const model::Session& session, storage::Store& store);
  // The id of a committed run at the tracker. Empty if it is not known yet or cannot be read.
  std::string RunId(int64_t run) const;

 private:
  static absl::StatusOr<model::JobChoice> Choose(const model::Session& session,
                                                 storage::Store& store);

  const std::unique_ptr<storage::StoreReader> reader_;
  const std::function<absl::Time()> wall_clock_;  // for timestamps in data
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ATTACH_H_
