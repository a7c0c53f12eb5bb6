// Brings what ranks left that are gone into the store, and ends their streams.

#ifndef SERVICE_INGEST_ORPHANS_H_
#define SERVICE_INGEST_ORPHANS_H_

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
#include "service/ingest/ring_file.h"
#include "service/ingest/ring_reader.h"
#include "service/ingest/stream_registry.h"
#include "service/storage/store.h"

namespace ranklog::ingest {

// Who is gone is for the caller to know. Not thread-safe; blocks until what it read is durable.
class Orphans {
 public:
  // A ring of no live stream.
  struct Left {
    std::shared_ptr<const RingFile> file;
    RingReader ring;
  };

  // Both outlive this.
  Orphans(const IngestContext* context, storage::StoreReader* reader)
      : context_(*context), reader_(reader) {}

  // Drains, ends and forgets a stream whose rank is gone, and removes its ring unless its process
  // lives, which may still write there. False: the store is closing, or failed; try again.
  bool EndGone(const LiveStream& live, bool process_lives = false);
  // The same for rings of no live stream: attaches by the Hellos in them before. A ring of which
  // the store has all is only removed. All are attached before the rows of one are taken, so that
  // those who ran side by side are aggregated as such; but the starts of a job come one after the
  // other, and so do the processes of one rank, as they lived. `left_alone` is told of each that
  // cannot be read; `between` is called between any two. What the store would not take now may be
  // given again.
  void Adopt(
      const std::vector<Left>& left,
      const std::function<void(const Left&, const absl::Status&)>& left_alone,
      const std::function<void()>& between = [] {});

 private:
  // When a process called Init(): in a boot by the clock that nobody sets; the boots by the wall
  // clock, this one last.
  struct Birth {
    int64_t boot_us = 0;
    std::string boot_id;
    int64_t at_us = 0;
    auto operator<=>(const Birth&) const = default;
  };
  // One start of a job: its project, given id, launch, restart and requeue.
  using StartKey = std::tuple<std::string, std::string, std::string, uint32_t, uint32_t>;
  struct Found {
    const Left* left;
    model::Session session;
    Birth birth;  // the same for all rings of a process, and of those that it forked
  };
  struct Attached {
    LiveStream live;
    Birth birth;
    StartKey start;
  };

  static void SetBirths(std::vector<Found>* all);
  static StartKey StartOf(const model::Session& session);
  absl::StatusOr<Found> Read(const Left& left) const;
  absl::StatusOr<Attached> Attach(const Found& found);
  // Ends those of `attached` that `predicate` holds for, and takes them out. False: as EndGone().
  bool EndThose(const std::function<bool(const Attached&)>& predicate,
                std::vector<Attached>* attached);
  // How a rank ended, as far as it can be known.
  struct Ending {
    model::StreamState state = model::StreamState::kCrashed;
    int32_t exit_code = 0;
    std::string reason;  // empty: it finished well
  };
  // `how`: a predicate.
  static std::string ReasonOf(const LiveStream& live, absl::string_view how);
  // Of a rank whose ring is lost or damaged: crashed, for rows may be missing.
  static Ending EndingOf(const LiveStream& live);
  // Of one whose ring was read.
  static Ending EndingOf(const LiveStream& live, const RingReader& ring);
  bool End(const LiveStream& live, const Ending& ending);
  // Whether the store has all of the ring, and its stream has ended; or had, until its run was
  // delivered and removed.
  bool Known(const model::StreamKey& key, const RingReader& ring);

  const IngestContext& context_;
  storage::StoreReader* const reader_;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ORPHANS_H_
