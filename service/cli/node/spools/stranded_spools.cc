#include "service/cli/node/spools/stranded_spools.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "ranklog/v1/places.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/base/clock.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/spools/spool_files.h"
#include "service/ingest/orphans/ring_scan.h"
#include "service/ingest/ring/convert.h"
#include "service/ingest/ring/ring_file.h"
#include "service/ingest/ring/spool_reader.h"
#include "service/storage/directories/state_lock.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {
namespace {

// A rank sends its rows ten times a second by default, and the daemon commits as often.
constexpr absl::Duration kTaken = absl::Seconds(2);
constexpr absl::Duration kTakenPoll = absl::Milliseconds(20);

// Whether a daemon listens at the address that a rank was given.
bool DaemonListensAt(const std::string& address) {
  const std::vector<std::string> places =
      address == v1::kDefaultAddress ? StandardAddresses() : std::vector<std::string>{address};
  return std::any_of(places.begin(), places.end(), [](const std::string& place) {
    return AskDaemon(place).ok() || TimedOut(place);
  });
}

StrandedSpool Unreadable(const std::string& path, const std::string& what,
                         const absl::Status& why) {
  return {{.path = path, .key = {}},
          absl::StrCat(what, " cannot be stored: ", Printable(std::string(why.message()))),
          absl::IsFailedPrecondition(why)
              ? ""
              : "no daemon takes this file; remove it when you no longer need its rows"};
}

// Whether a daemon takes the rows of a living rank, though none listens at the rank's address: a
// container may have another path to the socket. After a wait in vain, `patience` is 0, so that a
// command waits once, not once for each rank.
bool RowsAreTaken(storage::StoreReader* store, const model::StreamKey& key, uint64_t stored,
                  absl::Duration* patience) {
  if (store == nullptr || !store->StreamOfRing(key).ok()) return false;
  const absl::Time deadline = SteadyNow() + *patience;
  while (true) {
    const absl::StatusOr<model::Stream> stream = store->StreamOfRing(key);
    if (!stream.ok() || stream->durable_seq > stored) return true;
    if (SteadyNow() >= deadline) break;
    absl::SleepFor(kTakenPoll);
  }
  *patience = absl::ZeroDuration();
  return false;
}

// nullopt: it has no rows, or a daemon at `socket_path` or at its own address takes it.
absl::optional<StrandedSpool> ExamineStranded(const ingest::RingFile& file,
                                              const std::string& socket_path,
                                              storage::StoreReader* store, const Globals& globals,
                                              const std::string& state_dir, bool daemon_runs,
                                              absl::Duration* patience) {
  const bool lives = file.locked();
  const auto ring = ingest::SpoolReader::Open(file.fd());
  if (!ring.ok()) {
    // While its rank lives, the header changes as it is read.
    if (lives || absl::IsUnavailable(ring.status())) return absl::nullopt;
    return Unreadable(file.path(), "the rows of a spool", ring.status());
  }
  if (ring->rows() == 0) return absl::nullopt;
  const std::string rows = Counted(ring->rows(), "row");
  v1::Hello hello;
  if (!hello.ParseFromString(ring->hello())) {
    if (lives) return absl::nullopt;
    return Unreadable(file.path(), absl::StrCat(rows, " of a spool"),
                      absl::DataLossError("its Hello is unreadable"));
  }
  const bool ours = ingest::IsForDaemonAt(socket_path, *ring);
  if (!ours && DaemonListensAt(hello.ring().address())) return absl::nullopt;
  const model::StreamKey key = ingest::ToStreamKey(hello.stream());
  const std::string whose = RankName(key);
  absl::Status readable = ingest::ToSession(hello).status();
  if (readable.ok() && key.incarnation != ring->incarnation()) {
    readable = absl::DataLossError("its Hello is of another ring");
  }
  if (!readable.ok()) {
    if (lives && !ours) return absl::nullopt;
    return Unreadable(file.path(), absl::StrCat(rows, " of ", whose), readable);
  }
  if (ours) return absl::nullopt;
  const auto stored = StoredThrough(store, key, ring->rows());
  if (!stored) return absl::nullopt;
  const uint64_t left = ring->rows() - std::min(*stored, ring->rows());
  if (lives && (left == 0 || RowsAreTaken(store, key, *stored, patience))) return absl::nullopt;
  const bool standard = hello.ring().address() == v1::kDefaultAddress;
  const std::string address = Printable(hello.ring().address());
  std::string text = absl::StrCat(left == 0 ? "the end" : Counted(left, "row"), " of ", whose,
                                  " can only go to a daemon at ",
                                  standard ? "the default address" : address, ", where none runs");
  if (lives) absl::StrAppend(&text, "; the rank is still running");
  if (const uint64_t refused = ring->losses().total(); lives && refused > 0) {
    absl::StrAppend(&text, ", and has refused ", Counted(refused, "row"));
  }
  const std::string stop = daemon_runs ? globals.Command("stop") + "; " : "";
  const std::string as_rank =
      standard ? "env -u RANKLOG_ADDRESS " : "RANKLOG_ADDRESS=" + address + " ";
  const auto stream = store != nullptr ? store->StreamOfRing(key) : absl::NotFoundError("");
  return StrandedSpool{{file.path(), key, left, lives, stream.ok() ? stream->run : 0},
                       std::move(text),
                       absl::StrCat("run: ", stop, as_rank,
                                    lives ? "ranklogd --background --state-dir " + state_dir
                                          : globals.Command("sync")),
                       /*elsewhere=*/true};
}

}  // namespace

std::vector<StrandedSpool> FindStrandedSpools(const Globals& globals,
                                              const std::string& state_dir) {
  std::vector<StrandedSpool> stranded;
  std::set<std::pair<uint64_t, uint64_t>> seen;  // a directory may have two names
  absl::Duration patience = kTaken;
  const auto store = storage::StoreReader::Open(state_dir);
  const std::string socket_path = SocketPath(globals.address);
  const bool daemon_runs = storage::StateLock::Holder(state_dir) != 0;
  const bool chosen = !globals.state_dir.empty() || !globals.address.empty();
  const Globals same_store{.state_dir = chosen ? state_dir : "", .address = ""};
  for (const std::string& dir : SpoolDirs(state_dir)) {
    for (const std::string& path : ingest::RingsIn(dir)) {
      const auto file = ingest::RingFile::OpenLeft(path);
      if (!file.ok() || !seen.insert({(*file)->device(), (*file)->inode()}).second) continue;
      auto found = ExamineStranded(**file, socket_path, store.ok() ? store->get() : nullptr,
                                   same_store, state_dir, daemon_runs, &patience);
      if (found) stranded.push_back(*std::move(found));
    }
  }
  return stranded;
}

}  // namespace ranklog::cli
