#include "service/cli/sync/sync_destinations.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "ranklog/v1/base_url.h"
#include "service/base/clock.h"
#include "service/base/environment.h"
#include "service/base/status_macros.h"
#include "service/base/text/printable.h"
#include "service/cli/command.h"
#include "service/cli/node/daemon_status.h"
#include "service/storage/directories/state_lock.h"

namespace ranklog::cli {
namespace {

constexpr absl::Duration kEndPoll = absl::Milliseconds(200);
constexpr absl::Duration kEndSoon = absl::Seconds(10);

std::map<std::string, std::string> AddressFor(const deliver::Destination& to) {
  const std::string& setting = to.words().url_setting;
  if (to.IsDirectory()) {
    const std::string dir = EnvironmentVariable("WANDB_DIR");
    return {
        {setting, std::filesystem::absolute(dir.empty() ? "." : dir).lexically_normal().string()}};
  }
  const std::string url = v1::WithoutUser(
      to.AddressIn([](const std::string& name) { return EnvironmentVariable(name.c_str()); }));
  if (url.empty()) return {};
  return {{setting, to.CheckUrl(url).value_or(url)}};
}

// That of --to; else the first one that a run goes to.
const deliver::Destination& TrackerOf(const std::string& kind_of_to,
                                      const std::vector<model::Run>& runs) {
  if (!kind_of_to.empty()) return *deliver::FindDestination(kind_of_to);
  for (const model::Run& run : runs) {
    for (const std::string& kind : run.settings.destinations) {
      const deliver::Destination* const found = deliver::FindDestination(kind);
      if (found != nullptr) return *found;
    }
  }
  return deliver::UsualDestination();
}

bool Takes(const deliver::Destination& to, const model::Run& run) {
  return !run.local_only || (to.words().takes_all_ranks && run.primary_chosen);
}

}  // namespace

absl::Status SyncDestinations::SetAddress(const std::vector<model::Run>& runs,
                                          SyncPipeline* pipeline) const {
  const deliver::Destination& to = TrackerOf(flags_.to, runs);
  std::string address = flags_.base_url;
  if (pipeline == nullptr) {
    const int64_t pid = storage::StateLock::Holder(state_dir_);
    return absl::FailedPreconditionError(absl::StrCat(
        "process ", pid, " delivers the runs, so their address cannot change now; ",
        IsDaemon(pid)
            ? absl::StrCat("run `", globals_.Command("stop"), "`, then this command again")
            : "wait until it ends, then run this command again"));
  }
  if (to.IsDirectory()) address = std::filesystem::absolute(address).lexically_normal().string();
  return pipeline->SetAddress(runs, to, address);
}

absl::Status SyncDestinations::Apply(const model::Run& run, storage::StoreReader& reader,
                                     SyncPipeline* pipeline) {
  RETURN_IF_ERROR(Add(run, reader, pipeline));
  if (named_ == 0) return absl::OkStatus();
  RETURN_IF_ERROR(WarnOfVariables(run, reader));
  return TryAgain(run, reader, pipeline);
}

// A run that was not logged for a destination without a public server has no address of it: it gets
// the one that a rank would use here; a run that is named alone, also the other settings.
std::map<std::string, std::string> SyncDestinations::SettingsFor(
    const model::Run& run, const deliver::Destination& to) const {
  if (!to.AddressOf(run.settings).empty()) return {};
  std::map<std::string, std::string> settings = AddressFor(to);
  if (settings.empty() || named_ != 1) return settings;
  std::map<std::string, std::string> given;
  for (const std::string& name : to.words().other_settings) {
    const std::string variable = to.VariableOf(name);
    given.emplace(variable, EnvironmentVariable(variable.c_str()));
  }
  std::vector<std::string> mistakes;
  settings.merge(to.SettingsOf(given, &mistakes));
  for (const std::string& mistake : mistakes) std::cerr << "ranklog: " << mistake << "\n";
  return settings;
}

absl::Status SyncDestinations::Add(model::Run run, storage::StoreReader& reader,
                                   SyncPipeline* pipeline) {
  if (!flags_.set.empty() && set_.kind.empty()) RETURN_IF_ERROR(ReadSet());
  const std::string& kind = flags_.to.empty() ? set_.kind : flags_.to;
  const deliver::Destination* const to = deliver::FindDestination(kind);
  const bool takes = to == nullptr ? !run.local_only : Takes(*to, run);
  if (kind.empty() || !takes) return absl::OkStatus();
  std::map<std::string, std::string> settings = set_.settings;
  if (to != nullptr) settings.merge(SettingsFor(run, *to));
  ASSIGN_OR_RETURN(const std::vector<model::Delivery> deliveries, reader.Deliveries(run.id));
  const bool there = std::any_of(deliveries.begin(), deliveries.end(),
                                 [&](const auto& delivery) { return delivery.kind == kind; });
  if (there && settings.empty()) return absl::OkStatus();
  if (!there && flags_.to.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("run ", Printable(run.run_id), " does not go to ", kind, "; add --to ", kind));
  }
  if (!settings.empty() && run.state == model::RunState::kRunning && named_ == 0) {
    std::cerr << "run " << Printable(run.run_id) << " is left out: it is still running, and has no "
              << "address of " << kind << "\n";
    return absl::OkStatus();
  }
  if (!settings.empty()) RETURN_IF_ERROR(AwaitEnd(run, reader, pipeline));
  for (const auto& [name, value] : settings) run.settings.destination_settings[kind][name] = value;
  if (pipeline == nullptr) {
    RETURN_IF_ERROR(AskDaemonToDeliver(globals_, state_dir_, run, kind, true, settings));
    return CheckTaken(run, kind, settings, reader);
  }
  if (!settings.empty()) RETURN_IF_ERROR(pipeline->SetDestination(run.id, kind, settings));
  RETURN_IF_ERROR(pipeline->CheckCredentials(run, kind));
  return pipeline->AddDestination(run.id, kind);
}

// A setting in this shell that differs from that of the ranks, and is not used.
absl::Status SyncDestinations::WarnOfVariables(const model::Run& run,
                                               storage::StoreReader& reader) const {
  ASSIGN_OR_RETURN(const model::Run stored, reader.GetRun(run.id));
  ASSIGN_OR_RETURN(const std::vector<model::Delivery> deliveries, reader.Deliveries(run.id));
  for (const model::Delivery& delivery : deliveries) {
    const deliver::Destination* const to = deliver::FindDestination(delivery.kind);
    if (to == nullptr) continue;
    for (const std::string& name : to->words().other_settings) {
      const std::string variable = to->VariableOf(name);
      const std::string value = EnvironmentVariable(variable.c_str());
      if (value.empty() || value == stored.settings.Of(to->kind(), name)) continue;
      std::cerr << "ranklog: " << variable << "=" << Printable(value) << " is not used: ";
      if (delivery.cursor.empty()) {
        std::cerr << "its ranks chose where run " << Printable(run.run_id)
                  << " goes; to change that, use --set " << variable << "=VALUE\n";
      } else {
        std::cerr << "run " << Printable(run.run_id) << " is at " << to->words().name
                  << " already, and stays where it is; set the variable for the ranks of a new "
                     "run\n";
      }
    }
  }
  return absl::OkStatus();
}

// Settings of a running run cannot change. The daemon ends one a moment after its last rank.
absl::Status SyncDestinations::AwaitEnd(const model::Run& run, storage::StoreReader& reader,
                                        SyncPipeline* pipeline) const {
  for (const absl::Time until = SteadyNow() + kEndSoon;
       pipeline == nullptr && SteadyNow() < until;) {
    ASSIGN_OR_RETURN(const model::Run stored, reader.GetRun(run.id));
    ASSIGN_OR_RETURN(const bool ends, EndsSoon(state_dir_, stored, reader));
    if (!ends) break;
    absl::SleepFor(kEndPoll);
  }
  return absl::OkStatus();
}

// The settings of --set, which are those of one destination.
absl::Status SyncDestinations::ReadSet() {
  for (const std::string& word : flags_.set) {
    const std::pair<std::string, std::string> given = absl::StrSplit(word, absl::MaxSplits('=', 1));
    const auto& [variable, value] = given;
    const deliver::Destination* found = nullptr;
    std::string setting;
    for (const auto& to : deliver::AllDestinations()) {
      for (const std::string& name : to->words().other_settings) {
        if (to->VariableOf(name) != variable) continue;
        found = to.get();
        setting = name;
      }
    }
    if (found == nullptr) {
      return WrongUsage(absl::StrCat("--set: ", Printable(variable),
                                     " is not a variable with a setting of a tracker, such as "
                                     "MLFLOW_EXPERIMENT_NAME; for its URL, use --base-url"));
    }
    const std::string& kind = flags_.to.empty() ? set_.kind : flags_.to;
    if (!kind.empty() && found->kind() != kind) {
      return WrongUsage(absl::StrCat("--set: ", variable, " is not a variable of ", kind));
    }
    if (const absl::Status usable = found->CheckSetting(setting, value);
        !usable.ok() && !value.empty()) {
      return WrongUsage(absl::StrCat("--set: ", variable, ": ", usable.message()));
    }
    set_.kind = found->kind();
    set_.settings[setting] = value;
  }
  return absl::OkStatus();
}

absl::Status SyncDestinations::CheckTaken(const model::Run& run, const std::string& kind,
                                          const std::map<std::string, std::string>& settings,
                                          storage::StoreReader& reader) const {
  ASSIGN_OR_RETURN(const model::Run stored, reader.GetRun(run.id));
  for (const auto& [name, value] : settings) {
    if (stored.settings.Of(kind, name) == value) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("the daemon has an older version, which does not take ", name, "; run `",
                     globals_.Command("stop"), "`, then this command again"));
  }
  return absl::OkStatus();
}

absl::Status SyncDestinations::TryAgain(const model::Run& run, storage::StoreReader& reader,
                                        SyncPipeline* pipeline) const {
  ASSIGN_OR_RETURN(const std::vector<model::Delivery> deliveries, reader.Deliveries(run.id));
  for (const model::Delivery& delivery : deliveries) {
    if (!delivery.set_apart()) continue;
    RETURN_IF_ERROR(pipeline == nullptr ? AskDaemonToDeliver(globals_, state_dir_, run,
                                                             delivery.kind, /*with_key=*/true)
                                        : pipeline->TryAgain(run.id, delivery.kind));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> EndsSoon(const std::string& state_dir, const model::Run& run,
                              storage::StoreReader& reader) {
  if (run.state != model::RunState::kRunning) return false;
  if (storage::StateLock::Holder(state_dir) == 0) return false;
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run.id));
  return !streams.empty() &&
         std::none_of(streams.begin(), streams.end(), [](const model::Stream& stream) {
           return stream.state == model::StreamState::kLive;
         });
}

}  // namespace ranklog::cli
