// A rank that logs the files of PATH as an artifact, and the file PATH/notes.txt as a file of the run.
// PATH may be several paths with colons in between; then there is no such file.
// Prints "staged" or "refused: WHY" and the milliseconds of the call. Then it overwrites and removes
// the files, and finishes or kills itself.
//
//   artifact_rank PATH finish|die

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "ranklog/ranklog.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string path = argv[1];
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  run.Log({{"loss", 0.5}}, 7);
  const auto before = std::chrono::steady_clock::now();
  ranklog::Artifact artifact;
  artifact.name = "gpt";
  artifact.type = "model";
  std::istringstream paths(path);
  for (std::string one; std::getline(paths, one, ':');) artifact.paths.push_back(one);
  artifact.aliases = {"latest", "step-7"};
  artifact.metadata = {{"loss", 0.5}};
  const ranklog::Upload upload = run.LogArtifact(artifact);
  const ranklog::Upload notes = run.Save(path + "/notes.txt", "notes/today.txt");
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - before;
  const uint64_t refused = (upload.Wait() ? 0 : 1) + (notes.Wait() ? 0 : 1);
  if (refused == 0) {
    std::cout << "staged";
  } else {
    std::cout << "refused: " << upload.error();
  }
  std::cout << "\ncalls took " << took.count() << " ms" << std::endl;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.is_regular_file()) std::ofstream(entry.path()) << "changed";
  }
  std::filesystem::remove_all(path, error);
  if (std::string(argv[2]) == "die") raise(SIGKILL);
  const bool durable = run.Finish(0) == ranklog::FlushResult::kDurable;
  if (run.stats().updates_refused != refused) return 5;
  return durable ? 0 : 3;
}
