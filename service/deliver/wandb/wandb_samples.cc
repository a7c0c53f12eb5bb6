// The part of WandbDelivery that sends system metrics, as lines of wandb-events.jsonl. A sample's
// line depends on nothing else, so it may be sent again to the same place. The count of those that
// may be at the server is stored before they are sent, so that lines of other programs are noticed.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/wandb/wandb_delivery.h"

namespace ranklog::deliver::wandb {
namespace {

// In one post: four hours of them, about 1 MB without GPUs.
constexpr uint64_t kSamplesOfPost = 1000;

// As the official client's label for the writers of one run. Only where several nodes may write.
std::string LabelOf(const model::Run& run, const std::vector<model::Stream>& streams) {
  if (run.settings.strategy != model::LogStrategy::kMain) return "";
  for (const model::Stream& stream : streams) {
    const model::Identity& identity = stream.identity;
    if (identity.local_world_size > 0 && identity.world_size > identity.local_world_size) {
      return absl::StrCat("/l:", identity.node);
    }
  }
  return "";
}

std::string EventLine(const model::Sample& sample, const RunClock& clock,
                      const std::string& label) {
  std::string line = "{\"_wandb\":true,\"_timestamp\":";
  AppendSeconds(sample.time_us, &line);
  line += ",\"_runtime\":";
  AppendSeconds(clock.InAttemptUs(sample.time_us), &line);
  for (const auto& [name, value] : sample.values) {
    line += ',';
    AppendString(absl::StrCat("system.", name, label), &line);
    line += ':';
    AppendNumber(value, &line);
  }
  line += '}';
  return line;
}

}  // namespace

bool WandbDelivery::CutSamples() {
  if (!HasSamples() || cursor_.cut_samples > 0) return false;
  cursor_.cut_samples = std::min(run_.samples - cursor_.samples, kSamplesOfPost);
  return true;
}

absl::Status WandbDelivery::WriteSamples(storage::StoreReader& reader) {
  if (cursor_.cut_samples == 0 || !events_.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<model::Sample> samples,
                   reader.Samples(run_.id, cursor_.samples, cursor_.cut_samples));
  if (samples.size() != cursor_.cut_samples || samples.front().number != cursor_.samples) {
    return absl::DataLossError(
        absl::StrCat("system metrics of run ", run_.run_id, " are not in the store"));
  }
  const std::string label = LabelOf(run_, config_reader_.streams());
  for (const model::Sample& sample : samples) {
    events_.push_back(EventLine(sample, history_.clock(), label));
  }
  return absl::OkStatus();
}

// The server refuses them alone. The next ones get their lines.
absl::Duration WandbDelivery::SamplesRefused(const absl::StatusOr<HttpResponse>& answer) {
  AddDeadLetter(0, absl::StrCat(kSamplesLetter, Explain(answer)), events_.front());
  cursor_.events_offset -= static_cast<int64_t>(cursor_.cut_samples);
  SamplesSettled();
  return absl::ZeroDuration();
}

void WandbDelivery::SamplesSettled() {
  cursor_.samples += std::exchange(cursor_.cut_samples, 0);
  events_.clear();
  samples_alone_ = false;
}

}  // namespace ranklog::deliver::wandb
