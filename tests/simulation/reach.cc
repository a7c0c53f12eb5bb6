// How the ranks of a node reach its daemon: connections, and calls that may get lost in either
// direction.

#include <algorithm>
#include <memory>

#include "tests/simulation/simulated_node.h"

namespace ranklog::simulation {
Daemon SimulatedNode::Reach() {
  Daemon reach;
  reach.connect = [this](std::shared_ptr<Link> link, RingRecord* ring) {
    if (daemon_ == nullptr) return false;
    daemon_->Connect(link, ring->incarnation);
    return true;
  };
  reach.life = [this] { return daemon_ == nullptr ? 0 : lives_; };
  reach.pass = [this](const std::string& path) -> uint64_t {
    if (daemon_ == nullptr || (world_.faults && world_.Chance(0.05))) return 0;
    daemon_->Pass(path);
    return lives_;
  };
  const auto answer_later = [this](auto answer, absl::Status status) {
    const bool lost = world_.faults && world_.Chance(0.1);
    if (lost) status = absl::DeadlineExceededError("lost");
    world_.After(lost ? absl::Seconds(30) : world_.Delay(0, 20),
                 [answer, code = status.code()] { answer(code); });
  };
  const auto call = [this, answer_later](auto answer, auto act) {
    if (daemon_ == nullptr || (world_.faults && world_.Chance(0.05))) {
      return answer_later(answer, absl::UnavailableError("lost on its way"));
    }
    world_.After(world_.Delay(0, 20), [this, answer, act, answer_later] {
      if (daemon_ == nullptr) {
        return answer_later(answer, absl::UnavailableError("the daemon is gone"));
      }
      act([this, answer, answer_later, life = lives_](const absl::Status& status) {
        const bool alive = daemon_ != nullptr && life == lives_ && daemon_->works();
        answer_later(answer, alive ? status : absl::UnavailableError("the daemon is gone"));
      });
    });
  };
  reach.finish = [this, call](const v1::FinishRequest& request, RingRecord* ring, auto answer) {
    call(answer, [this, request, ring](auto then) {
      daemon_->Finish(request, [ring, then](const absl::Status& status) {
        if (status.ok()) ring->end_acknowledged = true;
        then(status);
      });
    });
  };
  return reach;
}

}  // namespace ranklog::simulation
