#include "service/deliver/offline/offline_destination.h"

#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/deliver/offline/tracker.h"
#include "service/deliver/wandb/cursor.h"
#include "service/deliver/wandb/history/run_clock.h"
#include "service/deliver/wandb/wandb_delivery.h"

namespace ranklog::deliver::offline {
namespace {

constexpr char kVerifyOffline[] =
    R"(  offline  Not read back: `wandb sync` reports what it uploads.
)";

// The same for each process that writes the run from this store, and for no other run.
std::string KeyOf(const model::Run& run) {
  return wandb::Digest(
      absl::StrCat(run.project, "\n", run.run_id, "\n", run.id, "\n", run.started_us));
}

// A new process describes the run anew: a person may have removed its directory.
model::Delivery WithoutTexts(model::Delivery delivery) {
  if (delivery.cursor.is_object()) delivery.cursor.erase("sent_texts");
  return delivery;
}

// A W&B delivery whose server is a Tracker.
class OfflineDelivery : public RunDelivery {
 public:
  OfflineDelivery(const OfflineDestination& destination, model::Run run, model::Delivery delivery,
                  DeliveryParts parts)
      : destination_(destination),
        run_(run),
        tracker_(KeyOf(run), [this] { return StartedUs(); }),
        delivery_(std::move(run), WithoutTexts(std::move(delivery)), With(std::move(parts)),
                  Options(destination, parts.transmit_interval)) {}

  StepResult Step(storage::StoreReader& reader, absl::Time now, bool draining) override {
    reader_ = &reader;
    StepResult result = delivery_.Step(reader, now, draining);
    if (!result.url.empty()) {
      result.url = tracker_.directory().empty() ? destination_.RunPage(run_, result.delivery)
                                                : tracker_.directory();
    }
    return result;
  }

 private:
  DeliveryParts With(DeliveryParts parts) {
    parts.transport = &tracker_;
    return parts;
  }

  static wandb::WandbDelivery::Options Options(const OfflineDestination& destination,
                                               absl::Duration transmit_interval) {
    wandb::WandbDelivery::Options options;
    options.destination = &destination;
    options.transmit_interval = transmit_interval;
    options.multipart_bytes = std::numeric_limits<uint64_t>::max();
    return options;
  }

  // When the run's newest attempt began.
  int64_t StartedUs() const {
    const absl::StatusOr<model::Run> run = reader_->GetRun(run_.id);
    const auto streams = reader_->Streams(run_.id);
    if (!run.ok() || !streams.ok()) return run_.started_us;
    return wandb::RunClock(*run, *streams, /*before_us=*/0).Attempts().back().first;
  }

  const OfflineDestination& destination_;
  const model::Run run_;
  Tracker tracker_;
  storage::StoreReader* reader_ = nullptr;  // during Step()
  wandb::WandbDelivery delivery_;
};

}  // namespace

OfflineDestination::OfflineDestination()
    : Destination({.kind = "offline",
                   .name = "W&B's offline directories",
                   .url_setting = "dir",
                   .public_url = "",
                   .key_variable = "",
                   .user_variable = "",
                   .check_place = "check the directory",
                   .other_login = "",
                   .verify = kVerifyOffline}) {}

absl::StatusOr<std::string> OfflineDestination::CheckUrl(absl::string_view url) const {
  while (absl::ConsumeSuffix(&url, "/")) {
  }
  if (absl::StartsWith(url, "/")) return std::string(url);
  return absl::InvalidArgumentError(
      absl::StrCat("offline runs need an absolute directory, not '", url, "'"));
}

std::string OfflineDestination::RunPage(const model::Run& run,
                                        const model::Delivery& delivery) const {
  const wandb::Cursor cursor = wandb::CursorFrom(delivery.cursor);
  if (!cursor.created()) return "";
  return absl::StrCat(absl::StripSuffix(AddressOf(run.settings), "/"), "/", cursor.storage_id);
}

std::unique_ptr<RunDelivery> OfflineDestination::Deliver(model::Run run, model::Delivery delivery,
                                                         const DeliveryParts& parts) const {
  return std::make_unique<OfflineDelivery>(*this, std::move(run), std::move(delivery), parts);
}

absl::StatusOr<std::string> OfflineDestination::AccountOf(Transport& /*transport*/,
                                                          const std::string& /*server*/,
                                                          const Credential& /*credential*/,
                                                          absl::Duration /*timeout*/) const {
  return absl::UnimplementedError("a directory has no accounts");
}

absl::StatusOr<ReadBackReport> OfflineDestination::ReadBack(
    storage::StoreReader& /*reader*/, const model::Run& /*run*/,
    const model::Delivery& /*delivery*/, Transport& /*transport*/, const Credential& /*credential*/,
    const ReadBackOptions& /*options*/) const {
  return absl::FailedPreconditionError(
      "offline directories are not read back; `wandb sync` reports what it uploads");
}

}  // namespace ranklog::deliver::offline
