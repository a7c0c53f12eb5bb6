#include "service/pipeline/delivery/crashed_deliveries.h"

#include <spdlog/spdlog.h>
#include <string.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/pipeline/delivery/crash_marks.h"
#include "service/storage/store_reader.h"

namespace ranklog::pipeline {
namespace {

std::string CrashText(const CrashMark& mark) {
  const char* const name = sigabbrev_np(mark.signal);
  return absl::StrCat("Ranklog ", mark.version, " crashed (SIG",
                      name == nullptr ? absl::StrCat(mark.signal) : name, ")");
}

void AddCrash(const CrashMark& mark, const std::string& run, model::Delivery* delivery) {
  ++delivery->crashes;
  delivery->crashed_version = mark.version;
  if (delivery->set_apart()) {
    delivery->last_error =
        absl::StrCat("set apart: ", CrashText(mark),
                     " twice in a row while delivering this run; run `ranklog sync ", run,
                     "` to try once more; another version of Ranklog tries by itself");
  } else {
    spdlog::warn(
        "run {}: {} while delivering this run to {}; one more crash sets the delivery apart", run,
        CrashText(mark), delivery->kind);
  }
}

absl::Status CountCrashes(const std::string& state_dir, storage::Store& store) {
  ASSIGN_OR_RETURN(const std::vector<CrashMark> marks, TakeCrashMarks(state_dir));
  ASSIGN_OR_RETURN(const auto reader, storage::StoreReader::Open(state_dir));
  ASSIGN_OR_RETURN(std::vector<model::Delivery> deliveries, reader->PendingDeliveries());
  RETURN_IF_ERROR(store.Begin());
  for (model::Delivery& delivery : deliveries) {
    const auto mark = std::find_if(marks.begin(), marks.end(), [&](const CrashMark& each) {
      return each.run == delivery.run && each.kind == delivery.kind;
    });
    if (mark == marks.end() && !delivery.set_apart()) continue;
    ASSIGN_OR_RETURN(const model::Run run, reader->GetRun(delivery.run));
    const std::string name = absl::StrCat(run.project, ":", run.run_id);
    if (mark != marks.end()) {
      AddCrash(*mark, name, &delivery);
      RETURN_IF_ERROR(store.SetCrashes(delivery));
    } else if (delivery.crashed_version != RANKLOG_VERSION) {
      RETURN_IF_ERROR(store.TryAgain(delivery.run, absl::string_view(delivery.kind)));
      spdlog::info("run {}: the delivery to {} crashed Ranklog {}; this version tries it again",
                   name, delivery.kind, delivery.crashed_version);
      continue;
    }
    if (delivery.set_apart()) {
      spdlog::error("run {}: {}: {}", name, delivery.kind, delivery.last_error);
    }
  }
  return store.Commit();
}

}  // namespace

void CountCrashedDeliveries(const std::string& state_dir, storage::Store& store) {
  const absl::Status status = CountCrashes(state_dir, store);
  if (status.ok()) return;
  store.Rollback();
  spdlog::warn("a delivery that crashes this process will not be set apart: {}",
               std::string(status.message()));
}

}  // namespace ranklog::pipeline
