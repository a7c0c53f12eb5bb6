#include "tests/simulation/peer_network.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ranklog::simulation {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(20);  // equal to that of Homes::Push()

}  // namespace

// A request under way; shared with the events in flight.
struct PeerNetwork::Call {
  uint32_t node = 0;
  absl::Time sent;
  v1::PushRequest request;
  Answer done;  // null: answered
  void End(absl::Status status, v1::PushReply reply) {
    if (const Answer answer = std::exchange(done, nullptr)) {
      answer(std::move(status), std::move(reply));
    }
  }
};

void PeerNetwork::Send(uint32_t node, const v1::PushRequest& request, Answer done) {
  ++requests_;
  auto call = std::make_shared<Call>();
  call->node = node;
  call->sent = world_.now();
  call->request = request;
  call->done = std::move(done);
  // The connection breaks, or the deadline passes.
  const bool breaks = world_.faults && world_.Chance(0.05);
  world_.After(breaks ? world_.Delay(0, 3000) : kLimit,
               [call] { call->End(absl::DeadlineExceededError("no answer from the home"), {}); });
  if (world_.faults && world_.Chance(0.05)) return;  // the request is lost
  const bool late = world_.faults && world_.Chance(0.03);
  world_.After(late ? world_.Delay(0, 40'000) : world_.Delay(0, 50),
               [this, call] { Arrive(call); });
  if (world_.faults && world_.Chance(0.08)) {
    world_.After(world_.Chance(0.5) ? world_.Delay(0, 500) : world_.Delay(0, 60'000),
                 [this, call] { Arrive(call); });
  }
}

void PeerNetwork::Arrive(const std::shared_ptr<Call>& call) {
  if (IsCut(call->node)) return;
  const bool listens = home_(call->request, [this, call](absl::Status status, v1::PushReply reply) {
    Return(call, std::move(status), std::move(reply));
  });
  if (!listens) return Return(call, absl::UnavailableError("no daemon listens at home"), {});
  last_heard_[call->node] = world_.now();
  const bool timely = world_.now() - call->sent < absl::Seconds(1);
  if (timely && call->request.sender() == senders_[call->node])
    heard_[call->node].push_back(world_.now());
}

void PeerNetwork::Return(const std::shared_ptr<Call>& call, absl::Status status,
                         v1::PushReply reply) {
  std::string results;
  for (const v1::PushedAnswer& answer : reply.stream()) {
    absl::StrAppend(&results, " ", v1::PushedAnswer::Result_Name(answer.result()), " ",
                    answer.durable_seq(), answer.why().empty() ? "" : " ", answer.why());
  }
  world_.Note("the home answers node ", call->node, ": ", std::string(status.message()), results);
  if (world_.faults && world_.Chance(0.05)) return;  // the answer is lost
  world_.After(world_.Delay(0, 50),
               [this, call, status = std::move(status), reply = std::move(reply)] {
                 if (!IsCut(call->node)) call->End(status, reply);
               });
}

void PeerNetwork::CutNowAndThen(uint32_t node) {
  world_.After(world_.Delay(1000, 20'000), [this, node] {
    if (!world_.faults) return;
    const absl::Duration span =
        world_.Chance(0.3) ? world_.Delay(10'000, 120'000) : world_.Delay(500, 10'000);
    world_.Note("node ", node, " is cut off for ", absl::FormatDuration(span));
    cut_until_[node] = std::max(cut_until_[node], world_.now() + span);
    CutNowAndThen(node);
  });
}

bool PeerNetwork::HeardBetween(uint32_t node, absl::Time from, absl::Time to) const {
  const auto times = heard_.find(node);
  return times != heard_.end() && std::any_of(times->second.begin(), times->second.end(),
                                              [&](absl::Time at) { return from <= at && at < to; });
}

absl::Time PeerNetwork::LastHeard(uint32_t node) const {
  const auto last = last_heard_.find(node);
  return last == last_heard_.end() ? absl::InfinitePast() : last->second;
}

}  // namespace ranklog::simulation
