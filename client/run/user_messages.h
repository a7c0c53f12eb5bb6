// Decides which messages the user of a run gets, and when. There is one line when the run is known,
// and one at its end. A problem has a line when it begins, and one when it is over.

#ifndef CLIENT_RUN_USER_MESSAGES_H_
#define CLIENT_RUN_USER_MESSAGES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ranklog/run.h"
#include "ranklog/settings.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

// For example "the daemon has accepted no rows for 14 s".
std::string StallText(std::chrono::steady_clock::duration stalled);

// For the sender's thread. Uses no clock and no file: lines go to a sink.
class UserMessages {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Sink = std::function<void(Severity, const std::string&)>;

  // The minimum time between two lines about the same problem, or about problems with the same key.
  // A problem that comes and goes must not fill the log of a long training.
  static constexpr std::chrono::seconds kAgain{60};
  // A daemon that starts or restarts answers within this time.
  static constexpr std::chrono::seconds kConnectGrace{3};
  // The time between two progress lines while the end of a run waits for its delivery.
  static constexpr std::chrono::seconds kDeliveryLine{10};
  static constexpr std::chrono::seconds kDeliveryGrace{2};
  // How long the first line waits for the run's URL at its tracker.
  static constexpr std::chrono::seconds kUrlGrace{2};

  // What the process knows without the daemon.
  struct Facts {
    Stats stats;
    std::string no_ring;                // why there is no ring; empty if there is one
    std::string refusal;                // why the last invalid row was refused
    std::vector<std::string> left_out;  // why values were left out of rows; only added to
    std::string update_refusal;         // why the last Config(), Summary() or DefineMetric() was
    std::string unconnected;            // why no daemon answers; empty if one does
    Time::duration stalled{};           // how long it has taken none of the rows that wait for it
    std::string other_state_dir;   // of the daemon, if the settings name another one; else empty
    std::string spool_full;        // why the spool had no room for the last row that it refused
    double spool_used = 0;         // of the fullest ring, 0 to 1
    std::string spool_notice;      // why the spool is not in the expected directory
    bool rows_in_memory = false;   // they are lost if the process ends before a daemon takes them
    bool awaits_delivery = false;  // the run's end waits for the tracker
    enum class End { kNone, kDurable, kSpooled } end = End::kNone;
  };

  // `settings` must be resolved. If `sink` is null, no message is printed.
  UserMessages(const Settings& settings, Sink sink);

  // Handles a message from the daemon.
  void OnMessage(const v1::ServerMessage& message);
  // Queues a line from this process, printed once.
  void Warn(std::string text);
  // Prints the lines of Warn(), for a rank that prints nothing else.
  void PrintMistakes();
  // Prints the messages that are due now. True: that was the last line.
  bool PrintDue(Time now, const Facts& facts);

  // The worst problem that the daemon reports now; empty if there is none.
  std::string DaemonTrouble() const;
  // Whether the run goes to a tracker, and whether the tracker has all of it.
  bool HasTracker() const;
  bool delivered() const { return delivered_; }
  // The run id from the daemon, or the given one until the daemon has sent it.
  const std::string& run_id() const { return run_id_; }
  // The run's page at its tracker; empty until the daemon has sent it.
  const std::string& url() const { return url_; }

 private:
  struct Trouble {
    Severity severity = Severity::kWarning;
    std::string text;
    bool active = false;
    bool of_daemon = false;
    std::string over;  // the line when the problem is over; empty: no line
    bool printed = false;
    std::string printed_text;
    Time printed_at = Time::min();
  };

  void Print(Severity severity, const std::string& text) const;
  void OnNotice(const v1::Notice& notice);
  void Set(const std::string& key, Severity severity, std::string text, std::string over);
  void Clear(const std::string& key);
  void CheckProcess(Time now, const Facts& facts);
  void PrintTrouble(Time now, Trouble* trouble) const;
  void PrintStart(Time now, bool ended, const std::string& other_state_dir);
  void PrintDelivery(Time now);
  void PrintEnd(const Facts& facts);

  const std::string strategy_;
  const std::string asked_state_dir_;
  const int world_size_;
  const bool awaits_delivery_;  // at the run's end
  const bool is_first_;         // rank 0 prints the job's line
  const Sink sink_;

  std::vector<std::string> warnings_;
  std::map<std::string, Trouble> troubles_;
  bool known_ = false;  // a daemon has taken the run
  bool announced_ = false;
  bool url_printed_ = false;
  bool spool_printed_ = false;
  bool ended_ = false;
  Time known_at_ = Time::min();
  Time unconnected_since_ = Time::min();
  uint64_t refused_rows_ = 0;  // reported, or about to be
  uint64_t refused_updates_ = 0;
  size_t left_out_printed_ = 0;  // of Facts::left_out
  std::string run_id_;
  std::string url_;
  std::string state_;  // warns that the log ends with the container; else empty
  std::vector<std::string> destinations_;
  // The delivered rows of the run, as the daemon last reported: "412 of 2000 rows delivered". The
  // total is left out while the run is open.
  std::string delivered_rows_;
  bool delivered_ = false;
  Time next_delivery_line_ = Time::min();
};

}  // namespace ranklog::internal

#endif  // CLIENT_RUN_USER_MESSAGES_H_
