#include "client/run/user_messages.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/ring/ring_writer.h"
#include "client/settings/strategy_name.h"

namespace ranklog::internal {
namespace {

constexpr size_t kMaxWarnings = 16;
constexpr double kSpoolFilling = 0.75;
constexpr double kSpoolHasRoom = 0.5;

uint64_t RefusedRows(const Stats& stats) {
  uint64_t rows = stats.lost_damaged;
  for (const LossReason& reason : kLossReasons) rows += stats.*reason.in_stats;
  return rows;
}

std::string Because(const std::string& reason) { return reason.empty() ? "" : ": " + reason; }

// Why rows were refused. If there are several reasons, with the number of rows of each.
std::string Refusals(const UserMessages::Facts& facts) {
  const uint64_t refused = RefusedRows(facts.stats);
  std::vector<std::string> texts;
  const auto add = [&](uint64_t rows, const std::string& why) {
    if (rows == 0 || why.empty()) return;
    texts.push_back(rows == refused ? why : absl::StrCat(why, " (", rows, ")"));
  };
  for (const LossReason& reason : kLossReasons) {
    add(facts.stats.*reason.in_stats, reason.result == WriteResult::kInvalid    ? facts.refusal
                                      : reason.result != WriteResult::kRingFull ? reason.text
                                      : facts.no_ring.empty()                   ? facts.spool_full
                                                                                : facts.no_ring);
  }
  add(facts.stats.lost_damaged, "the spool is damaged");
  return absl::StrJoin(texts, "; ");
}

// "2 calls of Config, Summary, DefineMetric, LogArtifact or Save refused"
std::string RefusedUpdates(const UserMessages::Facts& facts, const char* so_far) {
  const uint64_t count = facts.stats.updates_refused;
  return absl::StrCat(count, count == 1 ? " call" : " calls",
                      " of Config, Summary, DefineMetric, LogArtifact or Save refused", so_far,
                      Because(facts.update_refusal));
}

std::string Rows(uint64_t count) { return absl::StrCat(count, count == 1 ? " row" : " rows"); }

// Why rows wait in the spool; empty if they do not wait.
std::string WhyTheyWait(const UserMessages::Facts& facts) {
  if (!facts.unconnected.empty()) return facts.unconnected;
  return facts.stalled >= UserMessages::kConnectGrace ? StallText(facts.stalled) : "";
}

}  // namespace

std::string StallText(std::chrono::steady_clock::duration stalled) {
  return absl::StrCat("the daemon has accepted no rows for ",
                      std::chrono::duration_cast<std::chrono::seconds>(stalled).count(), " s");
}

UserMessages::UserMessages(const Settings& settings, Sink sink)
    : strategy_(Name(settings.log_strategy)),
      asked_state_dir_(settings.state_dir),
      world_size_(settings.world_size.value_or(1)),
      awaits_delivery_(settings.delivery_timeout.count() > 0),
      is_first_(settings.rank.value_or(0) == 0),
      sink_(std::move(sink)),
      run_id_(settings.run_id) {}

void UserMessages::Print(Severity severity, const std::string& text) const {
  if (sink_) sink_(severity, text);
}

void UserMessages::Warn(std::string text) {
  if (warnings_.size() < kMaxWarnings) warnings_.push_back(std::move(text));
}

void UserMessages::OnMessage(const v1::ServerMessage& message) {
  if (message.has_hello()) {
    known_ = true;
    if (!message.hello().run_id().empty()) run_id_ = message.hello().run_id();
    destinations_.assign(message.hello().destinations().begin(),
                         message.hello().destinations().end());
    for (auto& [key, trouble] : troubles_) {  // the message contains the current ones
      if (trouble.of_daemon) trouble.active = false;
    }
  }
  for (const v1::Notice& notice : message.notices()) OnNotice(notice);
}

void UserMessages::OnNotice(const v1::Notice& notice) {
  if (notice.key() == "url") {
    url_ = notice.text();
    return;
  }
  if (notice.key() == "run") {
    run_id_ = notice.text();
    return;
  }
  if (notice.key() == "state") {
    state_ = notice.text();
    return;
  }
  if (notice.key() == "delivered") {
    delivered_rows_ = notice.text();
    delivered_ = notice.over();
    return;
  }
  if (notice.over()) {
    const auto found = troubles_.find(notice.key());
    if (found == troubles_.end()) return;
    found->second.active = false;
    if (!notice.text().empty()) found->second.over = notice.text();
    return;
  }
  const Severity severity = notice.severity() == v1::Notice::INFO      ? Severity::kInfo
                            : notice.severity() == v1::Notice::WARNING ? Severity::kWarning
                                                                       : Severity::kError;
  const bool trouble = severity != Severity::kInfo;
  Set(notice.key(), severity, notice.text(),
      trouble ? absl::StrCat("over: ", notice.text()) : std::string());
  troubles_[notice.key()].of_daemon = notice.key() != "settings";  // which is no trouble of now
}

void UserMessages::Set(const std::string& key, Severity severity, std::string text,
                       std::string over) {
  Trouble& trouble = troubles_[key];
  trouble.severity = severity;
  trouble.text = std::move(text);
  trouble.over = std::move(over);
  trouble.active = true;
}

void UserMessages::Clear(const std::string& key) {
  const auto found = troubles_.find(key);
  if (found != troubles_.end()) found->second.active = false;
}

std::string UserMessages::DaemonTrouble() const {
  const Trouble* worst = nullptr;
  for (const auto& [key, trouble] : troubles_) {
    if (!trouble.of_daemon || !trouble.active || trouble.severity == Severity::kInfo) continue;
    if (worst == nullptr || worst->severity < trouble.severity) worst = &trouble;
  }
  return worst == nullptr ? "" : worst->text;
}

bool UserMessages::HasTracker() const {
  return std::any_of(destinations_.begin(), destinations_.end(),
                     [](const std::string& kind) { return kind != "local"; });
}

void UserMessages::PrintMistakes() {
  for (const std::string& warning : std::exchange(warnings_, {})) {
    Print(Severity::kWarning, warning);
  }
}

bool UserMessages::PrintDue(Time now, const Facts& facts) {
  if (ended_) return true;
  const bool ends = facts.end != Facts::End::kNone;
  if (known_ && known_at_ == Time::min()) known_at_ = now;
  PrintMistakes();
  // Why the run's id differs from the given one.
  const auto start = troubles_.find("start");
  if (start != troubles_.end()) PrintTrouble(now, &start->second);
  PrintStart(now, ends, facts.other_state_dir);
  CheckProcess(now, facts);
  for (auto& [key, trouble] : troubles_) PrintTrouble(now, &trouble);
  if (facts.awaits_delivery) PrintDelivery(now);
  if (!ends) return false;
  PrintEnd(facts);
  return ended_ = true;
}

void UserMessages::CheckProcess(Time now, const Facts& facts) {
  if (!facts.spool_notice.empty() && !std::exchange(spool_printed_, true)) {
    Print(Severity::kWarning, facts.spool_notice);
  }
  // A daemon that cannot store rows reports that itself.
  const auto store = troubles_.find("store");
  const bool stalled =
      facts.stalled >= kConnectGrace && (store == troubles_.end() || !store->second.active);
  if (facts.unconnected.empty()) {
    unconnected_since_ = Time::min();
    if (!stalled) {
      Clear("daemon");
    } else if (!troubles_["daemon"].active) {  // the seconds would make it a new one
      Set("daemon", Severity::kWarning,
          absl::StrCat(StallText(facts.stalled),
                       "; they stay in the spool; run `ranklog doctor` to find the reason"),
          "the daemon accepts rows again");
    }
  } else {
    if (unconnected_since_ == Time::min()) unconnected_since_ = now;
    if (now - unconnected_since_ >= kConnectGrace) {
      Set("daemon", Severity::kWarning,
          absl::StrCat("no daemon accepts rows; they stay in the spool: ", facts.unconnected),
          "a daemon accepts the rows");
    }
  }
  if (facts.spool_used >= kSpoolFilling) {
    const std::string why = WhyTheyWait(facts);
    Set("spool", Severity::kWarning,
        absl::StrCat(
            "the spool is ", static_cast<int>(facts.spool_used * 100),
            " % full, and Log() refuses rows once it is full",
            why.empty() ? "; run `ranklog doctor`, or raise RANKLOG_SPOOL_BYTES" : Because(why)),
        "the spool has room again");
  } else if (facts.spool_used < kSpoolHasRoom) {
    Clear("spool");
  }
  for (; left_out_printed_ < facts.left_out.size(); ++left_out_printed_) {
    Print(Severity::kWarning,
          absl::StrCat("a value was left out of its row: ", facts.left_out[left_out_printed_]));
  }
  const uint64_t refused = RefusedRows(facts.stats);
  if (refused > refused_rows_) {
    refused_rows_ = refused;
    Set("refused", Severity::kWarning,
        absl::StrCat(Rows(refused), " refused so far", Because(Refusals(facts))), "");
  }
  if (facts.stats.updates_refused > refused_updates_) {
    refused_updates_ = facts.stats.updates_refused;
    Set("refused updates", Severity::kWarning, RefusedUpdates(facts, " so far"), "");
  }
}

void UserMessages::PrintTrouble(Time now, Trouble* trouble) const {
  if (!trouble->active) {
    if (trouble->printed && !trouble->over.empty()) Print(Severity::kInfo, trouble->over);
    trouble->printed = false;
    return;
  }
  if (trouble->printed && trouble->printed_text == trouble->text) return;
  if (trouble->printed_at != Time::min() && now - trouble->printed_at < kAgain) return;
  trouble->printed = true;
  trouble->printed_text = trouble->text;
  trouble->printed_at = now;
  Print(trouble->severity, trouble->text);
}

void UserMessages::PrintStart(Time now, bool ended, const std::string& other_state_dir) {
  if (!known_ || !is_first_) return;
  if (announced_) {
    if (!url_.empty() && !std::exchange(url_printed_, true)) {
      Print(Severity::kInfo, absl::StrCat("run ", run_id_, " is at ", url_));
    }
    return;
  }
  const bool remote = HasTracker();
  if (remote && url_.empty() && !ended && DaemonTrouble().empty() && now - known_at_ < kUrlGrace) {
    return;
  }
  announced_ = true;
  url_printed_ = !url_.empty();
  const std::string where = remote ? absl::StrCat("goes to ", absl::StrJoin(destinations_, ", "),
                                                  url_.empty() ? "" : ": ", url_)
                            : destinations_.empty()
                                ? std::string("has reached the daemon")  // an older version
                                : std::string("is kept on this node");
  std::string flag, elsewhere;
  if (!other_state_dir.empty()) {
    flag = absl::StrCat("--state-dir ", other_state_dir, " ");
    elsewhere =
        absl::StrCat("; the running daemon keeps ", other_state_dir, ", not ", asked_state_dir_);
  }
  Print(Severity::kInfo,
        absl::StrCat("run ", run_id_, " (", strategy_, ", ", world_size_,
                     world_size_ == 1 ? " rank) " : " ranks) ", where, "; look at it: ranklog ",
                     flag, "show ", run_id_[0] == '-' ? "-- " : "", run_id_, elsewhere,
                     state_.empty() ? "" : "; ", state_,
                     state_.empty() || !HasTracker() || awaits_delivery_
                         ? ""
                         : ", or set RANKLOG_FINISH=delivered"));
}

void UserMessages::PrintDelivery(Time now) {
  // Most deliveries take one second, and need no line.
  if (next_delivery_line_ == Time::min()) next_delivery_line_ = now + kDeliveryGrace;
  if (now < next_delivery_line_) return;
  next_delivery_line_ = now + kDeliveryLine;
  std::string line = absl::StrCat("run ", run_id_, " waits until the tracker has it",
                                  delivered_rows_.empty() ? "" : ": ", delivered_rows_);
  for (const std::string& destination : destinations_) {
    const auto trouble = troubles_.find(destination);
    if (trouble == troubles_.end() || !trouble->second.active) continue;
    absl::StrAppend(&line, "; ", trouble->second.text);
  }
  Print(Severity::kInfo, line);
}

void UserMessages::PrintEnd(const Facts& facts) {
  const Stats& stats = facts.stats;
  const uint64_t refused = RefusedRows(stats);
  // The Finish of a destroyed run is sent only later, because its process may be about to end.
  const bool durable = facts.end == Facts::End::kDurable ||
                       (stats.rows_durable == stats.rows_logged && stats.updates_pending == 0 &&
                        facts.unconnected.empty());
  const std::string trouble = DaemonTrouble();
  const std::string waits = WhyTheyWait(facts);
  const uint64_t refused_updates = stats.updates_refused;
  const bool well =
      durable && refused == 0 && refused_updates == 0 && stats.lost_values == 0 && trouble.empty();
  if (well && !is_first_) return;
  std::string line = absl::StrCat("run ", run_id_, ": ");
  if (durable || stats.rows_durable == stats.rows_logged) {
    absl::StrAppend(&line, stats.rows_logged > 1 ? "all " : "", Rows(stats.rows_logged),
                    " of this rank ", stats.rows_logged == 1 ? "is" : "are", " durable",
                    delivered_ ? " and delivered" : "");
  } else {
    absl::StrAppend(&line, stats.rows_durable, " of ", Rows(stats.rows_logged),
                    " of this rank are durable");
  }
  if (!durable) {
    absl::StrAppend(&line,
                    facts.rows_in_memory ? ", the rest is lost with this process"
                                         : ", the rest waits in the spool for the daemon",
                    Because(waits.empty() ? trouble : waits));
  }
  if (durable && !delivered_ && !delivered_rows_.empty()) {
    absl::StrAppend(&line, ", ", delivered_rows_);
  }
  if (refused > 0)
    absl::StrAppend(&line, "; ", Rows(refused), " refused", Because(Refusals(facts)));
  if (refused_updates > 0) absl::StrAppend(&line, "; ", RefusedUpdates(facts, ""));
  if (stats.lost_values > 0) {
    absl::StrAppend(&line, "; ", stats.lost_values, stats.lost_values == 1 ? " value" : " values",
                    " left out of rows",
                    facts.left_out.empty() ? "" : Because(facts.left_out.back()));
  }
  if (durable && !trouble.empty()) {
    absl::StrAppend(&line, "; ", trouble);
  } else if (durable && HasTracker() && !delivered_) {
    absl::StrAppend(&line, "; the daemon sends the rest to ", absl::StrJoin(destinations_, ", "));
  }
  if (is_first_ && !url_.empty()) absl::StrAppend(&line, "; see ", url_);
  Print(well ? Severity::kInfo : Severity::kWarning, line);
}

}  // namespace ranklog::internal
