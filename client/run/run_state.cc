#include "client/run/run_state.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "client/launch/join.h"
#include "client/launch/launch.h"
#include "client/launch/resolve.h"
#include "client/ring/ticks.h"
#include "client/run/fork.h"
#include "client/settings/environment.h"
#include "client/settings/rank_statistics.h"
#include "client/settings/run_handle.h"
#include "client/settings/validate.h"
#include "client/stream/sender.h"

namespace ranklog::internal {
namespace {

using Clock = std::chrono::steady_clock;

// Each is a line on the terminal, and keys may differ in every row.
constexpr size_t kMaxLeftOut = 16;

uint64_t NextToken() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

RunState::RunState(Settings settings)
    : token_(NextToken()),
      steps_(SharedSteps::Create()),
      settings_(std::move(settings)),
      generation_(Generation()) {}

std::shared_ptr<RunState> RunState::Create(Settings settings) {
  std::shared_ptr<RunState> run(new RunState(std::move(settings)));
  std::vector<std::string> join_errors;
  const std::optional<v1::RunHandle> maker = run->JoinByHandle(&join_errors);
  std::vector<std::string> errors = Validate(run->settings_);
  errors.insert(errors.end(), join_errors.begin(), join_errors.end());
  const std::vector<std::string> rank_errors = RankErrors(run->settings_);
  const bool id_given = !run->settings_.run_id.empty();
  run->settings_ =
      Resolve(errors.empty() ? std::move(run->settings_) : Repair(std::move(run->settings_)));
  if (!maker) run->settings_.handle.clear();
  if (run->steps_ == nullptr) {
    run->SetLastError("not enough memory for a run");
    return run;
  }
  run->settings_error_ = absl::StrJoin(errors, "; ");
  for (std::string& hint : RankStatisticsHints(run->settings_.rank_statistics)) {
    errors.push_back(std::move(hint));
  }
  if (run->settings_.disabled) return run;
  ArmForkHandlers();
  run->hello_ = MakeHello(run->settings_);
  run->job_variables_ = JobVariables();
  if (maker) {
    JoinHello(*maker, &run->hello_);
    run->handle_ = *maker;
  } else {
    *run->hello_.mutable_launch() = MakeLaunch(run->settings_, id_given);
    run->handle_ = MakeHandle(run->hello_);
    run->handle_.set_steps_pid(getpid());
    run->handle_.set_steps_descriptor(run->steps_->descriptor());
    run->handle_.set_steps_token(run->steps_->token());
  }
  run->usable_ = true;
  {
    MutexLock lock(StateMutex());
    ProcessTickRate();  // starts to measure
  }
  run->StartMessages(std::move(errors), rank_errors);
  if (run->settings_.delivery_timeout.count() > 0 && !run->is_attached_) {
    Sender::Get()->AddToFinish(run);
  }
  run->BeginFacts();
  // This thread will probably log, and the daemon must know of a rank that does not.
  run->FindWriter();
  if (!maker) run->AnnounceToConsole();
  return run;
}

std::optional<v1::RunHandle> RunState::JoinByHandle(std::vector<std::string>* errors) {
  if (settings_.handle.empty() || settings_.disabled) return std::nullopt;
  absl::StatusOr<v1::RunHandle> maker = UseHandle(settings_.handle);
  if (!maker.ok()) {
    // Validate() reports a text that is no handle.
    if (!absl::IsInvalidArgument(maker.status())) {
      errors->emplace_back(maker.status().message().data(), maker.status().message().size());
    }
    return std::nullopt;
  }
  is_attached_ = true;
  settings_ = JoinSettings(*maker, std::move(settings_));
  auto steps =
      SharedSteps::Join(maker->steps_pid(), maker->steps_descriptor(), maker->steps_token());
  if (steps != nullptr) steps_ = std::move(steps);
  return *std::move(maker);
}

bool RunState::RefusedWithoutRing() noexcept {
  if (settings_.disabled) return true;
  const bool closed = closed_.load(std::memory_order_relaxed);
  const WriteResult outcome = closed    ? WriteResult::kAfterFinish
                              : usable_ ? WriteResult::kRingFull
                                        : WriteResult::kInvalid;
  // As in FindWriter(): a signal handler must not wait for a lock of its own thread.
  if (!WriterSearch::InProgress()) {
    const WriterSearch finds_writer;
    MutexLock lock(StateMutex());
    if (generation_ == Generation() && !rings_.empty()) {
      rings_.front()->writer.CountLoss(outcome);  // so that the daemon counts it, too
      return false;
    }
  }
  lost_without_ring_[LossReasonIndex(outcome)].fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool RunState::Refused(RingWriter* writer, WriteResult outcome, std::string_view reason) noexcept {
  writer->CountLoss(outcome);
  last_refusal_.store(outcome, std::memory_order_relaxed);
  try {
    if (outcome != WriteResult::kInvalid) return false;
    MutexLock lock(StateMutex());
    last_error_ = invalid_ = std::string(reason);
  } catch (const std::bad_alloc&) {  // the row is counted anyway
  }
  return false;
}

bool RunState::TakenInPart(const RingWriter& writer) noexcept {
  last_refusal_.store(WriteResult::kTakenInPart, std::memory_order_relaxed);
  try {
    for (const std::string& reason : writer.left_out()) AddLeftOut(reason);
  } catch (const std::bad_alloc&) {  // the values are counted anyway
  }
  return true;
}

void RunState::AddLeftOut(const std::string& reason) {
  MutexLock lock(StateMutex());
  last_error_ = reason;
  if (left_out_.size() < kMaxLeftOut &&
      std::find(left_out_.begin(), left_out_.end(), reason) == left_out_.end()) {
    left_out_.push_back(reason);
  }
}

void RunState::SetLastError(std::string error) {
  MutexLock lock(StateMutex());
  last_error_ = std::move(error);
}

std::string RunState::Url() const {
  MutexLock lock(StateMutex());
  return url_;
}

std::string RunState::Handle() const { return usable_ ? EncodeHandle(handle_) : ""; }

}  // namespace ranklog::internal
