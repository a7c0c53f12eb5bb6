// The functions of ranklog/c.h on runs. Those on settings are in settings/c_settings.cc.
//
// A ranklog_run is a RunState, a ranklog_key a std::string, a ranklog_row a RowShape, and a
// ranklog_upload a std::shared_ptr<Upload>: each function casts, stops exceptions, and calls the
// function that does the work.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/base/hash/sha1.h"
#include "client/base/text/keys.h"
#include "client/base/uncancelled.h"
#include "client/content/code_files.h"
#include "client/ring/handles.h"
#include "client/run/log_row.h"
#include "client/run/run_state.h"
#include "client/settings/c_settings.h"
#include "client/settings/environment.h"
#include "client/values.h"
#include "ranklog/c.h"

namespace {

using ranklog::FlushResult;
using ranklog::MetricOptions;
using ranklog::Stats;
using ranklog::internal::KeyError;
using ranklog::internal::RingWriter;
using ranklog::internal::RowShape;
using ranklog::internal::RowStep;
using ranklog::internal::RunState;
using ranklog::internal::Uncancelled;
using ranklog::internal::Upload;

RunState* StateOf(ranklog_run* run) { return reinterpret_cast<RunState*>(run); }
const RunState* StateOf(const ranklog_run* run) { return reinterpret_cast<const RunState*>(run); }

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

std::string_view View(const char* text, size_t bytes) {
  return text == nullptr ? std::string_view() : std::string_view(text, bytes);
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

const Upload& UploadOf(const ranklog_upload* upload) {
  return **reinterpret_cast<const std::shared_ptr<Upload>*>(upload);
}

// Null without memory.
template <typename Make>
ranklog_upload* NewUpload(ranklog_run* run, const Make& make) {
  if (run == nullptr) return nullptr;
  const Uncancelled uncancelled;
  try {
    return reinterpret_cast<ranklog_upload*>(new std::shared_ptr<Upload>(make(StateOf(run))));
  } catch (...) {
    StateOf(run)->RefuseItem("no memory");
    return nullptr;
  }
}

std::shared_ptr<Upload> LogArtifact(RunState* state, const ranklog_artifact& artifact,
                                    ranklog::internal::FindFiles find) {
  ranklog::v1::Item item;
  const absl::Status status = ranklog::internal::ToProto(artifact, item.mutable_artifact());
  if (!status.ok()) return state->RefuseUpload(std::string(status.message()));
  std::vector<std::string> paths;
  for (size_t i = 0; i < artifact.path_count; ++i) {
    paths.emplace_back(artifact.paths[i] == nullptr ? "" : artifact.paths[i]);
  }
  return state->StageArtifact(std::move(item), std::move(paths), std::move(find));
}

size_t Write(std::string_view text, char* buffer, size_t size) {
  if (buffer != nullptr && size > 0) {
    const size_t bytes = std::min(text.size(), size - 1);
    std::memcpy(buffer, text.data(), bytes);
    buffer[bytes] = '\0';
  }
  return text.size();
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

ranklog_upload* ranklog_log_artifact(ranklog_run* run, const ranklog_artifact* artifact) noexcept {
  return NewUpload(run, [&](RunState* state) {
    ranklog_artifact given = RANKLOG_ARTIFACT_INIT;
    if (artifact != nullptr) std::memcpy(&given, artifact, std::min(artifact->size, sizeof given));
    return LogArtifact(state, given, ranklog::internal::FilesIn);
  });
}

ranklog_upload* ranklog_log_code(ranklog_run* run, const char* root, const char* name,
                                 const char* const* suffixes, size_t suffix_count) noexcept {
  return NewUpload(run, [&](RunState* state) {
    const std::string usual_name =
        ranklog::internal::CodeArtifactName(state->settings().project, state->settings().program);
    const char* const path = root == nullptr ? "." : root;
    ranklog_artifact code = RANKLOG_ARTIFACT_INIT;
    code.name = name == nullptr ? usual_name.c_str() : name;
    code.type = "code";
    code.paths = &path;
    code.path_count = 1;
    std::vector<std::string> ends;
    for (size_t i = 0; suffixes != nullptr && i < suffix_count; ++i) {
      if (suffixes[i] != nullptr) ends.emplace_back(suffixes[i]);
    }
    return LogArtifact(state, code, [ends = std::move(ends)](const std::string& directory) {
      return ranklog::internal::CodeIn(directory, ends);
    });
  });
}

ranklog_upload* ranklog_save(ranklog_run* run, const char* path, const char* name) noexcept {
  return ranklog_save_by_policy(run, path, name, RANKLOG_SAVE_NOW);
}

ranklog_upload* ranklog_save_by_policy(ranklog_run* run, const char* path, const char* name,
                                       int policy) noexcept {
  return NewUpload(run, [&](RunState* state) {
    const std::string from = path == nullptr ? "" : path;
    const std::string to = name == nullptr ? from.substr(from.rfind('/') + 1) : name;
    if (const std::string error = ranklog::internal::FileNameError(to); !error.empty()) {
      return state->RefuseUpload(error);
    }
    switch (policy) {
      case RANKLOG_SAVE_NOW:
        return state->StageRunFile(from, to);
      case RANKLOG_SAVE_END:
      case RANKLOG_SAVE_LIVE:
        return state->KeepSaving(from, to, /*live=*/policy == RANKLOG_SAVE_LIVE);
      default:
        return state->RefuseUpload("unknown save policy; use RANKLOG_SAVE_NOW, _END or _LIVE");
    }
  });
}

ranklog_upload* ranklog_use_artifact(ranklog_run* run, const char* name) noexcept {
  return NewUpload(run, [&](RunState* state) {
    ranklog::v1::Item item;
    const absl::Status status =
        ranklog::internal::UseToProto(name == nullptr ? "" : name, item.mutable_artifact());
    if (!status.ok()) return state->RefuseUpload(std::string(status.message()));
    return state->StageUse(std::move(item));
  });
}

int ranklog_upload_state(const ranklog_upload* upload) noexcept {
  return upload == nullptr ? RANKLOG_REFUSED : static_cast<int>(UploadOf(upload).state());
}

int ranklog_upload_wait(const ranklog_upload* upload, int64_t timeout_ms) noexcept {
  if (upload == nullptr) return RANKLOG_REFUSED;
  const Uncancelled uncancelled;
  constexpr int64_t kLongest = int64_t{365} * 24 * 3600 * 1000;
  const std::chrono::milliseconds timeout(std::clamp<int64_t>(timeout_ms, 0, kLongest));
  return static_cast<int>(UploadOf(upload).Wait(std::chrono::steady_clock::now() + timeout));
}

size_t ranklog_upload_error(const ranklog_upload* upload, char* buffer, size_t size) noexcept {
  try {
    return Write(upload == nullptr ? "no memory" : UploadOf(upload).error(), buffer, size);
  } catch (...) {
    return Write("no memory", buffer, size);
  }
}

void ranklog_upload_free(ranklog_upload* upload) noexcept {
  delete reinterpret_cast<std::shared_ptr<Upload>*>(upload);
}

static_assert(static_cast<int>(Upload::kStaging) == RANKLOG_STAGING);
static_assert(static_cast<int>(Upload::kStaged) == RANKLOG_STAGED);
static_assert(static_cast<int>(Upload::kRefused) == RANKLOG_REFUSED);

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
  return Write(StatsOf(run).last_error, buffer, size);
}

size_t ranklog_run_id(const ranklog_run* run, char* buffer, size_t size) noexcept {
  return Write(StatsOf(run).run_id, buffer, size);
}

size_t ranklog_url(const ranklog_run* run, char* buffer, size_t size) noexcept {
  return Write(TextOf(run, [](const RunState& state) { return state.Url(); }), buffer, size);
}

bool ranklog_stop_requested(const ranklog_run* run) noexcept {
  return run != nullptr && StateOf(run)->stop_requested();
}

size_t ranklog_handle(const ranklog_run* run, char* buffer, size_t size) noexcept {
  return Write(TextOf(run, [](const RunState& state) { return state.Handle(); }), buffer, size);
}

size_t ranklog_run_id_for(const char* save_dir, size_t save_dir_bytes, const char* experiment,
                          size_t experiment_bytes, char* buffer, size_t size) noexcept {
  const Uncancelled uncancelled;
  try {
    std::string text(View(save_dir, save_dir_bytes));
    text.push_back('/');
    text.append(View(experiment, experiment_bytes));
    return Write(ranklog::internal::Sha1(text), buffer, size);
  } catch (...) {  // no memory
    return Write("", buffer, size);
  }
}
