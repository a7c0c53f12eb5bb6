#include "service/pipeline/delivery/silence_results.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ranklog::pipeline {

std::vector<SilenceResult> SilenceResults(storage::StoreReader& reader,
                                          const std::vector<DeliveryTasks::Silent>& tasks,
                                          absl::Duration wall_minus_steady) {
  std::vector<SilenceResult> results;
  for (const DeliveryTasks::Silent& silent : tasks) {
    const absl::StatusOr<model::Run> run = reader.GetRun(silent.key.first);
    absl::StatusOr<std::vector<model::Delivery>> deliveries = reader.Deliveries(silent.key.first);
    if (!run.ok() || !deliveries.ok()) continue;
    const bool live = run->state == model::RunState::kRunning;
    for (model::Delivery& delivery : *deliveries) {
      if (delivery.kind != silent.key.second || delivery.complete) continue;
      if (live && delivery.delivered_rows >= run->rows) continue;
      delivery.last_error =
          absl::StrCat("no answer from the tracker since ",
                       absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", silent.since + wall_minus_steady,
                                        absl::UTCTimeZone()));
      results.push_back({silent,
                         {.delivery = std::move(delivery),
                          .dead_letters = {},
                          .wait = absl::ZeroDuration(),
                          .rows = run->rows,
                          .live = live}});
    }
  }
  return results;
}

}  // namespace ranklog::pipeline
