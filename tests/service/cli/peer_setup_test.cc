#include "service/cli/node/peer_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace ranklog::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kOurs[] = "SHA256:ours";

KeyUse UseBy(const DaemonStatus::Peer& peer) {
  DaemonStatus daemon;
  daemon.peer = peer;
  return UseOfKey(daemon, kOurs);
}

DaemonStatus::Peer PeerOf(const char* key_file, const std::string& fingerprint, const char* address,
                          const char* error) {
  DaemonStatus::Peer peer;
  peer.key_file = key_file;
  peer.fingerprint = fingerprint;
  peer.address = address;
  peer.error = error;
  return peer;
}

TEST(PeerSetupTest, VariablesComeBeforeDefaults) {
  setenv("XDG_CONFIG_HOME", "/config", 1);
  EXPECT_EQ(PeerKeyFile(), "/config/ranklog/peer.key");
  EXPECT_EQ(PeerPort(), 20000 + static_cast<int>(geteuid() % 10000));
  setenv("RANKLOG_PEER_KEY", "/etc/key", 1);
  setenv("RANKLOG_PEER_LISTEN", "[::]:4000", 1);
  EXPECT_EQ(PeerKeyFile(), "/etc/key");
  EXPECT_EQ(PeerPort(), 4000);
  setenv("RANKLOG_PEER_KEY", "none", 1);
  setenv("RANKLOG_PEER_LISTEN", "none", 1);
  EXPECT_EQ(PeerKeyFile(), "");
  EXPECT_EQ(PeerPort(), 20000 + static_cast<int>(geteuid() % 10000)) << "it may send nevertheless";
  for (const char* name : {"XDG_CONFIG_HOME", "RANKLOG_PEER_KEY", "RANKLOG_PEER_LISTEN"}) {
    unsetenv(name);
  }
}

TEST(PeerSetupTest, DaemonWithKeyIsWell) {
  const KeyUse listens = UseBy(PeerOf("/k", kOurs, "[::]:4000", ""));
  EXPECT_FALSE(listens.problem);
  EXPECT_EQ(listens.text, "the daemon of this node uses it, and listens at [::]:4000");
  const KeyUse silent = UseBy(PeerOf("/k", kOurs, "", ""));
  EXPECT_FALSE(silent.problem);
  EXPECT_THAT(silent.text, HasSubstr("does not listen (--peer-listen none)"));
  EXPECT_FALSE(UseBy(PeerOf("", "", "", "")).problem) << "turned off";
  EXPECT_FALSE(UseOfKey(absl::nullopt, kOurs).problem) << "no daemon";
}

TEST(PeerSetupTest, DaemonWithoutThisKeyIsProblem) {
  EXPECT_TRUE(UseOfKey(DaemonStatus(), kOurs).problem) << "an older version";
  const KeyUse late = UseBy(PeerOf("/k", "", "", ""));
  EXPECT_TRUE(late.problem);
  EXPECT_THAT(late.text, HasSubstr("has no key; start it again"));
  EXPECT_THAT(UseBy(PeerOf("/k", "", "", "refused /k: chmod")).text,
              HasSubstr("no key: refused /k"));
  const KeyUse other = UseBy(PeerOf("/k", "SHA256:other", "[::]:1", ""));
  EXPECT_TRUE(other.problem);
  EXPECT_THAT(other.text, HasSubstr("has another key, SHA256:other; start it again"));
  EXPECT_TRUE(UseBy(PeerOf("/k", kOurs, "", "cannot listen")).problem);
}

}  // namespace
}  // namespace ranklog::cli
