// A rank that logs a row with images, a table and HTML at step 7, after a row at step 6 that a daemon has.
// If there is a FILE, it prints "ready" and waits until FILE exists before that row. Then it prints how many
// values were left out, and why, and finishes or kills itself.
//
//   media_rank finish|die [FILE]

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>

#include "ranklog/ranklog.h"

namespace {

ranklog::Image Png(char width, size_t bytes) {
  std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\0\0\0\1", 24);
  png[19] = width;
  return ranklog::Image(png + std::string(bytes, 'x'), "of width " + std::to_string(width));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  run.Log({{"loss", 0.5}}, 6);
  if (run.Flush(std::chrono::minutes(1)) != ranklog::FlushResult::kDurable) return 4;
  if (argc == 3) {
    std::cout << "ready" << std::endl;
    while (!std::filesystem::exists(argv[2])) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  const bool logged =
      run.Log({{"eval/sample", Png(1, 3'000'000)},
               {"pair", ranklog::Images({Png(2, 10), Png(3, 10)})},
               {"predictions", ranklog::Table({"id", "label"}, {{1, "cat"}, {2, "dog"}})},
               {"report", ranklog::Html("<b>done</b>")},
               {"loss", 0.25}},
              7);
  if (!logged) return 5;
  if (std::string(argv[1]) == "die") raise(SIGKILL);
  const ranklog::Stats stats = run.stats();
  std::cout << "left out " << stats.lost_values << ": " << stats.last_error << std::endl;
  return run.Finish(0) == ranklog::FlushResult::kDurable ? 0 : 3;
}
