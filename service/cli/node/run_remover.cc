#include "service/cli/node/run_remover.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/status_macros.h"
#include "service/cli/node/globals.h"

namespace ranklog::cli {

absl::StatusOr<std::unique_ptr<RunRemover>> RunRemover::Open(const std::string& state_dir,
                                                             const std::string& address) {
  std::unique_ptr<RunRemover> remover(new RunRemover());
  auto lock = storage::StateLock::Acquire(state_dir);
  if (absl::IsAlreadyExists(lock.status())) {
    ASSIGN_OR_RETURN(remover->daemon_, FindHolder(state_dir, address));
    return remover;
  }
  RETURN_IF_ERROR(lock.status());
  remover->lock_ = std::make_unique<storage::StateLock>(*std::move(lock));
  ASSIGN_OR_RETURN(remover->store_, storage::Store::Open(state_dir, {}));
  return remover;
}

absl::Status RunRemover::Remove(int64_t run, storage::Removal removal) {
  if (store_ != nullptr) {
    return Write([&] { return store_->RemoveRun(run, absl::ToUnixMicros(absl::Now()), removal); });
  }
  const absl::Status removed = RemoveRun(daemon_, run, removal);
  if (!absl::IsUnimplemented(removed)) return removed;
  return absl::UnimplementedError(absl::StrCat(
      "the daemon has version ", daemon_.version, ", which cannot remove a run; restart it: run `",
      Globals{.state_dir = daemon_.state_dir, .address = ""}.Command("stop"),
      "`, then start it again"));
}

absl::Status RunRemover::Sweep() {
  storage::Store::Swept swept;
  swept.more = store_ != nullptr;
  while (swept.more) {
    RETURN_IF_ERROR(Write([&]() -> absl::Status {
      ASSIGN_OR_RETURN(swept, store_->SweepRemoved());
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

template <typename Do>
absl::Status RunRemover::Write(Do write) {
  RETURN_IF_ERROR(store_->Begin());
  absl::Status status = write();
  if (status.ok()) return store_->Commit();
  store_->Rollback();
  return status;
}

}  // namespace ranklog::cli
