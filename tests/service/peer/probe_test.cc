// What `ranklog doctor --peer` finds out about another node.

#include "service/peer/tls/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/service/peer/peer_fixture.h"
#include "tests/support/dead_port.h"
#include "tests/support/tls_server.h"

namespace ranklog::peer {
namespace {

using ::ranklog::testing::DeadPort;
using ::ranklog::testing::Listener;
using ::ranklog::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ProbeTest : public ::ranklog::testing::PeerTest {
 protected:
  absl::Status ProbeAt(int port, absl::Duration patience = absl::Seconds(20)) {
    return Probe(key_, {"127.0.0.1", port}, absl::Now(), patience).status();
  }
};

TEST_F(ProbeTest, SameKeyIsFound) {
  Listen();
  ASSERT_OK_AND_ASSIGN(const Probed probed, Probe(key_, address(), absl::Now()));
  EXPECT_EQ(probed.address, address().Text());
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(ProbeTest, OtherKeyIsNamed) {
  Listen();
  EXPECT_THAT(Probe(NewKey("other"), address(), absl::Now()).status(),
              StatusIs(absl::StatusCode::kUnauthenticated,
                       AllOf(HasSubstr("has another key"), HasSubstr("ranklog peer-key --show"))));
}

// The server does not say why.
TEST_F(ProbeTest, WrongClockIsNotAccepted) {
  Listen();
  EXPECT_THAT(Probe(key_, address(), absl::Now() + absl::Hours(40 * 24)).status(),
              StatusIs(absl::StatusCode::kUnauthenticated));
}

TEST_F(ProbeTest, OtherServersAreNamed) {
  EXPECT_THAT(ProbeAt(DeadPort(DeadPort::kRefuses).number()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no daemon listens there")));
  const DeadPort silent(DeadPort::kListens);
  EXPECT_THAT(ProbeAt(silent.number(), absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("does not answer")));
  const Listener http(std::make_unique<httplib::Server>(),
                      [](const httplib::Request&, httplib::Response&) {});
  EXPECT_THAT(ProbeAt(http.port()), StatusIs(absl::StatusCode::kFailedPrecondition,
                                             HasSubstr("is not a daemon of Ranklog")));
  EXPECT_THAT(Probe(key_, {"no-such-host.invalid", 1}, absl::Now()).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("cannot resolve")));
}

}  // namespace
}  // namespace ranklog::peer
