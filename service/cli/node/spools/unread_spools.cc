#include "service/cli/node/spools/unread_spools.h"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/spools/spool_files.h"
#include "service/cli/node/sync_pipeline.h"
#include "service/cli/output/terminal.h"
#include "service/deliver/credentials.h"
#include "service/ingest/attach.h"
#include "service/ingest/ingest_context.h"
#include "service/ingest/ingest_credentials.h"
#include "service/ingest/orphans/rank_watch.h"
#include "service/ingest/orphans/ring_scan.h"
#include "service/ingest/ring/convert.h"
#include "service/ingest/ring/ring_file.h"
#include "service/ingest/ring/spool_reader.h"
#include "service/pipeline/aggregate_loop.h"
#include "service/pipeline/store_loop.h"
#include "service/storage/directories/state_lock.h"
#include "service/storage/store.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {
namespace {

constexpr absl::Duration kTake = absl::Seconds(30);  // a full ring is read in a second
constexpr absl::Duration kMakeRows = absl::Seconds(5);
constexpr absl::Duration kTakePoll = absl::Milliseconds(20);
constexpr size_t kNamed = 3;

// The first names, and the number of further names.
std::string NameList(std::vector<std::string> names) {
  const size_t more = names.size() > kNamed ? names.size() - kNamed : 0;
  names.resize(names.size() - more);
  return absl::StrCat(absl::StrJoin(names, ", "),
                      more == 0 ? "" : absl::StrCat(" and ", more, " more"));
}

std::string NamesOf(const std::vector<UnreadSpool>& spools) {
  std::vector<std::string> names;
  for (const UnreadSpool& spool : spools) names.push_back(RankName(spool.key));
  return NameList(std::move(names));
}

std::string TextOfTheDead(const std::vector<UnreadSpool>& dead) {
  const uint64_t rows = UnreadRows(dead);
  return absl::StrCat(rows == 0 ? "the end" : Counted(rows, "row"), " of ", NamesOf(dead),
                      rows > 1 ? " are" : " is", " only in ",
                      dead.size() == 1 ? "a spool" : "spools");
}

std::string TextOfTheLiving(const std::vector<UnreadSpool>& living) {
  const uint64_t rows = UnreadRows(living);
  const bool one = living.size() == 1;
  return absl::StrCat(NamesOf(living), one ? " is still running; " : " are still running; ",
                      Counted(rows, "row"), rows == 1 ? " waits in " : " wait in ",
                      one ? "its spool" : "their spools", " for a daemon");
}

bool AnyLives(const std::vector<UnreadSpool>& left) {
  return std::any_of(left.begin(), left.end(), [](const UnreadSpool& each) { return each.lives; });
}

// Rings that `counts` accepts and whose data the store lacks.
std::vector<UnreadSpool> Scan(
    const std::string& state_dir,
    absl::FunctionRef<bool(const ingest::SpoolReader& ring, const v1::Hello& hello)> counts) {
  std::vector<UnreadSpool> left;
  std::set<std::pair<uint64_t, uint64_t>> seen;  // a directory may have two names
  const auto store = storage::StoreReader::OpenWithoutTrace(state_dir);
  storage::StoreReader* const reader = store.ok() ? store->get() : nullptr;
  for (const std::string& dir : SpoolDirs(state_dir)) {
    for (const std::string& path : ingest::RingsIn(dir)) {
      const auto file = ingest::RingFile::OpenLeft(path);
      if (!file.ok()) continue;
      // Checked first: if the rank dies now, all its rows are counted.
      const bool lives = (*file)->locked();
      const auto ring = ingest::SpoolReader::Open((*file)->fd());
      v1::Hello hello;
      if (!ring.ok() || !hello.ParseFromString(ring->hello()) || !counts(*ring, hello)) continue;
      if (!seen.insert({(*file)->device(), (*file)->inode()}).second) continue;
      const model::StreamKey key = ingest::ToStreamKey(hello.stream());
      const auto stored = StoredThrough(reader, key, ring->rows());
      if (!stored) continue;
      const uint64_t before = std::max(*stored, ring->FirstSeq(/*lives=*/false) - 1);
      const uint64_t rows = ring->rows() - std::min(before, ring->rows());
      if (lives && rows == 0) continue;
      const auto stream = reader != nullptr ? reader->StreamOfRing(key) : absl::NotFoundError("");
      left.push_back({path, key, rows, lives, stream.ok() ? stream->run : 0});
    }
  }
  return left;
}

bool AllRowsAreMade(storage::StoreReader& reader) {
  const auto runs = reader.Runs();
  if (!runs.ok()) return true;
  return std::none_of(runs->begin(), runs->end(), [&](const model::Run& run) {
    if (run.state != model::RunState::kRunning) return false;
    const auto streams = reader.Streams(run.id);
    return streams.ok() && std::all_of(streams->begin(), streams->end(), [](const auto& stream) {
             return stream.state != model::StreamState::kLive;
           });
  });
}

// Whether a daemon of this directory runs, and is not known to hang.
bool DaemonTakesRows(const Globals& globals, const std::string& state_dir) {
  const int64_t pid = storage::StateLock::Holder(state_dir);
  return pid != 0 && (FindDaemon(state_dir, globals.address).has_value() ||
                      TimedOutAddress(pid, globals.address).empty());
}

}  // namespace

absl::optional<uint64_t> StoredThrough(storage::StoreReader* store, const model::StreamKey& key,
                                       uint64_t rows) {
  if (store == nullptr) return 0;
  const absl::StatusOr<uint64_t> removed = store->RemovedThrough(key);
  if (removed.ok() && *removed >= rows) return absl::nullopt;
  const absl::StatusOr<model::Stream> stream = store->StreamOfRing(key);
  if (!stream.ok()) return 0;
  if (stream->state != model::StreamState::kLive && stream->durable_seq >= rows) {
    return absl::nullopt;
  }
  return stream->durable_seq;
}

std::string RankName(const model::StreamKey& key) {
  return Printable(absl::StrCat("rank ", key.rank, " of ", key.project, ":", key.job_id));
}

std::vector<UnreadSpool> FindSpools(const Globals& globals, const std::string& state_dir) {
  const std::string socket_path = SocketPath(globals.address);
  return Scan(state_dir, [&](const ingest::SpoolReader& ring, const v1::Hello& hello) {
    return ingest::IsForDaemonAt(socket_path, ring) && ingest::ToSession(hello).ok();
  });
}

std::vector<UnreadSpool> FindAllSpools(const std::string& state_dir) {
  return Scan(state_dir, [](const auto&, const auto&) { return true; });
}

absl::StatusOr<std::vector<UnreadSpool>> SpoolsOfRun(const std::vector<UnreadSpool>& spools,
                                                     storage::StoreReader& reader,
                                                     const model::Run& run) {
  std::vector<UnreadSpool> of_run;
  if (spools.empty()) return of_run;
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run.id));
  const auto is_of_job = [&](const model::StreamKey& key) {
    return std::any_of(streams.begin(), streams.end(), [&](const model::Stream& stream) {
      return stream.key.project == key.project && stream.key.job_id == key.job_id;
    });
  };
  const bool one_rank = run.settings.strategy == model::LogStrategy::kAll;
  std::copy_if(spools.begin(), spools.end(), std::back_inserter(of_run),
               [&](const UnreadSpool& spool) {
                 if (spool.run != 0) return spool.run == run.id;
                 if (one_rank && spool.key.rank != run.primary_rank) return false;
                 return is_of_job(spool.key);
               });
  return of_run;
}

std::vector<UnreadSpool> FindSpoolsOfDeadRanks(const Globals& globals,
                                               const std::string& state_dir) {
  std::vector<UnreadSpool> left = FindSpools(globals, state_dir);
  std::erase_if(left, [](const UnreadSpool& each) { return each.lives; });
  return left;
}

std::vector<UnreadSpool> FindUnreadSpools(const Globals& globals, const std::string& state_dir) {
  std::vector<UnreadSpool> left = FindSpools(globals, state_dir);
  if (left.empty()) return left;
  if (storage::StateLock::Holder(state_dir) != 0 || AnotherDaemonReadsSpools(globals, state_dir)) {
    left.clear();
  }
  return left;
}

absl::Status CountRowsInSpools(const Globals& globals, const std::string& state_dir,
                               std::vector<UnreadSpool> spools, storage::StoreReader& reader,
                               absl::Span<query::RunReport> reports) {
  if (AnyLives(spools) && DaemonTakesRows(globals, state_dir)) {
    std::erase_if(spools, [](const UnreadSpool& spool) { return spool.lives; });
  }
  for (query::RunReport& report : reports) {
    ASSIGN_OR_RETURN(const auto of_run, SpoolsOfRun(spools, reader, report.run));
    report.in_spools = UnreadRows(of_run);
  }
  return absl::OkStatus();
}

bool AnotherDaemonReadsSpools(const Globals& globals, const std::string& state_dir) {
  const std::vector<std::string> addresses = AddressesOfRanks(globals.address);
  return !FindDaemon(state_dir, globals.address) &&
         std::any_of(addresses.begin(), addresses.end(), [](const std::string& address) {
           return AskDaemon(address).ok() || TimedOut(address);
         });
}

uint64_t UnreadRows(const std::vector<UnreadSpool>& left) {
  uint64_t rows = 0;
  for (const UnreadSpool& spool : left) rows += spool.rows;
  return rows;
}

std::string UnreadSpoolsText(const std::vector<UnreadSpool>& left) {
  std::vector<UnreadSpool> living, dead;
  std::partition_copy(left.begin(), left.end(), std::back_inserter(living),
                      std::back_inserter(dead), [](const UnreadSpool& each) { return each.lives; });
  std::vector<std::string> texts;
  if (!dead.empty()) texts.push_back(TextOfTheDead(dead));
  if (!living.empty()) texts.push_back(TextOfTheLiving(living));
  return absl::StrJoin(texts, "; ");
}

std::string UnreadSpoolsAdvice(const Globals& globals, const std::string& state_dir,
                               const std::vector<UnreadSpool>& left) {
  if (!AnyLives(left)) {
    return "no daemon is running; run `" + globals.Command("sync") + "` to store and deliver them";
  }
  return absl::StrCat("no daemon is running; start one: ranklogd --background --state-dir ",
                      state_dir, globals.address.empty() ? "" : " --listen " + globals.address);
}

std::string UnaggregatedRowsText(const std::string& state_dir,
                                 const absl::optional<std::set<int64_t>>& only) {
  if (storage::StateLock::Holder(state_dir) != 0) return "";
  const auto reader = storage::StoreReader::Open(state_dir);
  if (!reader.ok()) return "";
  const auto runs = (*reader)->Runs();
  if (!runs.ok()) return "";
  uint64_t rows = 0;
  std::vector<std::string> names;
  for (const model::Run& run : *runs) {
    if (run.state != model::RunState::kRunning || (only && only->count(run.id) == 0)) continue;
    const auto streams = (*reader)->Streams(run.id);
    if (!streams.ok()) continue;
    const uint64_t before = rows;
    for (const model::Stream& stream : *streams) rows += stream.durable_seq - stream.aggregated_seq;
    if (rows > before) names.push_back(Printable(run.run_id));
  }
  if (rows == 0) return "";
  return absl::StrCat(Counted(rows, "row"), " of ", NameList(names), rows == 1 ? " is" : " are",
                      " stored, but not in ", names.size() == 1 ? "its run" : "their runs", " yet");
}

void WarnOfUnreadRows(const Globals& globals) {
  const absl::StatusOr<std::string> state_dir = globals.StateDir();
  if (!state_dir.ok()) return;
  globals.WarnOfOtherDaemon(*state_dir);
  if (const auto left = FindUnreadSpools(globals, *state_dir); !left.empty()) {
    std::cerr << UnreadSpoolsText(left) << ": " << UnreadSpoolsAdvice(globals, *state_dir, left)
              << "\n";
  }
  if (const std::string unaggregated = UnaggregatedRowsText(*state_dir); !unaggregated.empty()) {
    std::cerr << unaggregated << ": " << HowToAggregate(globals) << "\n";
  }
}

absl::Status DrainUnreadSpools(const Globals& globals, const std::string& state_dir) {
  LogToStderr();
  ASSIGN_OR_RETURN(std::unique_ptr<storage::Store> opened, storage::Store::Open(state_dir, {}));
  pipeline::StoreLoop store(std::move(opened), {});
  ASSIGN_OR_RETURN(std::unique_ptr<storage::StoreReader> reader,
                   storage::StoreReader::Open(state_dir));
  pipeline::AggregateLoop aggregate(&store, std::move(reader), SteadyNow, [](int64_t) {}, {});
  ASSIGN_OR_RETURN(reader, storage::StoreReader::Open(state_dir));
  ingest::Attacher attacher(std::move(reader));
  deliver::CredentialStore keys(deliver::CredentialStore::Options::FromEnvironment(state_dir));
  ingest::WakeEvent wake;
  ingest::StreamRegistry registry([&wake] { wake.Notify(); });
  ingest::PeerTable peers;
  ingest::IngestCounters counters;
  // Its quota is for ranks, which this command does not serve.
  const auto content = ingest::ContentDir::Open(state_dir, /*quota=*/0, absl::Now());
  const ingest::IngestContext context{
      .store = &store,
      .attacher = &attacher,
      .registry = &registry,
      .peers = &peers,
      .counters = &counters,
      .credentials = ingest::IngestCredentials(&keys),
      .run_attached = [](int64_t) {},
      .run_changed = [&aggregate](int64_t run) { aggregate.Notify(run); },
      .when_caught_up = [](auto then) { then(); },
      .content = content.ok() ? content->get() : nullptr};
  ingest::RankWatch::Options options;
  options.spool_dirs = SpoolDirs(state_dir);
  options.socket_path = SocketPath(globals.address);
  options.head_start = kTake;
  ASSIGN_OR_RETURN(reader, storage::StoreReader::Open(state_dir));
  ingest::RankWatch watch(&context, std::move(reader), &wake, options);
  aggregate.Start();
  const absl::Status started = watch.Start();
  store.StopRetrying();  // otherwise a full disk would block this command
  watch.Stop();
  ASSIGN_OR_RETURN(reader, storage::StoreReader::Open(state_dir));
  const absl::Time deadline = SteadyNow() + kMakeRows;
  while (started.ok() && !AllRowsAreMade(*reader) && SteadyNow() < deadline)
    absl::SleepFor(kTakePoll);
  aggregate.Stop();
  store.Stop();
  return started;
}

}  // namespace ranklog::cli
