// Opens the daemon's store, and replaces a damaged one.

#ifndef SERVICE_DAEMON_OPEN_STORE_H_
#define SERVICE_DAEMON_OPEN_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "service/storage/store.h"

namespace ranklog::daemon {

// Opens the store in `state_dir`, whose StateLock the caller holds. Sets a damaged store aside,
// logs that, and creates a new one: new rows do not wait for a person to repair the old store.
// `set_aside` is then what was logged; else it stays unchanged.
// Errors are those of storage::Store::Open() and storage::SetAside().
absl::StatusOr<std::unique_ptr<storage::Store>> OpenStore(const std::string& state_dir,
                                                          std::string* set_aside);

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_OPEN_STORE_H_
