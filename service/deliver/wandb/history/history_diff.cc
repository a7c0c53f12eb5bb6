#include "service/deliver/wandb/history/history_diff.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "service/deliver/wandb/api/server_json.h"

namespace ranklog::deliver::wandb {
namespace {

using nlohmann::json;

std::optional<int64_t> StepOf(const json& row) {
  const auto step = row.is_object() ? row.find("_step") : row.end();
  if (step == row.end()) return std::nullopt;
  if (step->is_number_integer()) return step->get<int64_t>();
  constexpr double kWhole = 9007199254740992.0;  // 2^53: above it a double is not exact
  if (!step->is_number() || std::fabs(step->get<double>()) > kWhole) return std::nullopt;
  return static_cast<int64_t>(step->get<double>());
}

// Describes the first difference of a line; nullopt if there is no difference.
std::optional<std::string> Compare(const json& want, const json& with_added, const json& got) {
  for (const auto& [key, value] : want.items()) {
    if (key == "_runtime") continue;  // depends on what was known of earlier attempts
    const auto found = got.find(key);
    if (found == got.end()) return absl::StrCat(ShownValue(key), " is missing");
    if (!SameValue(*found, value)) {
      return absl::StrCat(ShownValue(key), " is ", ShownValue(*found), ", not ", ShownValue(value));
    }
  }
  for (const auto& [key, value] : got.items()) {
    if (want.contains(key)) continue;
    const auto added = with_added.find(key);
    if (added != with_added.end() ? SameValue(*added, value) : key.rfind('_', 0) == 0) continue;
    return absl::StrCat(ShownValue(key), " is ", ShownValue(value), ", not ",
                        added != with_added.end() ? ShownValue(*added) : "absent");
  }
  return std::nullopt;
}

void AddGap(uint64_t row, HistoryDiff* diff) {
  ++diff->missing;
  if (!diff->gaps.empty() && diff->gaps.back().last + 1 == row) {
    diff->gaps.back().last = row;
  } else if (diff->gaps.size() < HistoryDiff::kKept) {
    diff->gaps.push_back({row, row});
  }
}

void AddDifference(uint64_t row, std::string text, HistoryDiff* diff) {
  ++diff->differing;
  if (diff->differences.size() < HistoryDiff::kKept) {
    diff->differences.push_back({row, std::move(text)});
  }
}

// Compares one row with the server's lines for its step.
void AddRow(const ExpectedLine& expected, const std::vector<json>& lines, bool shared,
            HistoryDiff* diff) {
  const json want = ParseServerJson(expected.line);
  const json with_added =
      expected.with_added.empty() ? json::object() : ParseServerJson(expected.with_added);
  uint64_t same = 0;
  std::optional<std::string> difference;
  for (const json& line : lines) {
    std::optional<std::string> found = Compare(want, with_added, line);
    if (!found.has_value()) ++same;
    if (found.has_value() && !difference.has_value()) difference = std::move(found);
  }
  const uint64_t others = lines.size() - same;
  if (same > 0) {
    ++(expected.bare ? diff->bare : diff->matching);
    diff->duplicates += same - 1 + (shared ? 0 : others);
  } else if (others == 0) {
    AddGap(expected.row, diff);
  } else {
    AddDifference(expected.row, *std::move(difference), diff);
    if (!shared) diff->duplicates += others - 1;
  }
}

}  // namespace

void AddPage(absl::Span<const ExpectedLine> expected, absl::Span<const std::string> lines,
             bool shared, HistoryDiff* diff) {
  std::map<int64_t, std::vector<json>> by_step;
  for (const std::string& line : lines) {
    json row = ParseServerJson(line);
    if (const std::optional<int64_t> step = StepOf(row); step.has_value()) {
      by_step[*step].push_back(std::move(row));
    } else {
      ++diff->unexpected;
    }
  }
  for (const ExpectedLine& each : expected) {
    const auto found = by_step.find(each.step);
    AddRow(each, found == by_step.end() ? std::vector<json>() : found->second, shared, diff);
    if (found != by_step.end()) by_step.erase(found);
  }
  if (shared) return;
  for (const auto& [step, rows] : by_step) diff->unexpected += rows.size();
}

}  // namespace ranklog::deliver::wandb
