#include <ranklog/ranklog.h>

#include <cmath>

int main() {
  ranklog::Settings settings = ranklog::Settings::FromEnvironment();  // set by the launcher
  settings.project = "example";
  ranklog::Run run = ranklog::Init(settings);
  run.Config({{"lr", 3e-4}, {"model", ranklog::Value::Object({{"layers", 12}, {"name", "gpt2"}})}});
  for (int step = 0; step < 1000; ++step) {
    run.Log({{"train/loss", std::exp(-step / 300.0)}, {"wave", std::sin(step / 50.0)}}, step);
  }
  run.Finish(0);
}
