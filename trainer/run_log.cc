#include "trainer/run_log.h"

#include <openssl/evp.h>

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace ranklog::trainer {

std::string RunId(const std::string& save_dir, const std::string& experiment_name) {
  const std::string text = save_dir + "/" + experiment_name;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1)
    return "";
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

void ApplyOptions(const Options& options, Settings& settings) {
  if (options.project) settings.project = *options.project;
  if (options.group) settings.group = *options.group;
  if (options.log_strategy) settings.log_strategy = *options.log_strategy;
  if (!options.experiment_name.empty()) {
    settings.run_id = RunId(options.save_dir, options.experiment_name);
    settings.name = options.experiment_name;
    settings.resume = "allow";
  }
  if (settings.name.empty()) settings.name = "gpt-" + options.model;
}

std::vector<Value::Field> RunConfig(const Options& o, const std::string& data_source,
                                    int64_t parameters, int world_size) {
  return {{"data", data_source},
          {"model", o.model},
          {"parameters", parameters},
          {"seed", o.seed},
          {"steps", o.steps},
          {"batch_size", o.batch_size},
          {"grad_accum", o.grad_accum},
          {"seq_len", o.seq_len},
          {"tokens_per_step", o.batch_size * o.grad_accum * o.seq_len * world_size},
          {"lr", o.lr},
          {"min_lr", o.min_lr},
          {"warmup_steps", o.warmup_steps},
          {"weight_decay", o.weight_decay},
          {"grad_clip", o.grad_clip},
          {"dtype", "float32"},
          {"comm", "gloo"},
          {"save_dir", o.save_dir},
          {"experiment_name", o.experiment_name}};
}

RunLog::RunLog(Run& run)
    : run_(run),
      train_(run.Row({"train/loss", "train/lr", "train/tokens_per_second", "train/grad_norm"})) {
  for (const char* loss : {"train/loss", "val/loss"}) {
    run.DefineMetric(loss, {.step_metric = "", .summary = {"min", "last"}, .goal = "minimize"});
  }
}

void RunLog::Train(int64_t step, const TrainRow& row) {
  const std::array<double, 4> values = {row.loss, row.lr, row.tokens_per_second, row.grad_norm};
  run_.Log(train_, values, step);
}

void RunLog::Validation(int64_t step, double loss) { run_.Log({{"val/loss", loss}}, step); }

}  // namespace ranklog::trainer
