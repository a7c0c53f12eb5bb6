#include "service/ui/curve_cache.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "service/base/status_macros.h"

namespace ranklog::ui {
namespace {

constexpr uint64_t kQuickValues = 5'000'000;  // read in a tenth of a second

// How many values of the run are not in `curves` yet, at most.
absl::StatusOr<uint64_t> ValuesLeft(storage::StoreReader& reader, const RunCurves& curves,
                                    int64_t id) {
  ASSIGN_OR_RETURN(const model::Run run, reader.GetRun(id));
  ASSIGN_OR_RETURN(const query::Shapes shapes, reader.RunShapes(id));
  size_t widest = 0;
  for (const std::vector<std::string>& keys : shapes) widest = std::max(widest, keys.size());
  return (run.rows + run.replays - curves.run().rows - curves.run().replays) * widest;
}

}  // namespace

absl::Status CurveCache::Use(
    RunKey key, storage::StoreReader& reader, bool quick,
    absl::FunctionRef<absl::Status(const RunCurves& curves, bool complete)> use) {
  const std::shared_ptr<Entry> entry = Find(key);
  if (!quick) {
    const absl::MutexLock lock(&entry->mutex);
    RETURN_IF_ERROR(entry->curves.Update(reader));
    return use(entry->curves, true);
  }
  if (entry->mutex.TryLock()) {
    const absl::Status status = [&]() -> absl::Status {
      entry->mutex.AssertHeld();
      ASSIGN_OR_RETURN(const uint64_t left, ValuesLeft(reader, entry->curves, key.run));
      if (left > kQuickValues) return absl::UnavailableError("too many");
      RETURN_IF_ERROR(entry->curves.Update(reader));
      return use(entry->curves, true);
    }();
    entry->mutex.Unlock();
    if (!absl::IsUnavailable(status)) return status;
  }
  RunCurves sample(key.run);
  RETURN_IF_ERROR(sample.Sample(reader, kFirstLook));
  return use(sample, false);
}

std::shared_ptr<CurveCache::Entry> CurveCache::Find(RunKey key) {
  const absl::MutexLock lock(&mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& entry) { return entry.first == key; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
  } else {
    entries_.emplace_front(key, std::make_shared<Entry>(key.run));
    if (entries_.size() > kKept) entries_.pop_back();
  }
  return entries_.front().second;
}

}  // namespace ranklog::ui
