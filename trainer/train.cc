#include "trainer/train.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "trainer/base/rank_error.h"
#include "trainer/base/stop_signal.h"
#include "trainer/data/batch.h"
#include "trainer/data/sampler.h"
#include "trainer/model/autocast.h"
#include "trainer/model/histograms.h"
#include "trainer/model/optimizer.h"
#include "trainer/model/read_back.h"
#include "trainer/model/schedule.h"
#include "trainer/parallel/ddp.h"
#include "trainer/plan.h"
#include "trainer/run_log.h"

namespace ranklog::trainer {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t kValidationWindows = 32;  // of all ranks; about 0.02 nats of noise, 2 steps' time

// The mean loss of the forward pass, in the precision of the options.
at::Tensor Forward(Gpt& model, const Batch& batch, const Options& options) {
  const Autocast autocast(batch.inputs.device().type(), options.bfloat16);
  return model.Loss(batch.inputs, batch.targets);
}

// Ranks with different gradients would drift apart without an error. One comparison of one number
// shows that the reduction is bound to the trained parameters.
void CheckAgreement(const at::Tensor& grad_norm, ProcessGroup& group) {
  at::Tensor extremes = at::stack({grad_norm, -grad_norm});
  group.Max(extremes);
  // False for NaN, which Saver::CheckNumbers() reports.
  if (extremes[0].item<float>() > -extremes[1].item<float>()) {
    throw std::runtime_error("the ranks' gradients differ after the first step");
  }
}

// Whether any rank has a reason to stop, and which. Collective. kDone: none has.
TrainEnd WhyToStop(ProcessGroup& group, const Run& run, const StopSignal& stop_signal) {
  TrainEnd here = TrainEnd::kDone;
  if (run.stop_requested()) here = TrainEnd::kRequested;
  if (stop_signal.received() != 0) here = TrainEnd::kSignal;
  return static_cast<TrainEnd>(group.Largest(static_cast<int>(here)));
}

}  // namespace

double Validate(Gpt& model, const Tokens& text, const Options& options, ProcessGroup& group) {
  const at::NoGradGuard no_grad;
  const size_t count = WindowCount(text, options.seq_len);
  const size_t used = std::min(count, kValidationWindows);
  std::vector<size_t> mine;  // spread evenly over the text
  for (size_t i = group.rank(); i < used; i += group.world_size()) mine.push_back(i * count / used);
  at::Tensor total = at::zeros({2}, at::kDouble);  // loss * windows, windows
  for (size_t begin = 0; begin < mine.size(); begin += options.batch_size) {
    const size_t end = std::min(mine.size(), begin + options.batch_size);
    const std::vector<size_t> windows(mine.begin() + begin, mine.begin() + end);
    const Batch batch = MakeBatch(text, windows, options.seq_len, group.device());
    const double weight = static_cast<double>(windows.size());
    total +=
        at::tensor({Forward(model, batch, options).item<double>() * weight, weight}, at::kDouble);
  }
  group.Sum(total);
  return total[0].item<double>() / total[1].item<double>();
}

TrainEnd Train(const Options& options, const Corpus& corpus, ProcessGroup& group, Run& run,
               Saver& saver, const StopSignal& stop_signal,
               const std::function<void(const StepReport&)>& observe, std::optional<size_t> lag) {
  Gpt model(ShapeOf(options.model, options.seq_len, corpus.vocabulary, options.pad_vocabulary),
            options.seed);
  model.to(group.device());
  const std::vector<at::Tensor> parameters = model.parameters();
  torch::optim::AdamW optimizer = MakeAdamW(parameters, options.weight_decay);
  EpochSampler sampler(MakeSamplerOptions(options, corpus, group.world_size(), group.rank()));
  const Plan plan = MakePlan(options, sampler.batches_per_epoch());
  const CosineSchedule schedule{options.lr, options.min_lr, plan.warmup_steps, plan.steps};

  RunLog log(run);

  // Ddp binds to these tensors, so weights from a file are loaded before.
  const absl::StatusOr<int64_t> start = saver.Restore(model, optimizer, sampler);
  if (!start.ok()) throw RankError(RankError::kThisRank, std::string(start.status().message()));
  // A run that continues after its last step keeps the options of its training.
  if (*start < plan.steps || !saver.continues_run()) {
    run.Config(RunConfig(options, plan,
                         {.data_source = corpus.source,
                          .vocabulary = model.shape().vocabulary,
                          .parameters = model.parameter_count(),
                          .training_tokens = static_cast<int64_t>(corpus.train.size()),
                          .world_size = group.world_size(),
                          // Of the launcher: --nproc-per-node starts each rank without that flag.
                          .nproc_per_node = run.settings().local_world_size.value_or(1),
                          .nccl = group.device().is_cuda()}));
    if (group.rank() == 0 && !options.log_code.empty()) run.LogCode(options.log_code);
  }
  Ddp ddp(parameters, group);
  ReadBack read_back(group.device(), lag);
  struct Queued {
    StepReport report;
    std::vector<Value::Field> gradients;  // histograms; of this rank's row
  };
  std::deque<Queued> queued;  // steps whose numbers the device still computes
  auto last_report = SteadyClock::now();
  const auto report = [&](StepReport done, const std::vector<Value::Field>& gradients,
                          const ReadBack::Numbers& numbers) {
    done.loss = numbers.values[0];
    done.grad_norm = numbers.values[1];
    done.tokens_per_second =
        static_cast<double>(done.tokens) /
        std::chrono::duration<double>(SteadyClock::now() - last_report).count();
    if (options.log_every > 0 && (done.step % options.log_every == 0 || done.step == plan.steps)) {
      log.Train(done.step, done.epoch,
                {done.loss, done.lr, done.tokens_per_second, done.grad_norm});
    }
    log.Gradients(done.step, done.epoch, gradients);
    saver.CheckNumbers(done.step, done.loss, done.grad_norm);
    if (plan.Validates(done.step)) {
      done.val_loss = Validate(model, corpus.validation, options, group);
      log.Validation(done.step, done.epoch, *done.val_loss);
    }
    observe(done);
    last_report = SteadyClock::now();
  };
  int64_t step = *start;
  TrainEnd end = WhyToStop(group, run, stop_signal);  // while the data was loaded
  bool stop = end != TrainEnd::kDone;
  while (step < plan.steps && !stop) {
    ++step;
    StepReport done{
        .step = step, .steps = plan.steps, .epoch = plan.Epoch(step), .lr = schedule.At(step)};

    ZeroGradients(parameters);
    at::Tensor loss = at::zeros({}, group.device());
    const int64_t micro_batches = plan.MicroBatches(step);
    for (int64_t micro = 1; micro <= micro_batches; ++micro) {
      const Batch batch = MakeBatch(corpus.train, sampler.Next(), options.seq_len, group.device());
      // Until the last micro-batch, the gradients accumulate on this rank. The last backward pass
      // averages them over the ranks while it computes the rest.
      const Ddp::NoSync accumulate(ddp, /*on=*/micro < micro_batches);
      ddp.BeforeForward();
      const at::Tensor part = Forward(model, batch, options) / static_cast<double>(micro_batches);
      ddp.BeforeBackward();
      part.backward();
      loss += part.detach();
      done.tokens += batch.inputs.numel() * group.world_size();
    }
    std::vector<Value::Field> gradients;
    if (group.rank() == 0 && options.histograms > 0 && step % options.histograms == 0) {
      gradients = GradientHistograms(model);
    }
    const at::Tensor grad_norm = ClipGradients(parameters, options.grad_clip);
    if (step == *start + 1) CheckAgreement(grad_norm, group);
    SetLearningRate(optimizer, done.lr);
    Step(optimizer);

    // On a GPU this step is only queued now. Its numbers are read when the next step is queued.
    read_back.Push(step, at::stack({loss, grad_norm}));
    queued.push_back({done, std::move(gradients)});
    end = WhyToStop(group, run, stop_signal);
    stop = end != TrainEnd::kDone;
    const bool saves = saver.Due(step, stop ? step : plan.steps);
    // A checkpoint is written after the rows of its step, which are never logged again.
    const bool wait = plan.Validates(step) || step == plan.steps || saves || stop;
    while (const auto numbers = wait ? read_back.Last() : read_back.Next()) {
      report(queued.front().report, queued.front().gradients, *numbers);
      queued.pop_front();
    }
    if (saves) {
      log.AwaitDisk(step);    // on all ranks, before Save() writes
      log.AwaitCheckpoint();  // which Save() may remove
      Checkpoint checkpoint{.run_id = JobRunId(run),
                            .step = step,
                            .train_loss = loss.item<double>(),
                            .sampler = sampler.position()};
      AddState(model, optimizer, checkpoint);
      saver.Save(std::move(checkpoint), /*last=*/stop || step == plan.steps);
      if (options.log_checkpoints) log.Checkpoint(saver.newest_file(), step, options);
    }
  }
  log.AwaitCheckpoint();
  return step == plan.steps ? TrainEnd::kDone : end;
}

}  // namespace ranklog::trainer
