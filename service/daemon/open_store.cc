#include "service/daemon/open_store.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/status_macros.h"
#include "service/storage/rows/damage.h"

namespace ranklog::daemon {

absl::StatusOr<std::unique_ptr<storage::Store>> OpenStore(const std::string& state_dir,
                                                          std::string* set_aside) {
  auto store = storage::Store::Open(state_dir, {});
  if (!absl::IsDataLoss(store.status())) return store;
  ASSIGN_OR_RETURN(const std::string aside, storage::SetAside(state_dir, absl::Now()));
  *set_aside = absl::StrCat(
      "the store is damaged: ", store.status().message(), "; it was renamed to ", aside,
      ", and a new store was created; its undelivered rows are not sent; run `ranklog recover ",
      aside, "` to save them, or see `ranklog doctor`");
  spdlog::error(*set_aside);
  return storage::Store::Open(state_dir, {});
}

}  // namespace ranklog::daemon
