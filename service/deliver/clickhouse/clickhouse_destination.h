// ClickHouse, for many nodes: the rows of all ranks in tables of a database.

#ifndef SERVICE_DELIVER_CLICKHOUSE_CLICKHOUSE_DESTINATION_H_
#define SERVICE_DELIVER_CLICKHOUSE_CLICKHOUSE_DESTINATION_H_

#include <functional>
#include <memory>
#include <string>

#include "service/deliver/destination.h"

namespace ranklog::deliver::clickhouse {

class ClickhouseDestination : public Destination {
 public:
  ClickhouseDestination();

  // With the database.
  std::string AddressIn(
      const std::function<std::string(const std::string&)>& variable) const override;
  absl::Status CheckSetting(absl::string_view name, absl::string_view value) const override;
  void Authorize(const Credential& credential, HttpRequest* request) const override;
  bool IsKeyRefused(const HttpResponse& answer) const override;
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

}  // namespace ranklog::deliver::clickhouse

#endif  // SERVICE_DELIVER_CLICKHOUSE_CLICKHOUSE_DESTINATION_H_
