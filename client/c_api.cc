// The functions of ranklog/c.h on runs and rows. Those on settings are in settings/c_settings.cc, those
// on items and uploads in c_items.cc and c_uploads.cc.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/base/hash/sha1.h"
#include "client/base/text/fields.h"
#include "client/base/text/keys.h"
#include "client/base/uncancelled.h"
#include "client/c_handles.h"
#include "client/ring/handles.h"
#include "client/run/log_row.h"
#include "client/run/run_state.h"
#include "client/settings/c_settings.h"
#include "client/settings/environment.h"
#include "ranklog/c.h"

namespace {

using ranklog::FlushResult;
using ranklog::Stats;
using ranklog::internal::CopyText;
using ranklog::internal::KeyError;
using ranklog::internal::RingWriter;
using ranklog::internal::RowShape;
using ranklog::internal::RowStep;
using ranklog::internal::RunState;
using ranklog::internal::StateOf;
using ranklog::internal::Uncancelled;
using ranklog::internal::View;

RunState::Stops StopsOf(ranklog_stop_wait stops, void* user) {
  if (stops == nullptr) return nullptr;
  return [stops, user] { return stops(user); };
}

// What RunState::LogRow() takes: null for a row without a step.
const int64_t* Given(const int64_t& step) { return step == RANKLOG_NO_STEP ? nullptr : &step; }

// Logs a row by `write`. A null list of `count` values is invalid.
template <typename Fn>
bool LogRow(ranklog_run* run, const void* list, size_t count, const int64_t& step,
            const Fn& write) {
  if (run == nullptr) return false;
  if (list == nullptr && count > 0) [[unlikely]] {
    return StateOf(run)->LogRow(Given(step), [](RingWriter&, const RowStep&) {
      return ranklog::internal::WriteResult::kInvalid;
    });
  }
  return StateOf(run)->LogRow(Given(step), write);
}

Stats StatsOf(const ranklog_run* run) {
  const Uncancelled uncancelled;
  try {
    return run == nullptr ? Stats() : StateOf(run)->GetStats();
  } catch (...) {  // no memory
    return Stats();
  }
}

template <typename Read>
std::string TextOf(const ranklog_run* run, const Read& read) noexcept {
  const Uncancelled uncancelled;
  try {
    return run == nullptr ? std::string() : read(*StateOf(run));
  } catch (...) {  // no memory
    return std::string();
  }
}

}  // namespace

ranklog_run* ranklog_init(const ranklog_settings* settings) noexcept {
  const Uncancelled uncancelled;
  try {
    const std::shared_ptr<RunState> state =
        RunState::Create(settings == nullptr ? ranklog::internal::SettingsFromEnvironment()
                                             : *ranklog::internal::FromHandle(settings));
    state->Hold();
    return reinterpret_cast<ranklog_run*>(state.get());
  } catch (...) {  // no memory
    return nullptr;
  }
}

ranklog_run* ranklog_attach(const char* handle, const ranklog_settings* settings) noexcept {
  const Uncancelled uncancelled;
  try {
    ranklog::Settings own = settings == nullptr ? ranklog::internal::SettingsFromEnvironment()
                                                : *ranklog::internal::FromHandle(settings);
    own.handle = handle == nullptr || *handle == '\0' ? ranklog::header::kNoHandle : handle;
    return ranklog_init(ranklog::internal::ToHandle(&own));
  } catch (...) {  // no memory
    return nullptr;
  }
}

void ranklog_release(ranklog_run* run, bool failed) noexcept {
  if (run == nullptr) return;
  const Uncancelled uncancelled;
  const std::shared_ptr<RunState> state = StateOf(run)->Release();
  try {
    const std::chrono::milliseconds timeout = state->settings().finish_timeout;
    state->Finish(failed ? 1 : 0, state->DestructorWaits() ? timeout : std::chrono::milliseconds(0),
                  /*by_destructor=*/true);
  } catch (...) {  // no memory: the ring has the state of the run
  }
}

const ranklog_settings* ranklog_run_settings(const ranklog_run* run) noexcept {
  static const ranklog::Settings* const kNone = new ranklog::Settings;
  return ranklog::internal::ToHandle(run == nullptr ? kNone : &StateOf(run)->settings());
}

bool ranklog_log(ranklog_run* run, const ranklog_field* metrics, size_t count,
                 int64_t step) noexcept {
  return LogRow(run, metrics, count, step, [&](RingWriter& writer, const RowStep& row_step) {
    return writer.Write(std::span(metrics, count), row_step);
  });
}

bool ranklog_log_media(ranklog_run* run, const ranklog_field* metrics, size_t count,
                       int64_t step) noexcept {
  if (run == nullptr) return false;
  if (metrics == nullptr) return ranklog_log(run, metrics, count, step);
  const Uncancelled uncancelled;
  return StateOf(run)->LogMedia(std::span(metrics, count), Given(step));
}

const ranklog_key* ranklog_get_key(ranklog_run* run, const char* key, size_t key_bytes) noexcept {
  const Uncancelled uncancelled;
  try {
    const std::string_view text = View(key, key_bytes);
    const std::string error = KeyError(text);
    if (error.empty()) {
      return reinterpret_cast<const ranklog_key*>(ranklog::internal::InternKey(text));
    }
    if (run != nullptr) StateOf(run)->AddLeftOut(error);
  } catch (...) {  // no memory
  }
  return nullptr;
}

bool ranklog_log_keys(ranklog_run* run, const ranklog_key_value* values, size_t count,
                      int64_t step) noexcept {
  return LogRow(run, values, count, step, [&](RingWriter& writer, const RowStep& row_step) {
    return writer.Write(std::span(values, count), row_step);
  });
}

const ranklog_row* ranklog_row_new(ranklog_run* run, const char* const* keys,
                                   const size_t* key_bytes, size_t count) noexcept {
  const Uncancelled uncancelled;
  try {
    if (count == 0 || keys == nullptr) {
      if (run != nullptr) StateOf(run)->SetLastError("a row handle has no keys");
      return nullptr;
    }
    std::vector<std::string_view> views;
    views.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      const char* const key = keys[i] == nullptr ? "" : keys[i];
      views.push_back(View(key, key_bytes == nullptr ? std::strlen(key) : key_bytes[i]));
    }
    const std::shared_ptr<const RowShape> row = ranklog::internal::InternRow(views);
    for (const std::string_view key : views) {
      const std::string error = KeyError(key);
      if (!error.empty() && run != nullptr) StateOf(run)->AddLeftOut(error);
    }
    return reinterpret_cast<const ranklog_row*>(row.get());
  } catch (...) {  // no memory
    return nullptr;
  }
}

// The table of rows keeps all of them, because rings know them by their numbers.
void ranklog_row_free(const ranklog_row*) noexcept {}

bool ranklog_log_row(ranklog_run* run, const ranklog_row* row, const double* values, size_t count,
                     int64_t step) noexcept {
  static const RowShape kNone{};  // takes no values
  const RowShape& shape = row == nullptr ? kNone : *reinterpret_cast<const RowShape*>(row);
  return LogRow(run, values, count, step, [&](RingWriter& writer, const RowStep& row_step) {
    return writer.Write(shape, std::span(values, count), row_step);
  });
}

int ranklog_flush(ranklog_run* run, int64_t timeout_ms) noexcept {
  return ranklog_flush_until(run, timeout_ms, nullptr, nullptr);
}

int ranklog_flush_until(ranklog_run* run, int64_t timeout_ms, ranklog_stop_wait stops,
                        void* user) noexcept {
  if (run == nullptr) return RANKLOG_DURABLE;
  const Uncancelled uncancelled;
  try {
    return static_cast<int>(
        StateOf(run)->Flush(std::chrono::milliseconds(timeout_ms), StopsOf(stops, user)));
  } catch (...) {
    return RANKLOG_SPOOLED;
  }
}

int ranklog_finish(ranklog_run* run, int exit_code) noexcept {
  return ranklog_finish_until(run, exit_code, -1, nullptr, nullptr);
}

int ranklog_finish_until(ranklog_run* run, int exit_code, int64_t timeout_ms,
                         ranklog_stop_wait stops, void* user) noexcept {
  if (run == nullptr) return RANKLOG_DURABLE;
  const Uncancelled uncancelled;
  try {
    RunState* const state = StateOf(run);
    std::chrono::milliseconds timeout = state->settings().finish_timeout;
    if (timeout_ms >= 0) timeout = std::min(timeout, std::chrono::milliseconds(timeout_ms));
    return static_cast<int>(
        state->Finish(exit_code, timeout, /*by_destructor=*/false, StopsOf(stops, user)));
  } catch (...) {
    return RANKLOG_SPOOLED;
  }
}

static_assert(static_cast<int>(FlushResult::kDurable) == RANKLOG_DURABLE);
static_assert(static_cast<int>(FlushResult::kSpooled) == RANKLOG_SPOOLED);
static_assert(static_cast<int>(FlushResult::kUndelivered) == RANKLOG_UNDELIVERED);

void ranklog_get_stats(const ranklog_run* run, ranklog_stats* stats) noexcept {
  if (stats == nullptr) return;
  const Stats from = StatsOf(run);
  const ranklog_stats all = {.size = stats->size,
                             .rows_logged = from.rows_logged,
                             .rows_durable = from.rows_durable,
                             .lost_ring_full = from.lost_ring_full,
                             .lost_invalid = from.lost_invalid,
                             .lost_step_behind = from.lost_step_behind,
                             .lost_too_large = from.lost_too_large,
                             .lost_after_finish = from.lost_after_finish,
                             .lost_damaged = from.lost_damaged,
                             .lost_values = from.lost_values,
                             .updates_pending = from.updates_pending,
                             .updates_refused = from.updates_refused,
                             .connected = from.connected};
  std::memcpy(stats, &all, std::min(stats->size, sizeof all));
}

size_t ranklog_last_error(const ranklog_run* run, char* buffer, size_t size) noexcept {
  return CopyText(StatsOf(run).last_error, buffer, size);
}

size_t ranklog_run_id(const ranklog_run* run, char* buffer, size_t size) noexcept {
  return CopyText(StatsOf(run).run_id, buffer, size);
}

size_t ranklog_url(const ranklog_run* run, char* buffer, size_t size) noexcept {
  return CopyText(TextOf(run, [](const RunState& state) { return state.Url(); }), buffer, size);
}

bool ranklog_stop_requested(const ranklog_run* run) noexcept {
  return run != nullptr && StateOf(run)->stop_requested();
}

size_t ranklog_handle(const ranklog_run* run, char* buffer, size_t size) noexcept {
  return CopyText(TextOf(run, [](const RunState& state) { return state.Handle(); }), buffer, size);
}

size_t ranklog_run_id_for(const char* save_dir, size_t save_dir_bytes, const char* experiment,
                          size_t experiment_bytes, char* buffer, size_t size) noexcept {
  const Uncancelled uncancelled;
  try {
    std::string text(View(save_dir, save_dir_bytes));
    text.push_back('/');
    text.append(View(experiment, experiment_bytes));
    return CopyText(ranklog::internal::Sha1(text), buffer, size);
  } catch (...) {  // no memory
    return CopyText("", buffer, size);
  }
}
