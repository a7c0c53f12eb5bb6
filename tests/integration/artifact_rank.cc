// A rank that logs the files of PATH as an artifact, and the file PATH/notes.txt as a file of the run.
// PATH may be several paths with colons in between; then there is no such file.
// Prints "staged" or "refused: WHY" and the milliseconds of the call. Then it overwrites and removes
// the files, and finishes or kills itself.
//
//   artifact_rank PATH finish|die
//
// Or saves files of PATH: "end.txt" at the end, and "live.txt", which it changes once the tracker could have the first.
//
//   artifact_rank PATH save|save-die

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>

#include "ranklog/ranklog.h"

namespace {

// Waits for a file "go" between the two versions, and "end" before the end.
int SaveFiles(const std::string& path, bool die) {
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  run.Log({{"loss", 0.5}}, 7);
  const auto wait = [&path](const char* name) {
    while (!std::filesystem::exists(path + "/" + name)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  };
  const ranklog::Upload end = run.Save(path + "/end.txt", "", ranklog::SavePolicy::kEnd);
  std::ofstream(path + "/live.txt") << "first";
  const ranklog::Upload live = run.Save(path + "/live.txt", "", ranklog::SavePolicy::kLive);
  if (!live.Wait()) return 4;
  wait("go");
  std::ofstream(path + "/live.txt") << "the second";
  wait("end");
  if (end.state() != ranklog::Upload::State::kStaging) return 5;
  std::ofstream(path + "/end.txt") << "at the end";
  std::ofstream(path + "/live.txt") << "the last one";
  if (die) raise(SIGKILL);
  const bool durable = run.Finish(0) == ranklog::FlushResult::kDurable;
  if (end.state() != ranklog::Upload::State::kStaged || run.stats().updates_refused != 0) return 6;
  const ranklog::Upload late = run.Save(path + "/end.txt", "", ranklog::SavePolicy::kEnd);
  if (late.state() != ranklog::Upload::State::kRefused) return 7;
  return durable ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string path = argv[1], then = argv[2];
  if (then == "save" || then == "save-die") return SaveFiles(path, then == "save-die");
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
  if (refused == 0 && !run.UseArtifact("gpt:latest").Wait()) return 8;
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
  if (then == "die") raise(SIGKILL);
  const bool durable = run.Finish(0) == ranklog::FlushResult::kDurable;
  if (run.stats().updates_refused != refused) return 5;
  return durable ? 0 : 3;
}
