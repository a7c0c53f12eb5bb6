// Directories that `wandb sync` uploads: W&B's offline mode.

#ifndef SERVICE_DELIVER_OFFLINE_OFFLINE_DESTINATION_H_
#define SERVICE_DELIVER_OFFLINE_OFFLINE_DESTINATION_H_

#include <memory>
#include <string>

#include "service/deliver/destination.h"

namespace ranklog::deliver::offline {

// Its server's address is an absolute path, WANDB_DIR of the ranks. It has no keys.
class OfflineDestination : public Destination {
 public:
  OfflineDestination();

  bool IsDirectory() const override { return true; }
  absl::StatusOr<std::string> CheckUrl(absl::string_view url) const override;
  std::string RunPage(const model::Run& run, const model::Delivery& delivery) const override;
  std::unique_ptr<RunDelivery> Deliver(model::Run run, model::Delivery delivery,
                                       const DeliveryParts& parts) const override;
  // kUnimplemented: there is no server.
  absl::StatusOr<std::string> AccountOf(Transport& transport, const std::string& server,
                                        const Credential& credential,
                                        absl::Duration timeout) const override;
  // kFailedPrecondition: `wandb sync` may have changed the directory.
  absl::StatusOr<ReadBackReport> ReadBack(storage::StoreReader& reader, const model::Run& run,
                                          const model::Delivery& delivery, Transport& transport,
                                          const Credential& credential,
                                          const ReadBackOptions& options) const override;
};

}  // namespace ranklog::deliver::offline

#endif  // SERVICE_DELIVER_OFFLINE_OFFLINE_DESTINATION_H_
