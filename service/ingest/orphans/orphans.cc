#include "service/ingest/orphans/orphans.h"

#include <spdlog/spdlog.h>
#include <sys/wait.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/base/status_macros.h"
#include "service/base/this_boot.h"
#include "service/ingest/orphans/drain.h"
#include "service/ingest/orphans/ring_attach.h"
#include "service/ingest/ring/convert.h"

namespace ranklog::ingest {
std::string Orphans::ReasonOf(const LiveStream& live, absl::string_view how) {
  return absl::StrCat("rank ", live.key.rank, " (pid ", live.pid, ") ", how, " without Finish()");
}

Orphans::Ending Orphans::EndingOf(const LiveStream& live) {
  if (live.peer == nullptr) {
    return {.reason =
                ReasonOf(live, "ended") + "; exit status unknown: no daemon saw its process end"};
  }
  if (const auto status = live.peer->wait_status()) {
    return {.reason = ReasonOf(live, live.peer->Describe(*status))};
  }
  if (!live.peer->pidfd.valid()) {
    return {.reason = ReasonOf(live, "ended") +
                      "; exit status unknown: the daemon cannot see its process"};
  }
  if (!live.peer->exited()) {
    return {.reason = ReasonOf(live, "released its spool") + ", for example by exec()"};
  }
  return {.reason = ReasonOf(live, "ended") + "; exit status unknown: its parent reaped it first"};
}

Orphans::Ending Orphans::EndingOf(const LiveStream& live, const SpoolReader& ring) {
  if (ring.finished() && !ring.destroyed()) {
    return {.state = model::StreamState::kFinished, .exit_code = ring.exit_code(), .reason = ""};
  }
  Ending ending = EndingOf(live);
  const auto status = live.peer != nullptr ? live.peer->wait_status() : absl::nullopt;
  if (status.has_value() ? !WIFEXITED(*status) : !ring.destroyed()) return ending;
  ending.state = model::StreamState::kFinished;
  ending.exit_code = status.has_value() ? WEXITSTATUS(*status) : 0;
  // An exception may have been caught.
  if (ending.exit_code == 0) ending.exit_code = ring.exit_code();
  if (ending.exit_code == 0) {
    ending.reason.clear();
  } else if (!status.has_value()) {
    ending.reason = ReasonOf(live, absl::StrCat("exited with code ", ending.exit_code));
  }
  return ending;
}

bool Orphans::EndDead(const LiveStream& live, bool process_lives) {
  if (live.ring == nullptr) {
    Ending ending = EndingOf(live);
    absl::StrAppend(&ending.reason, model::kSpoolUnread);
    return End(live, ending);
  }
  absl::StatusOr<SpoolReader> ring = SpoolReader::Open(live.ring->fd());
  if (ring.ok() && ring->incarnation() != live.key.incarnation) {
    ring = absl::DataLossError("it is another rank's spool");
  }
  if (!ring.ok()) {
    const bool other_version = absl::IsFailedPrecondition(ring.status());
    if (!other_version) ++context_.counters->damaged_rings;
    Ending ending = EndingOf(live);
    absl::StrAppend(&ending.reason, model::kSpoolUnread, ": ",
                    std::string(ring.status().message()));
    if (!End(live, ending)) return false;
    if (!other_version) live.ring->SetAside();  // a daemon of the other version reads it
    return true;
  }
  const Ending well = EndingOf(live, *ring);
  absl::StatusOr<Drained> drained = DrainRing(*ring, live.id, *context_.store, context_.content);
  if (absl::IsNotFound(drained.status())) return End(live, well);
  if (!drained.ok()) return false;
  ++context_.counters->orphans;
  context_.counters->orphan_rows += drained->rows;
  if (drained->damage.ok()) {
    if (!End(live, well)) return false;
    if (!process_lives) live.ring->Unlink();
    return true;
  }
  ++context_.counters->damaged_rings;
  if (absl::IsResourceExhausted(drained->damage)) ++context_.counters->refused_shapes;
  // An end that the rank reported itself remains valid.
  Ending damaged = ring->finished() ? well : EndingOf(live);
  if (damaged.reason.empty()) damaged.reason = absl::StrCat("rank ", live.key.rank, " finished");
  absl::StrAppend(&damaged.reason, model::kSpoolUnread,
                  " to its end: ", std::string(drained->damage.message()));
  if (!End(live, damaged)) return false;
  live.ring->SetAside();
  return true;
}

void Orphans::CountLossesAfterFinish() {
  for (FinishedStream& finished : context_.registry->TakeReleased()) {
    const absl::StatusOr<SpoolReader> ring = SpoolReader::Open(finished.ring->fd());
    if (!ring.ok() || ring->losses() == finished.losses) continue;
    const absl::Status stored = context_.store->SubmitAndWait(
        [&](storage::Store& store) { return store.SetLosses(finished.id, ring->losses()); });
    // Not found: the run was delivered and removed.
    if (!stored.ok() && !absl::IsNotFound(stored)) {
      spdlog::error("cannot store the losses after a Finish(): {}", stored.ToString());
      context_.registry->PutBack(std::move(finished));
    }
  }
}

bool Orphans::End(const LiveStream& live, const Ending& ending) {
  const absl::Status ended = context_.store->SubmitAndWait([&](storage::Store& store) {
    return store.EndStream(live.id, ending.state, ending.exit_code, ending.reason,
                           absl::ToUnixMicros(context_.wall_clock()));
  });
  // The run was delivered and removed. Adopt() handles what the ring still holds.
  if (absl::IsNotFound(ended)) {
    context_.registry->Remove(live.key);
    return true;
  }
  if (!ended.ok()) {
    spdlog::error("cannot end the stream of rank {} of {}: {}", live.key.rank, live.key.job_id,
                  ended.ToString());
    return false;
  }
  context_.registry->Remove(live.key);
  context_.run_changed(live.run);
  if (ending.reason.empty()) {
    spdlog::info("rank {} of {} finished with exit code {}; the rest came from its spool",
                 live.key.rank, live.key.job_id, ending.exit_code);
  } else {
    spdlog::warn("{} of {}", ending.reason, live.key.job_id);
  }
  return true;
}

void Orphans::SetBirths(std::vector<Found>* all) {
  std::map<std::string, int64_t> boots;  // first Init() of each boot, by the wall clock
  for (const Found& found : *all) {
    const int64_t init_us = found.session.settings.start_time_us;
    int64_t& first = boots.try_emplace(found.session.identity.boot_id, init_us).first->second;
    first = std::min(first, init_us);
  }
  if (!ThisBoot().empty()) boots[ThisBoot()] = std::numeric_limits<int64_t>::max();
  for (Found& found : *all) {
    const model::Identity& identity = found.session.identity;
    const bool unknown = identity.boot_id.empty();
    found.birth = {boots[identity.boot_id], identity.boot_id,
                   unknown ? found.session.settings.start_time_us : identity.began_us};
  }
}

Orphans::StartKey Orphans::StartOf(const model::Session& session) {
  const model::Launch& launch = session.launch;
  return {session.stream.project, launch.given_id, launch.id, launch.restart, launch.requeue};
}

absl::StatusOr<Orphans::Found> Orphans::Read(const OrphanRing& left) {
  ASSIGN_OR_RETURN(model::Session session, SessionOf(left.ring));
  return Found{&left, std::move(session), Birth()};
}

absl::StatusOr<Orphans::Attached> Orphans::Attach(const Found& found, bool lives) {
  model::Session session = found.session;
  session.left = !lives;
  ASSIGN_OR_RETURN(const model::Stream stream,
                   AttachRing(context_, std::move(session), found.left->ring, found.left->file));
  return Attached{{.key = stream.key,
                   .id = stream.id,
                   .run = stream.run,
                   .pid = stream.identity.pid,
                   .ring = found.left->file,
                   .peer = nullptr},
                  found.birth,
                  StartOf(found.session)};
}

bool Orphans::EndMatching(const std::function<bool(const Attached&)>& predicate,
                          std::vector<Attached>* attached) {
  const auto those =
      std::stable_partition(attached->begin(), attached->end(), std::not_fn(predicate));
  const bool ended = std::all_of(those, attached->end(),
                                 [this](const Attached& each) { return EndDead(each.live); });
  attached->erase(those, attached->end());
  return ended;
}

bool Orphans::Adopt(
    const std::vector<OrphanRing>& left,
    const std::function<void(const OrphanRing&, const absl::Status&)>& on_unreadable,
    const std::function<void()>& between) {
  std::vector<Found> all;
  for (const OrphanRing& each : left) {
    absl::StatusOr<Found> found = Read(each);
    if (!found.ok()) {
      on_unreadable(each, found.status());
    } else if (Known(found->session.stream, each.ring)) {
      each.file->Unlink();
    } else {
      all.push_back(*std::move(found));
    }
  }
  SetBirths(&all);
  // A thread of a rank that takes another ring takes one with a larger number. Its items there are
  // later.
  std::stable_sort(all.begin(), all.end(), [](const Found& a, const Found& b) {
    if (a.birth != b.birth) return a.birth < b.birth;
    return a.session.identity.thread < b.session.identity.thread;
  });
  std::map<StartKey, std::set<uint32_t>> ranks;
  for (const Found& found : all) {
    ranks[StartOf(found.session)].insert(found.session.stream.rank);
  }
  bool all_taken = true;
  std::vector<Attached> attached;
  for (const Found& next : all) {
    between();
    const StartKey start = StartOf(next.session);
    // Two starts that share a rank number ran one after the other. Otherwise they are parts of one
    // start.
    const auto came_before = [&](const Attached& other) {
      if (other.birth == next.birth) return false;
      if (IsSameRank(other.live.key, next.session.stream)) return true;
      const bool same_id = other.live.key.project == next.session.stream.project &&
                           other.live.key.job_id == next.session.stream.job_id;
      if (!same_id || other.start == start) return false;
      const std::set<uint32_t>& others = ranks[other.start];
      const std::set<uint32_t>& own = ranks[start];
      return std::any_of(own.begin(), own.end(),
                         [&](uint32_t rank) { return others.count(rank) != 0; });
    };
    if (!EndMatching(came_before, &attached)) return false;
    if (context_.registry->MustWaitForPredecessor(next.session.stream,
                                                  next.session.launch.process)) {
      all_taken = false;
      continue;
    }
    absl::StatusOr<Attached> now = Attach(next, /*lives=*/false);
    if (now.ok()) {
      attached.push_back(*std::move(now));
      continue;
    }
    // These two are errors of the store, which may succeed the next time.
    if (absl::IsUnavailable(now.status()) || absl::IsInternal(now.status())) return false;
    on_unreadable(*next.left, now.status());
  }
  for (const Attached& each : attached) {
    between();
    if (!EndDead(each.live)) return false;
  }
  return all_taken;
}

Orphans::LivingRing Orphans::Describe(const OrphanRing& living) {
  const absl::StatusOr<Found> found = Read(living);
  if (!found.ok()) return {};
  return {living.file->path(), found->session.launch.process, found->session.identity.pid};
}

Orphans::Forked Orphans::AttachForked(const std::vector<OrphanRing>& left,
                                      const std::vector<LivingRing>& living) {
  std::map<std::string, std::set<int64_t>> pids;  // by process
  for (const LivingRing& ring : living) pids[ring.process].insert(ring.pid);
  std::vector<Found> dead;
  for (const OrphanRing& ring : left) {
    absl::StatusOr<Found> found = Read(ring);
    if (!found.ok()) continue;
    pids[found->session.launch.process].insert(found->session.identity.pid);
    dead.push_back(*std::move(found));
  }
  Forked forked;
  for (const LivingRing& ring : living) {
    if (ring.process.empty() || pids[ring.process].size() < 2) continue;
    auto file = RingFile::OpenLeft(ring.path);
    if (!file.ok()) continue;
    auto reader = SpoolReader::Open((*file)->fd());
    if (!reader.ok()) continue;
    const OrphanRing opened = {*std::move(file), *std::move(reader)};
    const absl::StatusOr<Found> found = Read(opened);
    if (!found.ok() || found->session.launch.process != ring.process) continue;
    const model::StreamKey& key = found->session.stream;
    if (context_.registry->FindIncarnation(key.incarnation)) continue;
    if (context_.registry->MustWaitForPredecessor(key, ring.process)) continue;
    if (std::any_of(dead.begin(), dead.end(), [&](const Found& other) {
          return IsSameRank(other.session.stream, key) &&
                 other.session.launch.process != ring.process &&
                 !Known(other.session.stream, other.left->ring);
        })) {
      forked.waiting = true;
      continue;
    }
    const absl::StatusOr<Attached> now = Attach(*found, /*lives=*/true);
    if (now.ok()) forked.attached.push_back(now->live.key);
  }
  return forked;
}

bool Orphans::Known(const model::StreamKey& key, const SpoolReader& ring) {
  const absl::StatusOr<uint64_t> removed = reader_->RemovedThrough(key);
  if (removed.ok() && *removed >= ring.rows()) return true;
  const absl::StatusOr<model::Stream> stream = reader_->StreamOfRing(key);
  return stream.ok() && stream->state != model::StreamState::kLive &&
         stream->durable_seq >= ring.rows();
}

}  // namespace ranklog::ingest
