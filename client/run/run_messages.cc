// The messages to the user of a run: the facts for UserMessages, and when they are collected.

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/run/run_state.h"
#include "client/stream/sender.h"

namespace ranklog::internal {
namespace {

using Clock = std::chrono::steady_clock;

// The facts change slowly. Messages from the daemon are handled at once.
constexpr std::chrono::milliseconds kPrintInterval{250};
// A daemon that answers takes rows within this time, unless its node is overloaded.
constexpr std::chrono::seconds kStall{1};
// Rows that were refused in an outage may be counted this long after it.
constexpr std::chrono::seconds kOutageEnds{2};

// Whether a daemon's state directory is not the one that was asked for. False if none was, or if
// the daemon's is not visible here, as in another container.
bool IsOtherDirectory(const std::string& asked, const std::string& daemons) {
  struct stat ours {};
  struct stat its {};
  if (asked.empty() || daemons.empty() || stat(daemons.c_str(), &its) != 0) return false;
  return stat(asked.c_str(), &ours) != 0 || ours.st_dev != its.st_dev || ours.st_ino != its.st_ino;
}

}  // namespace

// The first rank of a node reports for the node. If that rank is unknown, only rank 0 reports. A
// rank with a wrong rank or world size reports that itself, because the first rank has other
// numbers.
void RunState::StartMessages(std::vector<std::string> errors,
                             std::vector<std::string> rank_errors) {
  const bool is_first = !is_attached_ && *settings_.local_rank == 0 &&
                        (settings_.local_world_size.has_value() || *settings_.rank == 0) &&
                        !settings_.quiet;
  only_mistakes_ = !is_first;
  // Those of an attached process may be in its own environment.
  if (only_mistakes_ && !is_attached_) errors = std::move(rank_errors);
  const bool prints = is_first || (!errors.empty() && !settings_.quiet);
  UserMessages::Sink sink;
  if (prints) {
    sink = [this](Severity severity, const std::string& text) {
      if (!settings_.on_message) return lines_.Put(severity, text);
      try {
        settings_.on_message(severity, text);
      } catch (...) {  // the program's exception; nobody on this thread can handle it
      }
    };
  }
  messages_ = std::make_unique<UserMessages>(settings_, std::move(sink));
  for (const std::string& error : errors) messages_->Warn(error);
  prints_last_line_ = prints;
  if (prints) Sender::Get()->AddPrintingRun(shared_from_this());
}

void RunState::OnServerMessage(const v1::ServerMessage& message) {
  received_message_ = true;
  messages_->OnMessage(message);
  if (message.has_hello()) has_tracker_ = messages_->HasTracker();
  if (messages_->delivered() && delivery_.load() == Delivery::kAwaited) delivery_ = Delivery::kDone;
  std::string trouble = messages_->DaemonTrouble();
  const std::string& dir = message.hello().state_dir();
  const bool elsewhere = message.has_hello() && IsOtherDirectory(settings_.state_dir, dir);
  MutexLock lock(StateMutex());
  for (const v1::Notice& notice : message.notices()) {
    if (notice.key() == "settings") last_error_ = notice.text();
    if (notice.key() == "stop" && !notice.over()) {
      stop_requested_.store(true, std::memory_order_relaxed);
    }
  }
  if (message.has_hello()) {
    other_state_dir_ = elsewhere ? dir : "";
    content_place_ = message.hello().content();
    has_hello_ = true;
  }
  run_id_ = messages_->run_id();
  url_ = messages_->url();
  daemon_error_ = std::move(trouble);
  connection_error_.clear();
}

UserMessages::Facts RunState::CollectFacts() {
  UserMessages::Facts facts;
  facts.stats = GetStats();
  MutexLock lock(StateMutex());
  if (generation_ == Generation()) MoveLossesToRing();  // not into a parent's
  facts.update_refusal =
      refused_item_.empty() ? RefusalReason(WriteResult::kInterrupting) : refused_item_;
  facts.refusal = invalid_.empty() ? RefusalReason(WriteResult::kInterrupting) : invalid_;
  facts.left_out = left_out_;
  facts.spool_notice = spool_notice_;
  if (rings_.empty()) facts.no_ring = last_error_;
  facts.other_state_dir = other_state_dir_;
  facts.unconnected = connection_error_;
  if (const char* const trouble = Sender::Trouble(); trouble != nullptr) {
    facts.unconnected = trouble;
  }
  bool durable = true;
  facts.stalled = Stalled();
  facts.spool_full = FullReason(facts.stats.lost_ring_full);
  for (const auto& ring : rings_) {
    const double used = static_cast<double>(ring->head() - ring->tail());
    facts.spool_used =
        std::max(facts.spool_used, used / static_cast<double>(ring->spool->data_bytes()));
    facts.rows_in_memory |= ring->spool->path().empty() &&
                            ring->durable_end.load(std::memory_order_acquire) < ring->head();
    durable = durable && ring->finish_durable.load(std::memory_order_acquire);
  }
  facts.awaits_delivery = closed_.load() && durable && AwaitsDelivery();
  if (closed_.load() && durable && !facts.awaits_delivery) {
    facts.end = UserMessages::Facts::End::kDurable;
  }
  if (closed_.load() && !durable && finish_timed_out_.load()) {
    facts.end = UserMessages::Facts::End::kSpooled;
  }
  return facts;
}

bool RunState::PrintMessages(Clock::time_point now, bool last) {
  if (!prints_last_line_.load(std::memory_order_relaxed)) return true;
  lines_.Flush();
  if (only_mistakes_) {
    messages_->PrintMistakes();
    prints_last_line_.store(false, std::memory_order_release);
    return true;
  }
  const bool closed = closed_.load(std::memory_order_relaxed);
  if (!closed && !last && !std::exchange(received_message_, false) && now < next_print_) {
    return false;
  }
  next_print_ = now + kPrintInterval;
  UserMessages::Facts facts = CollectFacts();
  if (last && closed && facts.end == UserMessages::Facts::End::kNone) {
    facts.end = UserMessages::Facts::End::kSpooled;
  }
  if (!messages_->PrintDue(now, facts)) return false;
  prints_last_line_.store(false, std::memory_order_release);
  return true;
}

void RunState::SetConnectionError(std::string error) {
  MutexLock lock(StateMutex());
  connection_error_ = std::move(error);
}

std::string RunState::LastError(uint64_t ring_full) const {
  std::string error = Refusal(ring_full);
  if (const char* const trouble = Sender::Trouble(); error.empty() && trouble != nullptr) {
    error = trouble;
  }
  if (error.empty()) error = connection_error_;
  if (error.empty() && Stalled() >= UserMessages::kConnectGrace) error = StallText(Stalled());
  if (error.empty()) error = daemon_error_;
  if (error.empty() || settings_error_.empty()) return error + settings_error_;
  return absl::StrCat(error, "; ", settings_error_);
}

std::string RunState::Refusal(uint64_t ring_full) const {
  const WriteResult last = last_refusal_.load(std::memory_order_relaxed);
  if (last == WriteResult::kRingFull) return FullReason(ring_full);
  const char* const why = RefusalReason(last);
  return *why == 0 ? last_error_ : why;
}

Clock::duration RunState::Stalled() const {
  Clock::duration longest{};
  const Clock::duration now = Clock::now().time_since_epoch();
  for (const auto& ring : rings_) {
    const Clock::duration since = ring->unanswered_since.load(std::memory_order_relaxed);
    if (since != Clock::duration()) longest = std::max(longest, now - since);
  }
  return longest;
}

std::string RunState::FullReason(uint64_t refused) const {
  if (refused == 0 || refused == why_full_rows_) return why_full_;
  why_full_rows_ = refused;
  const Clock::time_point now = Clock::now();
  const char* const trouble = Sender::Trouble();
  const std::string unconnected = trouble != nullptr ? trouble : connection_error_;
  const bool attached = std::any_of(rings_.begin(), rings_.end(),
                                    [](const auto& ring) { return ring->attached.load(); });
  // After Finish() no ring is attached, but its rows are durable.
  const bool waits = std::any_of(rings_.begin(), rings_.end(), [](const auto& ring) {
    return ring->durable_end.load(std::memory_order_relaxed) != ring->head();
  });
  std::string outage;
  if (rings_.empty()) {
    outage = last_error_;
  } else if (waits && (!unconnected.empty() || !attached)) {
    outage = absl::StrCat("the spool is full: no daemon accepts rows",
                          unconnected.empty() ? "" : ": ", unconnected);
  } else if (Stalled() >= kStall) {
    outage = absl::StrCat("the spool is full: ", StallText(Stalled()));
  }
  if (!outage.empty()) {
    why_full_ = std::move(outage);
    full_by_outage_until_ = now + kOutageEnds;
  } else if (now >= full_by_outage_until_) {
    why_full_ =
        "the spool is full: it is too small for this rate; raise RANKLOG_SPOOL_BYTES (spool_bytes)";
  }
  return why_full_;
}

}  // namespace ranklog::internal
