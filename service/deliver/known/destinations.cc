#include "service/deliver/clickhouse/clickhouse_destination.h"
#include "service/deliver/destination.h"
#include "service/deliver/mlflow/mlflow_destination.h"
#include "service/deliver/offline/offline_destination.h"
#include "service/deliver/wandb/wandb_destination.h"

namespace ranklog::deliver {

std::vector<std::unique_ptr<const Destination>> KnownDestinations() {
  std::vector<std::unique_ptr<const Destination>> destinations;
  destinations.push_back(std::make_unique<wandb::WandbDestination>());
  destinations.push_back(std::make_unique<mlflow::MlflowDestination>());
  destinations.push_back(std::make_unique<clickhouse::ClickhouseDestination>());
  destinations.push_back(std::make_unique<offline::OfflineDestination>());
  return destinations;
}

}  // namespace ranklog::deliver
