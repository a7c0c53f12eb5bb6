#include "tests/trainer/trainer_rank.h"

#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  const std::vector<std::string> arguments(argv + (argc > 1 ? 2 : 1), argv + argc);
  if (kind == "gradients") return ranklog::trainer::GradientRank(arguments);
  if (kind == "training") return ranklog::trainer::TrainRank(arguments);
  if (kind == "turns") return ranklog::trainer::TurnsRank(arguments);
  std::cerr << "Usage: trainer_rank gradients|training DIR ..., or trainer_rank turns MODEL ...\n";
  return 2;
}
