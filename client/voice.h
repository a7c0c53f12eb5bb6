// Decides what the user of a run is told, and when: one line when the run is known, one per trouble
// and one when it is over, one at the end.

#ifndef CLIENT_VOICE_H_
#define CLIENT_VOICE_H_

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

// "the daemon has taken nothing for 14 s".
std::string TakenNothing(std::chrono::steady_clock::duration stalled);

// For the sender's thread. Knows no clock and no file: lines go to a sink.
class Voice {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Sink = std::function<void(Severity, const std::string&)>;

  // The same trouble, or another one of its key, is said once a minute at most: what comes and goes
  // must not fill the log of a training of days.
  static constexpr std::chrono::seconds kAgain{60};
  // A daemon that is started, or is started again, answers within this.
  static constexpr std::chrono::seconds kConnectGrace{3};
  // How often the end of a run that waits for its delivery says how far that is.
  static constexpr std::chrono::seconds kDeliveryLine{10};
  static constexpr std::chrono::seconds kDeliveryGrace{2};
  // How long the first line waits for the run's address at its tracker.
  static constexpr std::chrono::seconds kUrlGrace{2};

  // What the process knows by itself.
  struct Facts {
    Stats stats;
    std::string no_ring;           // why there is no ring; empty if there is one
    std::string refusal;           // what was wrong with the last row that was not valid
    std::string unconnected;       // why no daemon answers; empty if one does
    Time::duration stalled{};      // how long it has taken none of the rows that wait for it
    std::string spool_full;        // why the spool had no room for the last row that it refused
    double spool_used = 0;         // of the fullest ring, 0 to 1
    std::string spool_notice;      // why it does not lie where it should
    bool rows_in_memory = false;   // which are lost if the process ends before a daemon takes them
    bool awaits_delivery = false;  // the run's end waits for the tracker
    enum class End { kNone, kDurable, kSpooled } end = End::kNone;
  };

  // `settings` as they were resolved. `sink` may be null: nothing is said.
  Voice(const Settings& settings, Sink sink);

  // A message of the daemon.
  void OnMessage(const v1::ServerMessage& message);
  // A line of the process's own, said once.
  void Warn(std::string text);
  // What Warn() brought, where the rank has nothing else to say.
  void SayMistakes();
  // Says what is to be said now. True: that was the last line.
  bool Look(Time now, const Facts& facts);

  // The worst that the daemon tells now; empty if all is well there.
  std::string DaemonTrouble() const;
  // Whether the run goes to a tracker, and whether that has all of it.
  bool Leaves() const;
  bool delivered() const { return delivered_; }
  // As far as the daemon has told it; else the one that was given.
  const std::string& run_id() const { return run_id_; }

 private:
  struct Trouble {
    Severity severity = Severity::kWarning;
    std::string text;
    bool active = false;
    bool of_daemon = false;
    std::string over;  // the line when it is over; empty: none
    bool said = false;
    std::string said_text;
    Time said_at = Time::min();
  };

  void Say(Severity severity, const std::string& text) const;
  void OnNotice(const v1::Notice& notice);
  void Set(const std::string& key, Severity severity, std::string text, std::string over);
  void Clear(const std::string& key);
  void LookAtProcess(Time now, const Facts& facts);
  void SayTroubles(Time now);
  void SayTrouble(Time now, Trouble* trouble) const;
  void SayStart(Time now, bool ended);
  void SayDelivery(Time now);
  void SayEnd(const Facts& facts);
  bool GoesTo(const std::string& kind) const;
  std::string Address() const;

  const std::string job_id_;
  const std::string strategy_;
  const std::string server_;
  const int world_size_;
  const bool awaits_delivery_;  // at the run's end
  const bool is_first_;         // the job's line is rank 0's
  const Sink sink_;

  std::vector<std::string> warnings_;
  std::map<std::string, Trouble> troubles_;
  bool known_ = false;  // a daemon has taken the run
  bool announced_ = false;
  bool url_said_ = false;
  bool spool_said_ = false;
  bool ended_ = false;
  Time known_at_ = Time::min();
  Time unconnected_since_ = Time::min();
  uint64_t refused_rows_ = 0;  // said or about to be
  std::string run_id_;
  std::string url_;
  std::string state_;  // that the log lies on what ends with the container; empty: it does not
  std::vector<std::string> destinations_;
  // Of the run's rows, as the daemon last told: "412 of 2000 rows delivered", without the number of
  // all while the run is open.
  std::string delivered_rows_;
  bool delivered_ = false;
  Time next_delivery_line_ = Time::min();
};

}  // namespace ranklog::internal

#endif  // CLIENT_VOICE_H_
