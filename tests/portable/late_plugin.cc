// A module that links libranklog.so, like an extension module of a scripting language.

#include <chrono>

#include "ranklog/ranklog.h"

// Logs `rows` rows. Returns whether they are durable.
extern "C" __attribute__((visibility("default"))) bool LogRows(int rows) {
  static ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  for (int i = 0; i < rows; ++i) {
    if (!run.Log({{"loss", i}})) return false;
  }
  return run.Flush(std::chrono::seconds(20)) == ranklog::FlushResult::kDurable;
}
