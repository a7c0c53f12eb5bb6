// Who gets through to the service for other daemons, over real sockets.

#include "service/peer/tls/peer_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <atomic>
#include <memory>
#include <string>

#include "service/peer/tls/probe.h"
#include "tests/service/peer/peer_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/dead_port.h"
#include "tests/support/file_content.h"
#include "tests/support/tls_server.h"

namespace ranklog::peer {
namespace {

using ::ranklog::testing::SelfSigned;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::WaitFor;
using ::testing::HasSubstr;

using PeerListenerTest = ::ranklog::testing::PeerTest;

TEST_F(PeerListenerTest, SameKeyIsServed) {
  Listen();
  EXPECT_EQ(listener_->error(), "");
  EXPECT_TRUE(CallWith(key_).ok());
  EXPECT_TRUE(CallWith(SameKey("key")).ok()) << "a copy on another node";
  EXPECT_EQ(service_.calls, 2);
  EXPECT_EQ(counters_.refused, 0u);
}

TEST_F(PeerListenerTest, OtherKeyIsRefused) {
  Listen();
  const PeerKey other = NewKey("other");
  EXPECT_FALSE(CallWith(other).ok());
  // The client does not check the server.
  ASSERT_OK_AND_ASSIGN(Leaf leaf, other.MakeLeaf(absl::Now()));
  EXPECT_FALSE(
      Call(grpc::SslCredentials({key_.authority_pem(), leaf.key_pem, leaf.chain_pem})).ok());
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(PeerListenerTest, ClientRefusesOtherServer) {
  Listen();
  const PeerKey other = NewKey("other");
  ASSERT_OK_AND_ASSIGN(Leaf leaf, key_.MakeLeaf(absl::Now()));
  EXPECT_FALSE(
      Call(grpc::SslCredentials({other.authority_pem(), leaf.key_pem, leaf.chain_pem})).ok());
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(PeerListenerTest, ExpiredClientIsRefused) {
  old_ = NewKey("old", absl::Now() - absl::Hours(24 * 100));
  Listen({}, old_);
  EXPECT_TRUE(CallWith(old_).ok());
  EXPECT_FALSE(CallWith(old_, absl::Now() - absl::Hours(24 * 31)).ok());
  EXPECT_TRUE(CallWith(old_, absl::Now() - absl::Hours(24 * 29)).ok());
  EXPECT_FALSE(CallWith(old_, absl::Now() + absl::Hours(25)).ok()) << "not valid yet";
  EXPECT_TRUE(CallWith(old_, absl::Now() + absl::Hours(23)).ok()) << "a clock that is ahead";
  EXPECT_EQ(service_.calls, 3);
}

TEST_F(PeerListenerTest, SelfSignedClientIsRefused) {
  Listen();
  const SelfSigned own("DNS:ranklog-peer");
  BIO* const bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, own.key(), nullptr, nullptr, 0, nullptr, nullptr);
  const char* data = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(bio, &data));
  const std::string key(data, size);
  BIO_free(bio);
  own.Write(dir_.File("certificate"));
  const std::string certificate = testing::FileContent(dir_.File("certificate"));
  EXPECT_FALSE(Call(grpc::SslCredentials({key_.authority_pem(), key, certificate})).ok());
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(PeerListenerTest, ClientWithoutCertificateIsRefused) {
  Listen();
  EXPECT_FALSE(Call(grpc::SslCredentials({key_.authority_pem(), "", ""})).ok());
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(PeerListenerTest, PlainTextClientIsRefused) {
  Listen();
  EXPECT_FALSE(Call(grpc::InsecureChannelCredentials()).ok());
  EXPECT_EQ(service_.calls, 0);
  EXPECT_TRUE(WaitFor([&] { return counters_.refused > 0; }));
}

// With TLS 1.2, the handshake itself fails.
TEST_F(PeerListenerTest, OldClientWithoutCertificateIsRefused) {
  Listen();
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
  BIO* const bio = BIO_new_ssl_connect(context);
  BIO_set_conn_hostname(bio, address().Text().c_str());
  EXPECT_LE(BIO_do_handshake(bio), 0);
  BIO_free_all(bio);
  SSL_CTX_free(context);
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(PeerListenerTest, DaemonsUseTls13) {
  Listen();
  ASSERT_OK_AND_ASSIGN(const Probed probed, Probe(key_, address(), absl::Now()));
  EXPECT_EQ(probed.protocol, "TLSv1.3");
}

TEST_F(PeerListenerTest, BindsOnlyItsAddress) {
  Listen({.address = {"127.0.0.1", 0}});
  EXPECT_THAT(Probe(key_, {"127.0.0.2", address().port}, absl::Now()).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("Connection refused")));
}

TEST_F(PeerListenerTest, AnyAddressServesIpv4Too) {
  Listen({.address = {"::", 0}});
  EXPECT_EQ(listener_->error(), "");
  EXPECT_TRUE(CallWith(key_).ok());
}

TEST_F(PeerListenerTest, UsedAddressIsTriedAgain) {
  auto other = std::make_unique<testing::DeadPort>(testing::DeadPort::kListens, 0x7f370001);
  const int port = other->number();
  Listen({.address = {"127.55.0.1", port}, .retry = absl::Milliseconds(20)});
  EXPECT_EQ(listener_->error(),
            "cannot listen at 127.55.0.1:" + std::to_string(port) +
                " for the daemons of other nodes: Address already in use; end the other program, "
                "or choose another port on all nodes (--peer-listen)");
  other.reset();
  EXPECT_TRUE(WaitFor([&] { return listener_->error().empty(); }));
  EXPECT_OK(Probe(key_, {"127.55.0.1", port}, absl::Now()).status());
}

TEST_F(PeerListenerTest, ForeignAddressIsAnError) {
  Listen({.address = {"192.0.2.1", 4000}, .retry = absl::Hours(1)});
  EXPECT_THAT(listener_->error(), HasSubstr("Cannot assign requested address"));
  Listen({.address = {"no-such-host.invalid", 4000}, .retry = absl::Hours(1)});
  EXPECT_THAT(listener_->error(), HasSubstr("correct --peer-listen"));
}

TEST_F(PeerListenerTest, ExpiredKeyIsAnError) {
  old_ = NewKey("old", absl::Now() - absl::Hours(24 * 4000));
  Listen({}, old_);
  EXPECT_THAT(listener_->error(), HasSubstr("expired on"));
  EXPECT_EQ(listener_->address().port, 0) << "nothing listens";
}

// The machine may have slept for longer than a leaf is valid.
TEST_F(PeerListenerTest, ExpiredCredentialsAreRenewed) {
  old_ = NewKey("old", absl::Now() - absl::Hours(24 * 100));
  std::atomic<bool> late = false;
  Listen({.renew = absl::Milliseconds(300),
          .now = [&late] { return late ? absl::Now() : absl::Now() - absl::Hours(24 * 31); }},
         old_);
  const int port = address().port;
  EXPECT_THAT(Probe(old_, address(), absl::Now()).status(),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("certificate has expired")));
  late = true;
  EXPECT_TRUE(WaitFor([&] { return Probe(old_, address(), absl::Now()).ok(); }));
  EXPECT_EQ(address().port, port);
}

// Calls in progress end, and later ones go through, on the same channel.
TEST_F(PeerListenerTest, RenewalLosesNoPeer) {
  Listen({.renew = absl::Milliseconds(100)});
  ASSERT_OK_AND_ASSIGN(const auto channel, MakePeerChannel(key_, address(), absl::Now()));
  const absl::Time end = absl::Now() + absl::Seconds(2);
  int done = 0;
  for (; absl::Now() < end; ++done) {
    // As a peer does: it repeats a call that a closed connection ended.
    EXPECT_TRUE(WaitFor([&] { return Call(channel, /*waits=*/true).ok(); }));
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_GT(done, 10);
  EXPECT_EQ(listener_->error(), "");
}

// gRPC's default is to end a connection after three early pings.
TEST_F(PeerListenerTest, FrequentPingsDoNotEndConnection) {
  service_.delay = absl::Seconds(2);
  Listen();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  ASSERT_OK_AND_ASSIGN(const auto credentials, MakeChannelCredentials(key_, absl::Now()));
  const grpc::Status status = Call(credentials, arguments);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(PeerListenerTest, StopClosesPort) {
  Listen();
  const HostPort port = address();
  listener_->Stop();
  listener_->Stop();
  EXPECT_THAT(Probe(key_, port, absl::Now()).status(), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace ranklog::peer
