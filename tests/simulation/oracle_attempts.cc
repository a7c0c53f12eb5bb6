// The part of Oracle that judges a run whose primary rank restarted: its replays, the rows that
// local readers show, and steps that continue.

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/simulation/oracle.h"

namespace ranklog::simulation {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

int64_t StepOf(const std::map<std::string, std::string>& line) {
  const auto step = line.find("_step");
  return step == line.end() ? -1 : std::stoll(step->second);
}

}  // namespace

void Oracle::ReadReplays(storage::StoreReader& reader, const model::Run& run) {
  replays_.clear();
  const auto rewinds = reader.Rewinds(run.id);
  if (!rewinds.ok()) return Wrong(rewinds.status().ToString());
  rewinds_ = *rewinds;
  const auto shapes = reader.RunShapes(run.id);
  while (replays_.size() < run.replays) {
    const auto batches = reader.ReplayBatches(run.id, replays_.size(), 1 << 20);
    if (!batches.ok() || batches->empty()) return Wrong(run.run_id, ": replays are missing");
    for (const storage::StoredBatch& stored : *batches) {
      replays_.resize(stored.batch.last + 1);
      model::ForEachRow(stored.batch, [&](const model::Block& block, size_t row, uint64_t at) {
        MakeLine(block, row, *shapes, &replays_[at]);
      });
    }
  }
  replayed_ = RowsIn(replays_);
}

// Whether the daemon had seen the end of all earlier processes of the rank before this one began.
bool Oracle::BeganAfterEnds(uint32_t rank, uint64_t process) const {
  return std::all_of(rings_.begin(), rings_.end(), [&](const auto& ring) {
    return ring->rank != rank || ring->process >= process || ring->ended_before_next;
  });
}

// Whether the store has all earlier processes of the rank, and had ended each before it began this
// one's stream. It compares the order of their stamps, which no clock affects.
bool Oracle::AttachedAfterEnds(const model::Stream& stream,
                               const std::vector<model::Stream>& streams) const {
  const RingRecord* const ring = RingOf(stream);
  return std::all_of(rings_.begin(), rings_.end(), [&](const auto& former) {
    if (former->rank != ring->rank || former->process >= ring->process) return true;
    return std::any_of(streams.begin(), streams.end(), [&](const model::Stream& other) {
      return other.key.incarnation == former->incarnation && other.id < stream.id &&
             other.ended_us <= stream.started_us;
    });
  });
}

int64_t Oracle::StepInRun(const RingRecord& ring, const LoggedRow& row) const {
  const auto of_other = other_bases_.find(ring.incarnation);
  if (of_other != other_bases_.end()) return row.step + of_other->second;
  const auto base = step_bases_.find({ring.rank, ring.process});
  return row.step + (base == step_bases_.end() ? 0 : base->second);
}

void Oracle::JudgeAttempts(const model::Run& run, const std::vector<model::Stream>& streams) {
  step_bases_.clear();
  other_bases_.clear();
  // A rank may attach only after the primary rank has begun again. Then its rows without a step count
  // from there.
  for (const model::Stream& stream : streams) {
    const RingRecord* const ring = RingOf(stream);
    const bool is_first = ring != nullptr && !ring->counts && !stream.primary;
    if (is_first || !stream.peer.empty()) other_bases_[stream.key.incarnation] = stream.step_base;
  }
  std::vector<const RingRecord*> primary;
  bool any_overtaken = false;
  uint64_t replayed = 0;
  uint64_t rows = 0;
  std::map<uint32_t, int64_t> base_of_attempt;
  for (const model::Stream& stream : streams) {
    const RingRecord* const ring = RingOf(stream);
    if (ring == nullptr || !stream.primary) continue;
    primary.push_back(ring);
    replayed += stream.replayed_rows;
    rows += stream.durable_seq - stream.late_rows - static_cast<uint64_t>(stream.merged_rows);
    // The daemon found this ring after a later process of the rank.
    const bool overtaken = std::any_of(streams.begin(), streams.end(), [&](const auto& other) {
      const RingRecord* const later = RingOf(other);
      return later != nullptr && other.id < stream.id && later->rank == ring->rank &&
             later->process > ring->process;
    });
    any_overtaken |= overtaken;
    if (overtaken && !disk_fails && !moves) {
      Wrong(run.run_id, ": process ", ring->process, " of rank ", ring->rank,
            " was found behind a later one");
    }
    // The process has one ring, and its rows come in order after all earlier ones. So none of them
    // may be late.
    if (ring->rings == 1 && stream.late_rows > 0 && !moves && !overtaken &&
        (BeganAfterEnds(ring->rank, ring->process) || AttachedAfterEnds(stream, streams))) {
      Wrong(run.run_id, ": ", stream.late_rows, " rows of process ", ring->process,
            " are counted as late, though it came after all others");
    }
  }
  if (replayed != run.replays) {
    Wrong(run.run_id, ": ", run.replays, " replays, and ", replayed, " replayed rows");
  }
  if (rows != run.rows + run.replays) {
    Wrong(run.run_id, ": ", run.rows, " rows and ", run.replays, " replays are made of ", rows);
  }
  // Steps that continue start after the last step of the earlier processes.
  for (const model::Stream& stream : streams) {
    const RingRecord* const ring = RingOf(stream);
    if (ring == nullptr || !stream.primary || !ring->counts) continue;
    for (size_t i = 0; i < ring->rows.size(); ++i) {
      const auto found = found_.find(absl::StrCat(ring->rows[i].numbers[0].first, "=", i + 1));
      if (found == found_.end()) continue;
      const int64_t base = StepOf(lines_[found->second[0]]) - ring->rows[i].step;
      step_bases_.try_emplace({ring->rank, ring->process}, base);
      base_of_attempt.try_emplace(stream.attempt, base);
      break;
    }
  }
  for (const model::Stream& stream : streams) {
    const RingRecord* const ring = RingOf(stream);
    const auto base = base_of_attempt.find(stream.attempt);
    if (ring == nullptr || stream.primary || !ring->counts || base == base_of_attempt.end()) {
      continue;
    }
    step_bases_.try_emplace({ring->rank, ring->process}, base->second);
  }
  if (!moves && !any_overtaken) JudgeVisible(run, primary);
}

int64_t Oracle::HiddenFrom(uint64_t made, uint64_t model::Rewind::*rows) const {
  int64_t step = kEnd;
  for (const model::Rewind& rewind : rewinds_) {
    if (made < rewind.*rows) step = std::min(step, rewind.first_step);
  }
  return step;
}

// Local readers show those rows of each process of the primary rank that are below the first step
// of all later processes.
void Oracle::JudgeVisible(const model::Run& run, const std::vector<const RingRecord*>& primary) {
  std::map<uint64_t, int64_t> first;  // step in the run, by process
  std::map<uint64_t, int64_t> last;
  for (const RingRecord* ring : primary) {
    if (!BeganAfterEnds(ring->rank, ring->process)) return;  // the processes cannot be told apart
    if (ring->rings > 1) return;  // one thread may begin behind rows already made from the other
    for (size_t i = 0; i < ring->rows.size(); ++i) {
      const std::string key = absl::StrCat(ring->rows[i].numbers[0].first, "=", i + 1);
      if (found_.count(key) + replayed_.count(key) == 0) continue;
      const int64_t step = StepInRun(*ring, ring->rows[i]);
      first.try_emplace(ring->process, step);
      last[ring->process] = step;
    }
  }
  int64_t before = -1;
  for (const auto& [process, step] : first) {
    const RingRecord* const ring =
        *std::find_if(primary.begin(), primary.end(),
                      [p = process](const auto* one) { return one->process == p; });
    if (ring->counts && step != before + 1 + ring->rows.front().step) {
      Wrong(run.run_id, ": process ", process, " counts on from ", step, " behind ", before);
    }
    before = last[process];
  }
  for (const RingRecord* ring : primary) {
    int64_t end = kEnd;
    for (const auto& [process, step] : first) {
      if (process > ring->process) end = std::min(end, step);
    }
    for (size_t i = 0; i < ring->rows.size(); ++i) {
      const std::string key = absl::StrCat(ring->rows[i].numbers[0].first, "=", i + 1);
      const int64_t step = StepInRun(*ring, ring->rows[i]);
      const auto found = found_.find(key);
      const auto replayed = replayed_.find(key);
      if (found == found_.end() && replayed == replayed_.end()) continue;
      const int64_t from = found != found_.end()
                               ? HiddenFrom(found->second[0], &model::Rewind::rows)
                               : HiddenFrom(replayed->second[0], &model::Rewind::replays);
      if ((step < from) == (step < end)) continue;
      Wrong(run.run_id, ": row ", i + 1, " of process ", ring->process, " at step ", step, " is ",
            step < from ? "shown" : "hidden");
    }
  }
}

}  // namespace ranklog::simulation
