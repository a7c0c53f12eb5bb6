#include "service/deliver/wandb/documents/summary_document.h"

#include <cmath>
#include <utility>

#include "service/deliver/json/json_writer.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr char kRowsLost[] = "ranklog/rows_lost";
constexpr char kEnd[] = "ranklog/end";
constexpr double kMaxTimeUs = 9e18;  // fits in an int64_t
// Longer members are dropped from a summary over the limit.
constexpr size_t kLongMember = 64 << 10;

}  // namespace

std::string SummaryDocument(const model::Run& run, const RunClock& clock, model::Json summary,
                            const model::Json& before, uint64_t lost_rows, size_t max_bytes) {
  if (before.is_object()) {
    for (const auto& [key, value] : before.items()) {
      if (!summary.contains(key)) summary[key] = value;
    }
  }
  if (lost_rows > 0) summary[kRowsLost] = lost_rows;
  if (run.state != model::RunState::kRunning && !run.reason.empty()) summary[kEnd] = run.reason;
  const auto time = summary.find("_timestamp");
  int64_t runtime_us = 0;
  if (run.state != model::RunState::kRunning && run.ended_us > 0) {
    // Whole seconds, as in the official client.
    runtime_us = clock.RuntimeUs(run.ended_us) / 1000000 * 1000000;
  } else if (time != summary.end() && time->is_number()) {
    // A program may have set any number, including NaN.
    const double time_us = std::round(time->get<double>() * 1e6);
    if (time_us > 0 && time_us < kMaxTimeUs) {
      runtime_us = clock.RuntimeUs(static_cast<int64_t>(time_us));
    }
  }
  const bool imported = run.settings.imported;
  if (!imported || !summary.contains("_runtime")) {
    summary["_runtime"] = static_cast<double>(runtime_us) / 1e6;
  }
  if (!summary.contains("_wandb") || !summary["_wandb"].is_object())
    summary["_wandb"] = model::Json::object();
  if (!imported || !summary["_wandb"].contains("runtime")) {
    summary["_wandb"]["runtime"] = runtime_us / 1000000;
  }
  std::string text = ToJsonText(summary);
  if (text.size() <= max_bytes) return text;
  // A summary without its longest members is better than no summary.
  for (auto& [key, value] : summary.items()) {
    if (ToJsonText(value).size() > kLongMember) value = nullptr;
  }
  return ToJsonText(summary);
}

}  // namespace ranklog::deliver::wandb
