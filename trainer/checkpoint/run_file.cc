#include "trainer/checkpoint/run_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trainer/base/durable_file.h"

namespace ranklog::trainer {
namespace {

using nlohmann::json;

std::string RunFilePath(const std::string& directory) {
  return absl::StrCat(directory, "/run.json");
}

bool Names(const RunFile& file, const std::string& run_id) {
  return run_id == file.run_id || run_id == file.asked_id;
}

// The run that the training was in so far.
std::optional<RunFile> LastRun(const RunInputs& inputs) {
  if (inputs.resumed == nullptr) {
    if (!inputs.continues_without_checkpoint) return std::nullopt;
    return inputs.file;
  }
  const Checkpoint& checkpoint = *inputs.resumed;
  if (inputs.file && Names(*inputs.file, checkpoint.run_id)) return inputs.file;
  return RunFile{.experiment = checkpoint.experiment,
                 .run_id = checkpoint.run_id,
                 .asked_id = checkpoint.run_id,
                 .number = inputs.file ? inputs.file->number : inputs.earlier_runs};
}

// Whether the original of a copy is there: another directory, with the same run.
bool IsElsewhere(const RunFile& last, const std::string& experiment) {
  std::error_code error;
  if (last.experiment.empty() || last.experiment == experiment ||
      std::filesystem::equivalent(last.experiment, experiment, error)) {
    return false;
  }
  const absl::StatusOr<RunFile> original = ReadRunFile(last.experiment);
  return original.ok() && (Names(*original, last.run_id) || Names(*original, last.asked_id));
}

}  // namespace

absl::StatusOr<RunFile> ReadRunFile(const std::string& directory) {
  const std::string path = RunFilePath(directory);
  std::ifstream stream(path);
  if (!stream) return absl::NotFoundError(absl::StrCat("open ", path, ": ", std::strerror(errno)));
  try {
    const json content = json::parse(stream);
    return RunFile{.experiment = content.at("experiment"),
                   .run_id = content.at("run_id"),
                   .asked_id = content.at("asked_id"),
                   .number = content.at("number")};
  } catch (const json::exception&) {
    return absl::DataLossError(absl::StrCat("read ", path, ": it is damaged"));
  }
}

absl::Status WriteRunFile(const std::string& directory, const RunFile& file) {
  const json content = {{"experiment", file.experiment},
                        {"run_id", file.run_id},
                        {"asked_id", file.asked_id},
                        {"number", file.number}};
  const std::string text = content.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  absl::StatusOr<DurableFile> written = DurableFile::Create(RunFilePath(directory));
  if (!written.ok()) return written.status();
  absl::Status status = written->Append(text.data(), text.size());
  if (status.ok()) status = written->Commit();
  return status;
}

RunChoice ChooseRun(const RunInputs& inputs) {
  const std::optional<RunFile>& file = inputs.file;
  // A copy's file is that of the original until its first start.
  const bool own = file && file->experiment == inputs.experiment;
  std::optional<RunFile> last = LastRun(inputs);
  RunChoice choice;
  if (last && IsElsewhere(*last, inputs.experiment)) {
    if (!own) choice.copied_of = last->experiment;
    last = own ? file : std::nullopt;
  }
  choice.continues = last.has_value();
  if (last) {
    choice.file = *last;
    choice.file.number = std::max<int64_t>(choice.file.number, 1);
  } else {
    const bool foreign =
        file || !choice.copied_of.empty();  // the files here are those of the original
    const int64_t before = own ? file->number : foreign ? 0 : inputs.earlier_runs;
    choice.file.number = before + 1;
    choice.file.run_id = absl::StrCat(
        inputs.first_id, before > 0 ? absl::StrCat("-", before + 1) : inputs.suffix_without_file);
    choice.file.asked_id = choice.file.run_id;
  }
  choice.file.experiment = inputs.experiment;
  return choice;
}

}  // namespace ranklog::trainer
