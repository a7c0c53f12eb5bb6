// A library and a daemon of two versions: nothing is lost, and each side says what to do.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ranklog/v1/ranklog.grpc.pb.h"
#include "ranklog/v1/spool_layout.h"
#include "tests/integration/node.h"

namespace ranklog::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class OtherVersionTest : public ::testing::Test {
 protected:
  Finished Cli(const std::string& command) const {
    ChildProcess::Options options;
    options.environment = {{"RANKLOG_ADDRESS", node_.address()},
                           {"RANKLOG_SPOOL_DIR", node_.spool_dir()}};
    return RunToEnd({RANKLOG_CLI, "--state-dir", node_.state_dir(), command}, options);
  }
  std::vector<std::string> Rings() const {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(node_.spool_dir())) {
      paths.push_back(entry.path().string());
    }
    return paths;
  }
  // Returns a ring of 20 rows, left by a rank that no daemon met.
  std::string LeaveRing() {
    EXPECT_EQ(
        node_.StartRank("job", 0, 0, 1, 1, {"20"}, {{"RANKLOG_FINISH_TIMEOUT_MS", "50"}}).Wait(),
        3);
    const std::vector<std::string> rings = Rings();
    EXPECT_THAT(rings, SizeIs(1));
    return rings.at(0);
  }
  // The protocol version is the first field of the Hello in it.
  static constexpr size_t kProtocolAt = v1::kSpoolHeaderBytes + 1;
  static constexpr size_t kLayoutAt = offsetof(v1::SpoolHeader, version);
  static void Write(const std::string& path, size_t at, char byte) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(pwrite(fd, &byte, 1, static_cast<off_t>(at)), 1);
    close(fd);
  }

  Node node_;
};

TEST_F(OtherVersionTest, RefusalNamesBothVersionsAndRemedy) {
  node_.Start();
  const auto stub =
      v1::Ingest::NewStub(grpc::CreateChannel(node_.address(), grpc::InsecureChannelCredentials()));
  for (const uint32_t protocol : {v1::kProtocolVersion + 1, v1::kProtocolVersion - 1}) {
    grpc::ClientContext context;
    const auto stream = stub->Attach(&context);
    v1::ClientMessage message;
    message.mutable_hello()->set_protocol(protocol);
    message.mutable_hello()->mutable_identity()->set_client_version("9.8.7");
    stream->Write(message);
    v1::ServerMessage answer;
    EXPECT_FALSE(stream->Read(&answer));
    const grpc::Status status = stream->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(
        status.error_message(),
        ContainsRegex(absl::StrCat("^ranklogd [0-9.]+ speaks protocol ", v1::kProtocolVersion,
                                   ", the rank's libranklog 9.8.7 ", "protocol ", protocol, ";")));
    EXPECT_THAT(status.error_message(), HasSubstr("run the ranklogd that came with the library"));
  }
  EXPECT_TRUE(WaitFor([&] { return node_.Counter("ingest.refused_versions") == 2; }));
  EXPECT_THAT(Cli("status").output, HasSubstr("2 of another version refused"));
  EXPECT_THAT(node_.Log(), HasSubstr("libranklog 9.8.7 protocol"));
}

TEST_F(OtherVersionTest, RingWaitsForMatchingDaemonVersion) {
  const std::string ring = LeaveRing();
  for (const auto& [at, version] :
       {std::pair(kProtocolAt, v1::kProtocolVersion), std::pair(kLayoutAt, v1::kSpoolVersion)}) {
    SCOPED_TRACE(at);
    Write(ring, at, static_cast<char>(version + 1));
    node_.Start();
    EXPECT_TRUE(WaitFor([&] { return node_.Counter("ingest.left_rings") == 1; }));
    EXPECT_TRUE(std::filesystem::exists(ring));
    EXPECT_THAT(Cli("status").output, HasSubstr("1 with an unreadable spool"));
    const Finished doctor = Cli("doctor");
    EXPECT_EQ(doctor.code, 1);
    EXPECT_THAT(doctor.output, HasSubstr(std::filesystem::path(ring).filename().string()));
    EXPECT_THAT(doctor.output, HasSubstr("another version of Ranklog wrote"));
    EXPECT_EQ(node_.Terminate(), 0);
    Write(ring, at, static_cast<char>(version));
  }
  node_.Start();
  EXPECT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  EXPECT_EQ(node_.GetRun("job").rows, 20u);
  EXPECT_TRUE(WaitFor([&] { return !std::filesystem::exists(ring); }));
}

}  // namespace
}  // namespace ranklog::testing
