#include "service/sample/node_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::sample {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(NodeCountersTest, MemoryIsInBytes) {
  const auto memory =
      ParseMemory("MemTotal:  24683656 kB\nMemFree: 5 kB\nMemAvailable:  24226928 kB\n");
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->total, 24683656ull << 10);
  EXPECT_EQ(memory->available, 24226928ull << 10);
}

TEST(NodeCountersTest, IncompleteMemoryIsMissing) {
  EXPECT_FALSE(ParseMemory("").has_value());
  EXPECT_FALSE(ParseMemory("MemTotal:  24683656 kB\n").has_value());
  EXPECT_FALSE(ParseMemory("MemTotal: 0 kB\nMemAvailable: 0 kB\n").has_value());
}

TEST(NodeCountersTest, NetworkHasNoLoopbackInterface) {
  const auto interfaces = ParseNetwork(
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
      "    lo: 29653426535 1071442 0 0 0 0 0 0 29653426535 1071442 0 0 0 0 0 0\n"
      "  eth0:552927089   15460    0    0    0     0          0         0   739748    8690 0 0\n"
      "eth0:1: 7 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0\n");
  ASSERT_THAT(interfaces, SizeIs(2));
  EXPECT_EQ(interfaces[0].device, "eth0");
  EXPECT_EQ(interfaces[0].in, 552927089u);
  EXPECT_EQ(interfaces[0].out, 739748u);
  EXPECT_EQ(interfaces[1].device, "eth0:1");
}

TEST(NodeCountersTest, RetransmitsAreFoundByName) {
  EXPECT_EQ(ParseTcpRetransmits("Ip: A B\nIp: 1 2\nTcp: RtoMin MaxConn RetransSegs InErrs\n"
                                "Tcp: 200 -1 1507 0\nUdp: RetransSegs\nUdp: 9\n"),
            1507u);
  EXPECT_EQ(ParseTcpRetransmits("Tcp: RtoMin RetransSegs\n"), absl::nullopt);
  EXPECT_EQ(ParseTcpRetransmits("Tcp: RtoMin RetransSegs\nTcp: 200\n"), absl::nullopt);
  EXPECT_EQ(ParseTcpRetransmits("Tcp: RtoMin\nTcp: 200\n"), absl::nullopt);
}

TEST(NodeCountersTest, DiskTrafficIsInBytes) {
  const auto disks = ParseDisks(
      "   7       1 loop1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
      " 254       0 vda 479890 28379 15453394 1557966 614148 181213 70276448 902755 0 333220 27\n");
  ASSERT_THAT(disks, SizeIs(1));
  EXPECT_EQ(disks[0].number, "254:0");
  EXPECT_EQ(disks[0].traffic.device, "vda");
  EXPECT_EQ(disks[0].traffic.in, 15453394ull * 512);
  EXPECT_EQ(disks[0].traffic.out, 70276448ull * 512);
}

TEST(NodeCountersTest, CoresExcludeTheirSum) {
  const auto cores = ParseCores(
      "cpu  1780384 49358 267202 424554 7405 0 3322 14959 0 0\n"
      "cpu0 100 10 20 500 30 1 2 3 50 0\ncpu7 1 1 1 1 1 1 1 1 0 0\nintr 11969416 0 0\n");
  ASSERT_THAT(cores, SizeIs(2));
  EXPECT_EQ(cores[0].busy, 100u + 10 + 20 + 1 + 2 + 3);
  EXPECT_EQ(cores[0].total, cores[0].busy + 500 + 30);
  EXPECT_EQ(cores[1].index, 7);
}

TEST(NodeCountersTest, GarbageIsIgnored) {
  for (const char* const text : {"", "\n\n", "x", ":", "lo", "a b c d e f g h i j k l", "cpu"}) {
    EXPECT_FALSE(ParseMemory(text).has_value());
    EXPECT_THAT(ParseNetwork(text), IsEmpty());
    EXPECT_EQ(ParseTcpRetransmits(text), absl::nullopt);
    EXPECT_THAT(ParseDisks(text), IsEmpty());
    EXPECT_THAT(ParseCores(text), IsEmpty());
  }
}

}  // namespace
}  // namespace ranklog::sample
