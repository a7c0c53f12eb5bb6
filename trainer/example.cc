// Your own training loop with Ranklog.

#include <ranklog/ranklog.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

int main() {
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());  // 1
  torch::nn::Linear model(8, 1);
  torch::optim::AdamW optimizer(model->parameters(), /*lr=*/1e-2);
  run.Config({{"lr", 1e-2}, {"steps", 200}});                            // 2
  const ranklog::RowHandle row = run.Row({"train/loss", "train/norm"});  // 3
  for (int step = 1; step <= 200; ++step) {
    const at::Tensor inputs = at::randn({32, 8});
    const at::Tensor loss = (model->forward(inputs) - inputs.sum(1, true)).square().mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    const double values[] = {loss.item<double>(), model->weight.norm().item<double>()};
    run.Log(row, values, step);  // 4
  }
  run.Finish();  // 5
}
