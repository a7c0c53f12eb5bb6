#include "service/base/host_port.h"

#include <gtest/gtest.h>

#include <string>

namespace ranklog {
namespace {

TEST(HostPortTest, PortHasDefault) {
  EXPECT_EQ(ParseHostPort("node1", 7), (HostPort{"node1", 7}));
  EXPECT_EQ(ParseHostPort("node1:8", 7), (HostPort{"node1", 8}));
  EXPECT_EQ(ParseHostPort("[::]:8", 0), (HostPort{"::", 8}));
  EXPECT_EQ(ParseHostPort("[fe80::1%eth0]", 7), (HostPort{"fe80::1%eth0", 7}));
  EXPECT_EQ(ParseHostPort("node1", 0), absl::nullopt);
}

TEST(HostPortTest, OtherTextIsRefused) {
  for (const char* bad : {"", ":1", "a:", "a:0", "a:65536", "a:+1", "a: 1", "a:b", "fd00::1",
                          "[fd00::1", "[]:1", "a b", "a/b", "u@a", "[a]b", "\xff"}) {
    EXPECT_EQ(ParseHostPort(bad, 7), absl::nullopt) << bad;
  }
  EXPECT_EQ(ParseHostPort(std::string(254, 'a'), 7), absl::nullopt);
}

TEST(HostPortTest, TextIsReadBack) {
  EXPECT_EQ((HostPort{"::", 8}.Text()), "[::]:8");
  EXPECT_EQ((HostPort{"node1", 8}.Text()), "node1:8");
}

}  // namespace
}  // namespace ranklog
