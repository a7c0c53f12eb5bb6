// A client that exceeds a limit gets an error, and harms no other client on the node.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/config.h"
#include "ranklog/v1/ranklog.grpc.pb.h"
#include "ranklog/v1/spool_layout.h"
#include "service/storage/database/sqlite.h"
#include "service/storage/database/store_file.h"
#include "tests/integration/counting_job.h"
#include "tests/support/status_matchers.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kMaxStreams = 4096;  // equal to StreamRegistry's

// One stream of a client that is not libranklog.
class BareStream {
 public:
  BareStream(v1::Ingest::Stub* stub, uint64_t incarnation) : stream_(stub->Attach(&context_)) {
    v1::ClientMessage message;
    v1::Hello* const hello = message.mutable_hello();
    hello->set_protocol(v1::kProtocolVersion);
    hello->mutable_stream()->set_project("bare");
    // Several jobs, because an attach reads the earlier streams of its job.
    hello->mutable_stream()->set_job_id("bare" + std::to_string(incarnation / 256));
    hello->mutable_stream()->set_incarnation(incarnation);
    hello->mutable_identity()->set_world_size(1);
    v1::Destination* const destination = hello->mutable_settings()->add_destinations();
    destination->set_kind("local");
    destination->set_chosen(true);
    stream_->Write(message);
  }

  bool ReadsAnAnswer() {
    v1::ServerMessage message;
    return stream_->Read(&message);
  }
  bool Write(const v1::ClientMessage& message) { return stream_->Write(message); }
  // Reads until the daemon ends the stream. Returns the reason.
  grpc::Status End() {
    while (ReadsAnAnswer()) {
    }
    return stream_->Finish();
  }
  void HalfClose() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ClientMessage, v1::ServerMessage>> stream_;
};

class BoundsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    node_.Start();
    counting_ = std::make_unique<CountingJob>(
        node_, "good", /*rows=*/0,
        std::map<std::string, std::string>{{"RANKLOG_SPOOL_BYTES", "65536"}});
    ASSERT_TRUE(counting_->WaitForReturned(1000));
    grpc::ChannelArguments arguments;
    arguments.SetMaxSendMessageSize(-1);
    stub_ = v1::Ingest::NewStub(
        grpc::CreateCustomChannel(node_.address(), grpc::InsecureChannelCredentials(), arguments));
  }
  // Checks that the client was counted under this name only, and that `status` shows it.
  void ExpectCounted(const std::string& counter, const std::string& text) {
    // For some limits, the daemon learns of the client only after the call, and the client's error
    // comes just before.
    ASSERT_TRUE(WaitFor([&] { return node_.Counter("ingest." + counter) > 0; }));
    for (const char* name : {"refused_messages", "refused_shapes", "refused_streams"}) {
      EXPECT_EQ(node_.Counter(std::string("ingest.") + name), name == counter ? 1u : 0u) << name;
    }
    ChildProcess::Options options;
    options.environment = {{"RANKLOG_ADDRESS", node_.address()}};
    const Finished status =
        RunToEnd({RANKLOG_CLI, "status", "--state-dir", node_.state_dir()}, options);
    EXPECT_THAT(status.output, HasSubstr("1 " + text + " refused"));
    EXPECT_EQ(node_.LogCount("refused rank 0 of bare"), 1u);
  }
  void ExpectTheOtherRankGoesOn() {
    const uint64_t before = counting_->returned();
    EXPECT_TRUE(counting_->WaitForReturned(before + 20'000));  // far more than the ring holds
    EXPECT_EQ(counting_->Finish(), 0);
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("good"); }));
    counting_->ExpectEveryReturnedRowOnce();
  }

  Node node_;
  std::unique_ptr<CountingJob> counting_;
  std::unique_ptr<v1::Ingest::Stub> stub_;
};

TEST_F(BoundsTest, TooLargeMessageIsRefused) {
  BareStream stream(stub_.get(), 1);
  ASSERT_TRUE(stream.ReadsAnAnswer());
  v1::ClientMessage message;
  message.mutable_shape()->set_id(1);
  message.mutable_shape()->add_keys(std::string(v1::kMaxMessageBytes, 'k'));
  stream.Write(message);
  const grpc::Status status = stream.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  ExpectTheOtherRankGoesOn();
}

TEST_F(BoundsTest, MalformedBatchIsRefused) {
  BareStream stream(stub_.get(), 1);
  ASSERT_TRUE(stream.ReadsAnAnswer());
  v1::ClientMessage message;
  message.mutable_batch()->set_first_seq(5);
  message.mutable_batch()->set_last_seq(1);
  stream.Write(message);
  EXPECT_EQ(stream.End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  ExpectCounted("refused_messages", "malformed");
  ExpectTheOtherRankGoesOn();
}

// Streams that end in other ways do not count as refused.
TEST_F(BoundsTest, ClosedStreamIsNotRefused) {
  for (uint64_t i = 1; i <= 50; ++i) {
    BareStream stream(stub_.get(), i);
    ASSERT_TRUE(stream.ReadsAnAnswer());
    if (i % 2 == 0) {
      stream.Cancel();
    } else {
      stream.HalfClose();
    }
    stream.End();
  }
  EXPECT_TRUE(WaitFor([&] { return node_.Counter("ingest.attaches") == 51; }));
  ExpectTheOtherRankGoesOn();
  EXPECT_EQ(node_.LogCount("refused rank 0 of bare"), 0u);
}

// Neither do clients that gave up while the disk delayed the answer.
TEST_F(BoundsTest, StreamCancelledEarlyIsNotRefused) {
  ASSERT_OK_AND_ASSIGN(
      storage::Database other,
      storage::Database::Open(node_.state_dir() + "/" + storage::kStoreFile,
                              storage::Database::Mode::kReadWrite, /*vfs=*/nullptr));
  ASSERT_OK(other.Execute("BEGIN IMMEDIATE"));
  std::vector<std::unique_ptr<BareStream>> streams;
  for (uint64_t i = 1; i <= 10; ++i) {
    streams.push_back(std::make_unique<BareStream>(stub_.get(), i));
  }
  // The answer to this query gives the daemon time to read the streams' Hello. If it is still too
  // slow, the streams leave before their Hello, and are not refused either.
  node_.Counter("ingest.attaches");
  for (const auto& stream : streams) stream->Cancel();
  for (const auto& stream : streams) stream->End();
  node_.Counter("ingest.attaches");
  ASSERT_OK(other.Execute("ROLLBACK"));
  ExpectTheOtherRankGoesOn();
  EXPECT_EQ(node_.LogCount("refused rank 0 of bare"), 0u);
}

TEST_F(BoundsTest, TooManyKeysAreRefused) {
  BareStream stream(stub_.get(), 1);
  ASSERT_TRUE(stream.ReadsAnAnswer());
  v1::ClientMessage message;
  message.mutable_shape()->add_keys(std::string(8 << 20, 'k'));
  bool open = true;
  for (uint32_t id = 1; open && id <= v1::kMaxShapes; ++id) {
    message.mutable_shape()->set_id(id);
    message.mutable_shape()->mutable_keys(0)->back() = static_cast<char>('a' + id % 26);
    open = stream.Write(message);
  }
  EXPECT_FALSE(open);
  const grpc::Status status = stream.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("64 MiB of keys"));
  ExpectCounted("refused_shapes", "with too many keys");
  ExpectTheOtherRankGoesOn();
}

#ifndef ABSL_HAVE_ADDRESS_SANITIZER  // 4095 more of the same streams take it 20 s
TEST_F(BoundsTest, TooManyStreamsAreRefused) {
  std::vector<std::unique_ptr<BareStream>> streams;
  for (uint64_t i = 1; i <= kMaxStreams - 1; ++i) {  // one stream is the good rank's
    streams.push_back(std::make_unique<BareStream>(stub_.get(), i));
  }
  for (const auto& stream : streams) ASSERT_TRUE(stream->ReadsAnAnswer());
  BareStream one_more(stub_.get(), kMaxStreams);
  EXPECT_FALSE(one_more.ReadsAnAnswer());
  const grpc::Status status = one_more.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("4096 live streams"));
  ExpectCounted("refused_streams", "above the limit of streams");
  ExpectTheOtherRankGoesOn();
  for (const auto& stream : streams) stream->Cancel();
}
#endif

}  // namespace
}  // namespace ranklog::testing
