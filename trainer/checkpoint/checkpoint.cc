#include "trainer/checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/base/torch_compat.h"
#include "trainer/checkpoint/safetensors.h"

namespace ranklog::trainer {
namespace {

using nlohmann::json;
using torch::optim::AdamWParamState;

constexpr int kVersion = 1;  // of the format; see checkpoint.md
constexpr char kVersionKey[] = "ranklog_checkpoint";
constexpr char kTrainLoss[] = "train_loss";
constexpr char kRandom[] = "random";
constexpr char kModel[] = "model.";
constexpr char kMean[] = "optimizer.exp_avg.";         // first moment
constexpr char kVariance[] = "optimizer.exp_avg_sq.";  // second moment
constexpr char kStep[] = "optimizer.step.";

// The random generators of a process on `device`.
std::vector<at::Generator> Generators(at::Device device) {
  std::vector<at::Generator> generators{at::globalContext().defaultGenerator(at::kCPU)};
  if (!device.is_cpu()) generators.push_back(at::globalContext().defaultGenerator(device));
  return generators;
}

at::Tensor StateOf(at::Generator& generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

// The tensor `name`, which must have the shape and type of `like`.
absl::StatusOr<at::Tensor> Find(const Checkpoint& checkpoint, const std::string& name,
                                const at::Tensor& like) {
  const auto found = checkpoint.tensors.find(name);
  if (found == checkpoint.tensors.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot restore ", name, ": the checkpoint has no such tensor"));
  }
  const at::Tensor& tensor = found->second;
  if (tensor.sizes() != like.sizes() || tensor.scalar_type() != like.scalar_type()) {
    const auto describe = [](const at::Tensor& t) {
      return absl::StrCat(c10::toString(t.scalar_type()), " (", absl::StrJoin(t.sizes(), ", "),
                          ")");
    };
    return absl::InvalidArgumentError(absl::StrCat("cannot restore ", name, ": it is ",
                                                   describe(tensor), " in the checkpoint, but ",
                                                   describe(like), " in this model"));
  }
  return tensor;
}

bool Number(const std::map<std::string, std::string>& metadata, const char* key, int64_t* value) {
  const auto found = metadata.find(key);
  return found != metadata.end() && absl::SimpleAtoi(found->second, value) && *value >= 0;
}

// NaN if the metadata do not contain it.
double TrainLossOf(const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find(kTrainLoss);
  double loss = 0;
  return found != metadata.end() && absl::SimpleAtod(found->second, &loss)
             ? loss
             : std::numeric_limits<double>::quiet_NaN();
}

// Fills all but the tensors; false if a value is missing or has another type.
bool ParseMetadata(const std::map<std::string, std::string>& metadata, Checkpoint& checkpoint) {
  const auto run_id = metadata.find("run_id"), options = metadata.find("options");
  if (run_id == metadata.end() || options == metadata.end()) return false;
  checkpoint.run_id = run_id->second;
  const auto experiment = metadata.find("experiment"), id = metadata.find("experiment_id");
  if (experiment != metadata.end()) checkpoint.experiment = experiment->second;
  if (id != metadata.end()) checkpoint.experiment_id = id->second;
  const json parsed = json::parse(options->second, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return false;
  for (const auto& [name, value] : parsed.items()) {
    if (!value.is_string()) return false;
    checkpoint.options[name] = value.get<std::string>();
  }
  checkpoint.train_loss = TrainLossOf(metadata);
  return Number(metadata, "step", &checkpoint.step) &&
         Number(metadata, "epoch", &checkpoint.sampler.epoch) &&
         Number(metadata, "next_sample", &checkpoint.sampler.next);
}

}  // namespace

absl::Status WriteCheckpoint(const std::string& path, const Checkpoint& checkpoint) {
  SafeTensors file;
  file.tensors = checkpoint.tensors;
  file.tensors[kRandom] = checkpoint.random;
  file.metadata = {
      {"format", "pt"},  // Hugging Face's loaders require it
      {kVersionKey, absl::StrCat(kVersion)},
      {"run_id", checkpoint.run_id},
      {"experiment", checkpoint.experiment},
      {"experiment_id", checkpoint.experiment_id},
      {"step", absl::StrCat(checkpoint.step)},
      {"epoch", absl::StrCat(checkpoint.sampler.epoch)},
      {"next_sample", absl::StrCat(checkpoint.sampler.next)},
      {kTrainLoss, absl::StrCat(checkpoint.train_loss)},
      {"options", json(checkpoint.options).dump(-1, ' ', false, json::error_handler_t::replace)}};
  return WriteSafeTensors(path, file);
}

absl::StatusOr<Checkpoint> ReadCheckpoint(const std::string& path) {
  absl::StatusOr<SafeTensors> file = ReadSafeTensors(path);
  if (!file.ok()) return file.status();
  int64_t version = 0;
  if (!Number(file->metadata, kVersionKey, &version)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": it is not a checkpoint of ranklog-train"));
  }
  if (!file->verified) {
    return absl::DataLossError(absl::StrCat("cannot read ", path, ": its checksum is missing"));
  }
  if (version > kVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot read ", path, ": a newer ranklog-train wrote it, in version ", version,
        " of the format, and this one reads version ", kVersion, "; use the newer ranklog-train"));
  }
  Checkpoint checkpoint;
  auto random = file->tensors.extract(kRandom);
  if (!ParseMetadata(file->metadata, checkpoint) || random.empty() || random.mapped().dim() != 2 ||
      random.mapped().scalar_type() != at::kByte) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": its metadata is incomplete"));
  }
  checkpoint.random = std::move(random.mapped());
  checkpoint.tensors = std::move(file->tensors);
  return checkpoint;
}

double ReadTrainLoss(const std::string& path) {
  const auto metadata = ReadMetadata(path);
  return TrainLossOf(metadata.ok() ? *metadata : std::map<std::string, std::string>());
}

void AddState(const torch::nn::Module& model, torch::optim::AdamW& optimizer,
              Checkpoint& checkpoint) {
  for (const auto& item : model.named_parameters()) {
    checkpoint.tensors[kModel + item.key()] = item.value();
    const auto& states = optimizer.state();
    const auto state = states.find(compat::StateKey(states, item.value()));
    if (state == states.end()) continue;  // before the first step
    const auto& adamw = static_cast<const AdamWParamState&>(*state->second);
    checkpoint.tensors[kMean + item.key()] = adamw.exp_avg();
    checkpoint.tensors[kVariance + item.key()] = adamw.exp_avg_sq();
    checkpoint.tensors[kStep + item.key()] = at::scalar_tensor(adamw.step(), at::kLong);
  }
}

std::string FindNotFinite(const Checkpoint& checkpoint) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (tensor.is_floating_point() && !std::isfinite(tensor.sum().item<double>())) return name;
  }
  return "";
}

absl::Status RestoreModel(const Checkpoint& checkpoint, torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  const auto parameters = model.named_parameters();
  std::vector<at::Tensor> values;
  for (const auto& item : parameters) {
    absl::StatusOr<at::Tensor> value = Find(checkpoint, kModel + item.key(), item.value());
    if (!value.ok()) return value.status();
    values.push_back(*std::move(value));
  }
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (name.starts_with(kModel) && !parameters.contains(name.substr(std::strlen(kModel)))) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot restore ", name, ": this model has no such tensor"));
    }
  }
  for (size_t i = 0; i < values.size(); ++i) parameters[i].value().copy_(values[i]);
  return absl::OkStatus();
}

absl::Status RestoreOptimizer(const Checkpoint& checkpoint, const torch::nn::Module& model,
                              torch::optim::AdamW& optimizer) {
  for (const auto& item : model.named_parameters()) {
    const at::Tensor& parameter = item.value();
    const at::Tensor step = at::scalar_tensor(0, at::kLong);
    absl::StatusOr<at::Tensor> mean = Find(checkpoint, kMean + item.key(), parameter);
    absl::StatusOr<at::Tensor> variance = Find(checkpoint, kVariance + item.key(), parameter);
    absl::StatusOr<at::Tensor> steps = Find(checkpoint, kStep + item.key(), step);
    for (const absl::Status& status : {mean.status(), variance.status(), steps.status()}) {
      if (!status.ok()) return status;
    }
    auto state = std::make_unique<AdamWParamState>();
    state->exp_avg(mean->to(parameter.device()));
    state->exp_avg_sq(variance->to(parameter.device()));
    state->step(steps->item<int64_t>());
    auto& states = optimizer.state();
    states[compat::StateKey(states, parameter)] = std::move(state);
  }
  return absl::OkStatus();
}

at::Tensor RandomState(at::Device device) {
  std::vector<at::Tensor> states;
  for (at::Generator& generator : Generators(device)) states.push_back(StateOf(generator));
  return at::cat(states);
}

absl::Status SetRandomState(const at::Tensor& state, at::Device device) {
  std::vector<at::Generator> generators = Generators(device);
  std::vector<int64_t> sizes;
  for (at::Generator& generator : generators) sizes.push_back(StateOf(generator).numel());
  if (std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != state.numel()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot restore the random state: its ", state.numel(),
                     " bytes are of another LibTorch or kind of device; resume with that one, or "
                     "start a new training with --init-from and without --resume"));
  }
  const std::vector<at::Tensor> states = state.split_with_sizes(sizes);
  for (size_t i = 0; i < states.size(); ++i) {
    const std::lock_guard<std::mutex> lock(generators[i].mutex());
    generators[i].set_state(states[i].clone());
  }
  return absl::OkStatus();
}

}  // namespace ranklog::trainer
