#include "ranklog/run.h"

#include <exception>
#include <utility>

#include "client/base/keys.h"
#include "client/base/uncancelled.h"
#include "client/ring/handles.h"
#include "client/run_state.h"
#include "client/values.h"

namespace ranklog {
namespace {

using internal::RingWriter;

bool LogMetrics(internal::RunState* state, Span<const Metric> row, const int64_t* step) {
  return state != nullptr &&
         state->LogRow(step, [&](RingWriter& writer, const internal::RowStep& row_step) {
           return writer.Write(row, row_step);
         });
}

bool LogHandles(internal::RunState* state, Span<const HandleValue> row, const int64_t* step) {
  return state != nullptr &&
         state->LogRow(step, [&](RingWriter& writer, const internal::RowStep& row_step) {
           return writer.Write(row, row_step);
         });
}

bool LogValues(internal::RunState* state, const internal::RowShape* shape,
               Span<const double> values, const int64_t* step) {
  static const internal::RowShape kNone{};  // takes no values
  if (shape == nullptr) shape = &kNone;
  return state != nullptr &&
         state->LogRow(step, [&](RingWriter& writer, const internal::RowStep& row_step) {
           return writer.Write(*shape, values, row_step);
         });
}

}  // namespace

Run::Run() noexcept = default;
Run::Run(Run&&) noexcept = default;

Run& Run::operator=(Run&& other) noexcept {
  if (this != &other) {
    Run ended(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}

Run::~Run() {
  if (state_ == nullptr) return;
  const internal::Uncancelled uncancelled;
  try {
    const std::chrono::milliseconds timeout = state_->settings().finish_timeout;
    state_->Finish(std::uncaught_exceptions() > 0 ? 1 : 0,
                   state_->DestructorWaits() ? timeout : std::chrono::milliseconds(0),
                   /*by_destructor=*/true);
  } catch (...) {  // no memory: the ring has the state of the run
  }
}

bool Run::Log(std::initializer_list<Metric> row) noexcept {
  return LogMetrics(state_.get(), {row.begin(), row.size()}, nullptr);
}

bool Run::Log(std::initializer_list<Metric> row, int64_t step) noexcept {
  return LogMetrics(state_.get(), {row.begin(), row.size()}, &step);
}

bool Run::Log(Span<const Metric> row) noexcept { return LogMetrics(state_.get(), row, nullptr); }

bool Run::Log(Span<const Metric> row, int64_t step) noexcept {
  return LogMetrics(state_.get(), row, &step);
}

MetricHandle Run::MetricKey(std::string_view key) noexcept {
  const internal::Uncancelled uncancelled;
  MetricHandle handle;
  try {
    const std::string error = internal::KeyError(key);
    if (error.empty()) {
      handle.key_ = internal::InternKey(key);
    } else if (state_ != nullptr) {
      state_->AddLeftOut(error);
    }
  } catch (...) {  // no memory: the handle is empty
  }
  return handle;
}

bool Run::Log(Span<const HandleValue> row) noexcept {
  return LogHandles(state_.get(), row, nullptr);
}

bool Run::Log(Span<const HandleValue> row, int64_t step) noexcept {
  return LogHandles(state_.get(), row, &step);
}

RowHandle Run::Row(Span<const std::string_view> keys) noexcept {
  const internal::Uncancelled uncancelled;
  RowHandle handle;
  try {
    if (!keys.empty()) {
      handle.shape_ = internal::InternRow(keys);
    } else if (state_ != nullptr) {
      state_->SetLastError("a row handle has no keys");
    }
    for (std::string_view key : keys) {
      const std::string error = internal::KeyError(key);
      if (!error.empty() && state_ != nullptr) state_->AddLeftOut(error);
    }
  } catch (...) {  // no memory: the handle is empty
  }
  return handle;
}

RowHandle Run::Row(std::initializer_list<std::string_view> keys) noexcept {
  return Row(Span<const std::string_view>(keys.begin(), keys.size()));
}

bool Run::Log(const RowHandle& row, Span<const double> values) noexcept {
  return LogValues(state_.get(), row.shape_.get(), values, nullptr);
}

bool Run::Log(const RowHandle& row, Span<const double> values, int64_t step) noexcept {
  return LogValues(state_.get(), row.shape_.get(), values, &step);
}

namespace {

// Fills an item with `convert`, and writes it.
template <typename Convert>
bool AddItem(internal::RunState* state, Convert convert) {
  if (state == nullptr) return false;
  const internal::Uncancelled uncancelled;
  try {
    v1::Item item;
    const absl::Status status = convert(&item);
    return status.ok() ? state->AddItem(item) : state->RefuseItem(std::string(status.message()));
  } catch (...) {
    return state->RefuseItem("no memory");
  }
}

}  // namespace

bool Run::Config(std::vector<Value::Field> config) noexcept {
  return AddItem(state_.get(),
                 [&](v1::Item* item) { return internal::ToProto(config, item->mutable_config()); });
}

bool Run::Summary(std::vector<Value::Field> summary) noexcept {
  return AddItem(state_.get(), [&](v1::Item* item) {
    return internal::ToProto(summary, item->mutable_summary());
  });
}

bool Run::DefineMetric(std::string_view name, const MetricOptions& options) noexcept {
  return AddItem(state_.get(), [&](v1::Item* item) {
    return internal::ToProto(name, options, item->mutable_metric());
  });
}

FlushResult Run::Flush(std::chrono::milliseconds timeout) noexcept {
  if (state_ == nullptr) return FlushResult::kDurable;
  const internal::Uncancelled uncancelled;
  try {
    return state_->Flush(timeout);
  } catch (...) {
    return FlushResult::kSpooled;
  }
}

FlushResult Run::Finish(int exit_code) noexcept {
  if (state_ == nullptr) return FlushResult::kDurable;
  const internal::Uncancelled uncancelled;
  try {
    return state_->Finish(exit_code, state_->settings().finish_timeout);
  } catch (...) {
    return FlushResult::kSpooled;
  }
}

Stats Run::stats() const noexcept {
  const internal::Uncancelled uncancelled;
  try {
    return state_ == nullptr ? Stats() : state_->GetStats();
  } catch (...) {
    return Stats();
  }
}

const Settings& Run::settings() const noexcept {
  static const Settings* const kNone = new Settings;
  return state_ == nullptr ? *kNone : state_->settings();
}

Run Init(Settings settings) noexcept {
  const internal::Uncancelled uncancelled;
  Run run;
  try {
    run.state_ = internal::RunState::Create(std::move(settings));
  } catch (...) {  // no memory: return an empty run
  }
  return run;
}

}  // namespace ranklog
