// Weights & Biases, and servers with its API.

#ifndef SERVICE_DELIVER_WANDB_WANDB_DESTINATION_H_
#define SERVICE_DELIVER_WANDB_WANDB_DESTINATION_H_

#include <memory>
#include <string>

#include "service/deliver/destination.h"

namespace ranklog::deliver::wandb {

inline constexpr char kKind[] = "wandb";  // value of Delivery.kind

class WandbDestination : public Destination {
 public:
  // Reads WANDB_USERNAME and WANDB_USER_EMAIL. Not thread-safe, because getenv is not.
  WandbDestination();

  absl::StatusOr<std::string> CheckUrl(absl::string_view url) const override;
  absl::Status CheckSetting(absl::string_view name, absl::string_view value) const override;
  absl::Status CheckCredential(const Credential& credential) const override;
  void Authorize(const Credential& credential, HttpRequest* request) const override;
  Credential CredentialOfLogin(const NetrcEntry& entry) const override;
  std::string KeyPage(absl::string_view server) const override;
  std::string RunPage(const model::Run& run, const model::Delivery& delivery) const override;
  std::unique_ptr<RunDelivery> Deliver(model::Run run, model::Delivery delivery,
                                       const DeliveryParts& parts) const override;
  absl::StatusOr<std::string> AccountOf(Transport& transport, const std::string& server,
                                        const Credential& credential,
                                        absl::Duration timeout) const override;
  // These two are defined in read_back.cc.
  absl::StatusOr<ReadBackReport> ReadBack(storage::StoreReader& reader, const model::Run& run,
                                          const model::Delivery& delivery, Transport& transport,
                                          const Credential& credential,
                                          const ReadBackOptions& options) const override;
  absl::StatusOr<int64_t> LastStep(const model::Run& run, Transport& transport,
                                   const Credential& credential,
                                   const ReadBackOptions& options) const override;
  absl::StatusOr<DownloadReport> Download(Transport& transport, const std::string& server,
                                          const Credential& credential,
                                          const DownloadOptions& options) const override;

 private:
  // The user that is shown for runs of a service account, unless the job's variables name another.
  const std::string username_;
  const std::string user_email_;
};

// The one that is registered.
const Destination& Wandb();

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_WANDB_DESTINATION_H_
