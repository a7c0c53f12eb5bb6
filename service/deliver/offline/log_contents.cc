#include "service/deliver/offline/log_contents.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/deliver/offline/console_text.h"

namespace ranklog::deliver::offline {
namespace {

using wandb_internal::Record;

absl::optional<int64_t> PlaceOf(const Record& record, char stream) {
  const absl::string_view uuid = record.uuid();
  int64_t number = 0;
  if (uuid.empty() || uuid[0] != stream || !absl::SimpleAtoi(uuid.substr(1), &number)) {
    return absl::nullopt;
  }
  return number;
}

void PassPlace(const Record& record, char stream, absl::optional<int64_t>* next) {
  if (const auto place = PlaceOf(record, stream)) *next = std::max(next->value_or(0), *place + 1);
}

template <typename Changes>
void ApplyItems(const Changes& changes, std::map<std::string, std::string>* values) {
  for (const auto& item : changes.update()) (*values)[item.key()] = item.value_json();
  for (const auto& item : changes.remove()) values->erase(item.key());
}

void AddConsoleLine(const Record& record, LogContents* contents) {
  const auto place = PlaceOf(record, kConsolePlace);
  if (!place) return;
  const bool error = record.output_raw().output_type() == wandb_internal::OutputRawRecord::STDERR;
  contents->has_output[error ? 1 : 0] = true;
  std::deque<LogContents::ConsoleLine>& lines = contents->console;
  const auto found = std::find_if(lines.begin(), lines.end(),
                                  [&](const auto& line) { return line.number == *place; });
  const size_t width = ConsoleWidth(record.output_raw().line());
  if (found != lines.end()) {
    found->width = width;
    return;
  }
  lines.push_back({.number = *place, .error = error, .width = width});
  const auto same = [&](const auto& line) { return line.error == error; };
  if (std::count_if(lines.begin(), lines.end(), same) >
      static_cast<ptrdiff_t>(LogContents::kConsoleWindow)) {
    lines.erase(std::find_if(lines.begin(), lines.end(), same));
  }
}

}  // namespace

std::string PlaceText(char stream, int64_t number) {
  return absl::StrCat(absl::string_view(&stream, 1), number);
}

void LogContents::Apply(const Record& record) {
  ++records;
  last_alert.clear();
  switch (record.record_type_case()) {
    case Record::kRun: {
      ApplyItems(record.run().config(), &config);
      wandb_internal::RunRecord update = record.run();
      update.clear_config();
      if (update.tags_size() > 0) run.clear_tags();
      run.MergeFrom(update);
      break;
    }
    case Record::kConfig:
      ApplyItems(record.config(), &config);
      break;
    case Record::kMetric: {
      const wandb_internal::MetricRecord& metric = record.metric();
      metrics[metric.name().empty() ? metric.glob_name() : metric.name()] = metric;
      break;
    }
    case Record::kEnvironment:
      environment.MergeFrom(record.environment());  // as `wandb sync` does
      break;
    case Record::kSummary:
      ApplyItems(record.summary(), &summary);
      break;
    case Record::kHistory:
      PassPlace(record, kHistoryPlace, &next_history);
      break;
    case Record::kStats:
      PassPlace(record, kEventPlace, &next_event);
      break;
    case Record::kOutputRaw:
      PassPlace(record, kConsolePlace, &next_console);
      AddConsoleLine(record, this);
      break;
    case Record::kFiles:
      for (const auto& file : record.files().files()) files.insert(file.path());
      break;
    case Record::kArtifact:
      artifacts.insert(record.artifact().client_id());
      break;
    case Record::kAlert:
      last_alert = record.alert().SerializeAsString();
      break;
    case Record::kPreempting:
      preempting = true;
      break;
    case Record::kExit:
      exit_code = record.exit().exit_code();
      break;
    default:
      break;
  }
}

void LogContents::BeginLog() {
  LogContents next;
  next.run = std::move(run);
  next.config = std::move(config);
  next.metrics = std::move(metrics);
  next.environment = std::move(environment);
  next.summary = std::move(summary);
  next.next_history = next_history;
  next.next_event = next_event;
  next.next_console = next_console;
  *this = std::move(next);
}

}  // namespace ranklog::deliver::offline
