#include "trainer/checkpoint/run_file.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "trainer/base/durable_file.h"

namespace ranklog::trainer {
namespace {

using nlohmann::json;

std::string RunFilePath(const std::string& directory) {
  return absl::StrCat(directory, "/run.json");
}

// 8 hex digits.
std::string RandomName() {
  uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number)
    number = static_cast<uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return absl::StrCat(absl::Hex(number, absl::kZeroPad8));
}

// Whether the checkpoint belongs to the training of the file.
bool IsOf(const Checkpoint& checkpoint, const RunFile& file) {
  return checkpoint.experiment_id == file.experiment_id &&
         (checkpoint.run_id == file.run_id || checkpoint.run_id == file.requested_id);
}

// The number N of an id "{first_id}-N", or of an id that the daemon derives from it; 0 for any
// other id.
int64_t NumberOf(absl::string_view run_id, const std::string& first_id) {
  int64_t number = 0;
  if (!absl::ConsumePrefix(&run_id, first_id) || !absl::ConsumePrefix(&run_id, "-")) return 0;
  return absl::SimpleAtoi(run_id.substr(0, run_id.find('-')), &number) ? number : 0;
}

// The training's run before this start.
std::optional<RunFile> LastRun(const RunInputs& inputs) {
  if (inputs.resumed == nullptr) {
    if (!inputs.continues_without_checkpoint) return std::nullopt;
    return inputs.file;
  }
  const Checkpoint& checkpoint = *inputs.resumed;
  if (inputs.file && IsOf(checkpoint, *inputs.file)) return inputs.file;
  return RunFile{.experiment = checkpoint.experiment,
                 .experiment_id = checkpoint.experiment_id,
                 .run_id = checkpoint.run_id,
                 .requested_id = checkpoint.run_id,
                 .settled = true,
                 .number = inputs.file ? inputs.file->number : inputs.earlier_runs};
}

// Whether the original of a copy exists: another directory of the same experiment.
bool IsElsewhere(const RunFile& last, const std::string& experiment) {
  std::error_code error;
  if (last.experiment.empty() || last.experiment == experiment ||
      std::filesystem::equivalent(last.experiment, experiment, error)) {
    return false;
  }
  const absl::StatusOr<RunFile> original = ReadRunFile(last.experiment);
  return original.ok() && original->experiment_id == last.experiment_id;
}

// `own`: the file belongs to this directory. `foreign`: the contents come from another one.
RunFile NewRun(const RunInputs& inputs, bool own, bool foreign) {
  int64_t before = own || foreign ? 0 : inputs.earlier_runs;
  RunFile run;
  if (own) {
    const RunFile& file = *inputs.file;
    run.experiment_id = file.experiment_id;
    before = std::max({file.number, NumberOf(file.run_id, inputs.first_id),
                       NumberOf(file.requested_id, inputs.first_id)});
  }
  run.number = before + 1;
  run.run_id = inputs.first_id;
  if (before > 0) absl::StrAppend(&run.run_id, "-", run.number);
  run.requested_id = run.run_id;
  return run;
}

}  // namespace

absl::StatusOr<RunFile> ReadRunFile(const std::string& directory) {
  const std::string path = RunFilePath(directory);
  std::ifstream stream(path);
  if (!stream) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  try {
    const json content = json::parse(stream);
    return RunFile{.experiment = content.at("experiment"),
                   .experiment_id = content.at("experiment_id"),
                   .run_id = content.at("run_id"),
                   .requested_id = content.at("requested_id"),
                   .settled = content.at("settled"),
                   .number = content.at("number")};
  } catch (const std::exception&) {  // of JSON, or of a read
    return absl::DataLossError(absl::StrCat("cannot read ", path, ": it is damaged; remove it"));
  }
}

absl::Status WriteRunFile(const std::string& directory, const RunFile& file) {
  const json content = {{"experiment", file.experiment}, {"experiment_id", file.experiment_id},
                        {"run_id", file.run_id},         {"requested_id", file.requested_id},
                        {"settled", file.settled},       {"number", file.number}};
  const std::string text = content.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  absl::StatusOr<DurableFile> written = DurableFile::Create(RunFilePath(directory));
  if (!written.ok()) return written.status();
  absl::Status status = written->Append(text.data(), text.size());
  if (status.ok()) status = written->Commit();
  return status;
}

RunChoice ChooseRun(const RunInputs& inputs) {
  const std::optional<RunFile>& file = inputs.file;
  // Until its first start, a copy has the file of the original.
  const bool own = file && file->experiment == inputs.experiment;
  std::optional<RunFile> last = LastRun(inputs);
  RunChoice choice;
  if (last && IsElsewhere(*last, inputs.experiment)) {
    if (!own) choice.copied_of = last->experiment;
    last = own ? file : std::nullopt;
  }
  choice.continues = last && last->settled;
  choice.unsettled = last && !last->settled;
  if (last) {
    choice.file = *last;
    choice.file.number = std::max<int64_t>(choice.file.number, 1) + (last->settled ? 0 : 1);
  } else {
    choice.file = NewRun(inputs, own, /*foreign=*/file || !choice.copied_of.empty());
  }
  if (choice.unsettled || (!choice.continues && inputs.requeued)) {
    choice.file.run_id = absl::StrCat(inputs.first_id, "-", RandomName());
    choice.file.settled = true;
    if (!choice.unsettled) choice.file.requested_id = choice.file.run_id;
  }
  if (choice.file.experiment_id.empty()) choice.file.experiment_id = RandomName();
  choice.file.experiment = inputs.experiment;
  return choice;
}

}  // namespace ranklog::trainer
