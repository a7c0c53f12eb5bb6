// The functions of ranklog/c.h that write an item: what is logged beside rows.

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "client/base/text/fields.h"
#include "client/base/uncancelled.h"
#include "client/c_handles.h"
#include "client/run/run_state.h"
#include "client/values.h"
#include "ranklog/c.h"

namespace {

using ranklog::MetricOptions;
using ranklog::internal::RunState;
using ranklog::internal::StateOf;
using ranklog::internal::Uncancelled;
using ranklog::internal::View;

// Fills an item with `convert`, and writes it.
template <typename Convert>
bool AddItem(RunState* state, Convert convert) {
  if (state == nullptr) return false;
  const Uncancelled uncancelled;
  try {
    ranklog::v1::Item item;
    const absl::Status status = convert(&item);
    return status.ok() ? state->AddItem(item) : state->RefuseItem(std::string(status.message()));
  } catch (...) {
    return state->RefuseItem("no memory");
  }
}

template <typename Convert>
bool AddFields(RunState* state, const ranklog_field* fields, size_t count, Convert convert) {
  if (state != nullptr && fields == nullptr && count > 0) return state->RefuseItem("no memory");
  return AddItem(state, [&](ranklog::v1::Item* item) {
    return ranklog::internal::ToProto({fields, count}, convert(item));
  });
}

MetricOptions OptionsOf(const ranklog_metric_options* given) {
  ranklog_metric_options from = RANKLOG_METRIC_OPTIONS_INIT;
  if (given != nullptr) std::memcpy(&from, given, std::min(given->size, sizeof from));
  MetricOptions options;
  options.step_metric = View(from.step_metric, from.step_metric_bytes);
  options.step_sync = from.step_sync;
  options.hidden = from.hidden;
  for (size_t i = 0; from.summary != nullptr && i < from.summary_count; ++i) {
    options.summary.emplace_back(from.summary[i] == nullptr ? "" : from.summary[i]);
  }
  if (from.goal != nullptr) options.goal = from.goal;
  return options;
}

// Those of an older header lack the last members.
ranklog_alert_options OptionsOf(const ranklog_alert_options* given) {
  ranklog_alert_options options = RANKLOG_ALERT_OPTIONS_INIT;
  if (given != nullptr) std::memcpy(&options, given, std::min(given->size, sizeof options));
  return options;
}

}  // namespace

bool ranklog_config(ranklog_run* run, const ranklog_field* fields, size_t count) noexcept {
  return AddFields(StateOf(run), fields, count,
                   [](ranklog::v1::Item* item) { return item->mutable_config(); });
}

bool ranklog_summary(ranklog_run* run, const ranklog_field* fields, size_t count) noexcept {
  return AddFields(StateOf(run), fields, count,
                   [](ranklog::v1::Item* item) { return item->mutable_summary(); });
}

bool ranklog_mark_preempting(ranklog_run* run) noexcept {
  return AddItem(StateOf(run), [](ranklog::v1::Item* item) {
    item->set_preempting(true);
    return absl::OkStatus();
  });
}

bool ranklog_capture_console(ranklog_run* run) noexcept {
  if (run == nullptr) return false;
  const Uncancelled uncancelled;
  try {
    return StateOf(run)->CaptureConsole();
  } catch (...) {
    return StateOf(run)->RefuseItem("no memory");
  }
}

bool ranklog_log_console(ranklog_run* run, const ranklog_console_line* lines,
                         size_t count) noexcept {
  if (run != nullptr && lines == nullptr && count > 0) {
    return StateOf(run)->RefuseItem("no memory");
  }
  return AddItem(StateOf(run), [&](ranklog::v1::Item* item) {
    for (size_t i = 0; i < count; ++i) {
      ranklog::v1::ConsoleLine* const line = item->mutable_console()->add_line();
      line->set_number(lines[i].number);
      line->set_time_us(lines[i].time_us);
      line->set_error(lines[i].error);
      line->set_text(std::string(View(lines[i].text, lines[i].text_bytes)));
    }
    return absl::OkStatus();
  });
}

bool ranklog_alert(ranklog_run* run, const ranklog_alert_options* options) noexcept {
  return AddItem(StateOf(run), [&](ranklog::v1::Item* item) {
    return ranklog::internal::ToProto(OptionsOf(options), item->mutable_alert());
  });
}

bool ranklog_define_metric(ranklog_run* run, const char* name, size_t name_bytes,
                           const ranklog_metric_options* options) noexcept {
  return AddItem(StateOf(run), [&](ranklog::v1::Item* item) {
    return ranklog::internal::ToProto(View(name, name_bytes), OptionsOf(options),
                                      item->mutable_metric());
  });
}
