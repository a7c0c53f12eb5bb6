#include "trainer/train.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "trainer/optimizer.h"
#include "trainer/sampler.h"
#include "trainer/schedule.h"

namespace ranklog::trainer {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t kValidationWindows =
    32;  // over all ranks: a noise of about 0.02 nats, in the time of 2 steps

struct Batch {
  at::Tensor inputs;   // (batch, time), int64
  at::Tensor targets;  // (batch, time), int64: the input's next tokens
};

// The windows of `seq_len` tokens that begin at window * seq_len.
Batch MakeBatch(const std::vector<uint8_t>& text, const std::vector<size_t>& windows,
                int64_t seq_len) {
  const at::Tensor tokens =
      at::empty({static_cast<int64_t>(windows.size()), seq_len + 1}, at::kLong);
  int64_t* out = tokens.data_ptr<int64_t>();
  for (const size_t window : windows) {
    out = std::copy_n(text.begin() + window * seq_len, seq_len + 1, out);
  }
  return {tokens.slice(1, 0, seq_len), tokens.slice(1, 1, seq_len + 1)};
}

// Ranks whose gradients differ would drift apart without an error; comparing one number once shows
// that the reduction is bound to the parameters that are trained.
void CheckAgreement(double grad_norm, ProcessGroup& group) {
  at::Tensor extremes = at::tensor({grad_norm, -grad_norm}, at::kDouble);
  group.Max(extremes);
  if (extremes[0].item<double>() != -extremes[1].item<double>()) {
    throw std::runtime_error("the ranks' gradients differ after the first step");
  }
}

}  // namespace

double Validate(const Gpt& model, const std::vector<uint8_t>& text, const Options& options,
                ProcessGroup& group) {
  const at::NoGradGuard no_grad;
  const size_t count = WindowCount(text, options.seq_len);
  const size_t used = std::min(count, kValidationWindows);
  std::vector<size_t> mine;  // spread evenly over the text
  for (size_t i = group.rank(); i < used; i += group.world_size()) mine.push_back(i * count / used);
  at::Tensor total = at::zeros({2}, at::kDouble);  // loss * windows, windows
  for (size_t begin = 0; begin < mine.size(); begin += options.batch_size) {
    const size_t end = std::min(mine.size(), begin + options.batch_size);
    const std::vector<size_t> windows(mine.begin() + begin, mine.begin() + end);
    const Batch batch = MakeBatch(text, windows, options.seq_len);
    const double weight = static_cast<double>(windows.size());
    total += at::tensor({model.Loss(batch.inputs, batch.targets).item<double>() * weight, weight},
                        at::kDouble);
  }
  group.Sum(total);
  return total[0].item<double>() / total[1].item<double>();
}

void Train(const Options& options, const Corpus& corpus, Gpt& model, ProcessGroup& group,
           const std::function<void(const StepReport&)>& report) {
  Ddp ddp(model.values(), group);
  Optimizer optimizer(model.parameters(), options.weight_decay);
  EpochSampler sampler(WindowCount(corpus.train, options.seq_len), group.world_size(), group.rank(),
                       options.seed);
  const CosineSchedule schedule{options.lr, options.min_lr, options.warmup_steps, options.steps};
  const int64_t tokens_per_step =
      options.batch_size * options.grad_accum * options.seq_len * group.world_size();

  for (int64_t step = 1; step <= options.steps; ++step) {
    StepReport done{.step = step, .lr = schedule.At(step)};
    const auto begin = SteadyClock::now();
    optimizer.ZeroGradients();
    for (int64_t micro = 1; micro <= options.grad_accum; ++micro) {
      const Batch batch =
          MakeBatch(corpus.train, sampler.Next(options.batch_size), options.seq_len);
      const Ddp::NoSync accumulate(ddp, /*on=*/micro < options.grad_accum);
      ddp.BeforeForward();
      const at::Tensor loss =
          model.Loss(batch.inputs, batch.targets) / static_cast<double>(options.grad_accum);
      ddp.BeforeBackward();
      loss.backward();
      done.loss += loss.item<double>();
    }
    done.grad_norm = optimizer.ClipGradients(options.grad_clip).item<double>();
    if (step == 1) CheckAgreement(done.grad_norm, group);
    optimizer.Step(done.lr);
    done.tokens_per_second =
        tokens_per_step / std::chrono::duration<double>(SteadyClock::now() - begin).count();
    if (options.val_every > 0 && (step % options.val_every == 0 || step == options.steps)) {
      done.val_loss = Validate(model, corpus.validation, options, group);
    }
    report(done);
  }
}

}  // namespace ranklog::trainer
