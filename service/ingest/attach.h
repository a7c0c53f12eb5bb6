// What an attach means for the store: the run that the session belongs to, and where the run goes.

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

namespace ranklog::ingest {

// Credentials, as ingest sees them: by the variables that a rank sends, for its job and the server
// of its settings.
struct Credentials {
  std::function<void(const model::Session&, const std::map<std::string, std::string>&)> remember;
  std::function<bool(const model::Session&)> has_wandb;
};

// Replaces empty destinations by what the rank would mean: wandb if there is a key for it, else
// local.
void ResolveDestinations(const Credentials& credentials, model::Session* session);

// Attaches sessions in the store. Used on the store loop's thread only.
class Attacher {
 public:
  // `reader` reads what the store loop writes.
  explicit Attacher(std::unique_ptr<storage::StoreReader> reader,
                    std::function<absl::Time()> wall_clock = absl::Now)
      : reader_(std::move(reader)), wall_clock_(std::move(wall_clock)) {}

  // Finds out which start of its job the session belongs to (aggregate/start.h), finds or makes its
  // stream and run, and a delivery for each destination that the run
  // does not have yet; a local-only run is delivered to nobody else.
  // `session.settings.destinations` are resolved.
  absl::StatusOr<model::Stream> Attach(const model::Session& session, storage::Store& store);
  // The id of a committed run, as the tracker knows it; empty if it is not known yet, or cannot be
  // read.
  std::string RunId(int64_t run) const;

 private:
  static absl::StatusOr<model::JobChoice> Choose(const model::Session& session,
                                                 storage::Store& store);

  const std::unique_ptr<storage::StoreReader> reader_;
  const std::function<absl::Time()> wall_clock_;  // stamps data
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ATTACH_H_
