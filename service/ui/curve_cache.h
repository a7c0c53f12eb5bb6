#ifndef SERVICE_UI_CURVE_CACHE_H_
#define SERVICE_UI_CURVE_CACHE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/storage/store_reader.h"
#include "service/ui/curves/run_curves.h"
#include "service/ui/stores.h"

namespace ranklog::ui {

// The curves of the runs that the page showed last. Call it from any thread.
class CurveCache {
 public:
  // How long a long run may take until its first curves are shown.
  static constexpr absl::Duration kFirstLook = absl::Milliseconds(250);

  // Calls `use` with the run's curves, up to date. If `quick` and that takes longer than
  // kFirstLook, `use` gets a sample of them, and `complete` is false.
  absl::Status Use(RunKey key, storage::StoreReader& reader, bool quick,
                   absl::FunctionRef<absl::Status(const RunCurves& curves, bool complete)> use);

 private:
  struct Entry {
    explicit Entry(int64_t run) : curves(run) {}
    absl::Mutex mutex;
    RunCurves curves ABSL_GUARDED_BY(mutex);
  };
  std::shared_ptr<Entry> Find(RunKey key);

  static constexpr size_t kKept = 4;  // a few megabytes each
  absl::Mutex mutex_;
  // The latest first. Shared with calls of Use() that are in progress.
  std::list<std::pair<RunKey, std::shared_ptr<Entry>>> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ranklog::ui

#endif  // SERVICE_UI_CURVE_CACHE_H_
