// Stores the rows that dead ranks left in their rings, and ends their streams.

#ifndef SERVICE_INGEST_ORPHANS_ORPHANS_H_
#define SERVICE_INGEST_ORPHANS_ORPHANS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/ingest_context.h"
#include "service/ingest/ring/ring_file.h"
#include "service/ingest/ring/spool_reader.h"
#include "service/ingest/stream_registry.h"
#include "service/storage/store_reader.h"

namespace ranklog::ingest {

// The caller decides which ranks are dead. Not thread-safe. Blocks until the rows are durable.
class Orphans {
 public:
  // A ring without a stream.
  struct OrphanRing {
    std::shared_ptr<const RingFile> file;
    SpoolReader ring;
  };

  // Both must outlive this object.
  Orphans(const IngestContext* context, storage::StoreReader* reader)
      : context_(*context), reader_(reader) {}

  // Drains, ends and forgets the stream of a dead rank, and removes its ring. The ring stays if the
  // process is alive, because the process may still write to it. False: the store is closing or
  // failed; try again.
  bool EndDead(const LiveStream& live, bool process_lives = false);
  // Stores how many rows Log() refused after Finish() in the ranks whose rings are released.
  void CountLossesAfterFinish();
  // Does the same as EndDead() for rings without a live stream, after attaching them by the Hello
  // in each ring. A ring whose contents are all in the store is only removed.
  //
  // Order: all rings are attached before any of their rows are stored, so that ranks that ran at
  // the same time are aggregated together. But the starts of one job, and the processes of one
  // rank, are stored one after the other, in the order in which they ran.
  //
  // `on_unreadable` receives each ring that cannot be read. `between` is called between any two
  // rings. False: the store cannot take some rings now; pass all of them again later.
  bool Adopt(
      const std::vector<OrphanRing>& left,
      const std::function<void(const OrphanRing&, const absl::Status&)>& on_unreadable,
      const std::function<void()>& between = [] {});
  // A ring without a stream whose process is alive. Without a descriptor, because there may be many.
  struct LivingRing {
    std::string path;
    std::string process;  // Launch::process, which forked children inherit
    int64_t pid = 0;
  };
  static LivingRing Describe(const OrphanRing& living);
  // Attaches those of `living` whose process and its forked children have several rings in `living`
  // and `left`. Call it before Adopt(left): a step of the run must not be closed by one of these
  // processes before the others have connected. `waiting`: some wait until a ring in `left` of an
  // earlier process of their rank is adopted, whose rows would be late otherwise.
  struct Forked {
    std::vector<model::StreamKey> attached;
    bool waiting = false;
  };
  Forked AttachForked(const std::vector<OrphanRing>& left, const std::vector<LivingRing>& living);

 private:
  // When a process called Init(). Within a boot by the monotonic boot clock, which nobody can set.
  // Boots are ordered by the wall clock, with the current boot last.
  struct Birth {
    int64_t boot_us = 0;
    std::string boot_id;
    int64_t at_us = 0;
    auto operator<=>(const Birth&) const = default;
  };
  // One start of a job: its project, given id, launch, restart and requeue.
  using StartKey = std::tuple<std::string, std::string, std::string, uint32_t, uint32_t>;
  struct Found {
    const OrphanRing* left;
    model::Session session;
    Birth birth;  // the same for all rings of a process and of its forked children
  };
  struct Attached {
    LiveStream live;
    Birth birth;
    StartKey start;
  };

  static void SetBirths(std::vector<Found>* all);
  static StartKey StartOf(const model::Session& session);
  static absl::StatusOr<Found> Read(const OrphanRing& left);
  // `lives`: its process does, and connects later.
  absl::StatusOr<Attached> Attach(const Found& found, bool lives);
  // Ends the streams of `attached` that match `predicate`, and removes them from `attached`. False:
  // see EndDead().
  bool EndMatching(const std::function<bool(const Attached&)>& predicate,
                   std::vector<Attached>* attached);
  // How a rank ended, as far as that is known.
  struct Ending {
    model::StreamState state = model::StreamState::kCrashed;
    int32_t exit_code = 0;
    std::string reason;  // empty: it finished well
  };
  // `how` is a predicate, such as "exited with code 3".
  static std::string ReasonOf(const LiveStream& live, absl::string_view how);
  // For a rank whose ring is lost or damaged: crashed, because rows may be missing.
  static Ending EndingOf(const LiveStream& live);
  // For a rank whose ring was read.
  static Ending EndingOf(const LiveStream& live, const SpoolReader& ring);
  bool End(const LiveStream& live, const Ending& ending);
  // Whether the store has all rows of the ring and its stream has ended, or had ended before its
  // run was delivered and removed.
  bool Known(const model::StreamKey& key, const SpoolReader& ring);

  const IngestContext& context_;
  storage::StoreReader* const reader_;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ORPHANS_ORPHANS_H_
