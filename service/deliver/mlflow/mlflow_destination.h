// MLflow tracking servers.

#ifndef SERVICE_DELIVER_MLFLOW_MLFLOW_DESTINATION_H_
#define SERVICE_DELIVER_MLFLOW_MLFLOW_DESTINATION_H_

#include <map>
#include <memory>
#include <string>

#include "service/deliver/destination.h"

namespace ranklog::deliver::mlflow {

inline constexpr char kKind[] = "mlflow";  // value of Delivery.kind

class MlflowDestination : public Destination {
 public:
  MlflowDestination();

  std::string WarningOf(const model::RunSettings& settings) const override;
  // A user with a password counts before a token, as in the official client.
  Credential CredentialIn(
      const std::function<std::string(const std::string&)>& variable) const override;
  std::map<std::string, std::string> VariablesOf(const Credential& credential) const override;
  Credential CredentialOfLogin(const NetrcEntry& entry) const override;
  std::string RunPage(const model::Run& run, const model::Delivery& delivery) const override;
  std::unique_ptr<RunDelivery> Deliver(model::Run run, model::Delivery delivery,
                                       const DeliveryParts& parts) const override;
  absl::StatusOr<std::string> AccountOf(Transport& transport, const std::string& server,
                                        const Credential& credential,
                                        absl::Duration timeout) const override;
  // Defined in read_back.cc.
  absl::StatusOr<ReadBackReport> ReadBack(storage::StoreReader& reader, const model::Run& run,
                                          const model::Delivery& delivery, Transport& transport,
                                          const Credential& credential,
                                          const ReadBackOptions& options) const override;
};

// Whom the request trusts, and with what it proves itself, by the settings of the run.
void SetTrust(const model::RunSettings& settings, HttpRequest* request);
// The page of a run in the server's user interface.
std::string PageOf(absl::string_view server, absl::string_view experiment_id,
                   absl::string_view run_id);

}  // namespace ranklog::deliver::mlflow

#endif  // SERVICE_DELIVER_MLFLOW_MLFLOW_DESTINATION_H_
