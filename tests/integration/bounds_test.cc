// A client that asks for more than one may have is told so, and hurts nobody else on the node.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ranklog/v1/ranklog.grpc.pb.h"
#include "ranklog/v1/spool_layout.h"
#include "tests/integration/counting_job.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kMaxStreams = 4096;  // StreamRegistry's

// One stream of a client that is not libranklog.
class BareStream {
 public:
  BareStream(v1::Ingest::Stub* stub, uint64_t incarnation) : stream_(stub->Attach(&context_)) {
    v1::ClientMessage message;
    v1::Hello* const hello = message.mutable_hello();
    hello->set_protocol(v1::kProtocolVersion);
    hello->mutable_stream()->set_project("bare");
    hello->mutable_stream()->set_job_id("bare");
    hello->mutable_stream()->set_incarnation(incarnation);
    hello->mutable_identity()->set_world_size(1);
    hello->mutable_settings()->add_destinations("local");
    stream_->Write(message);
  }

  bool ReadsAnAnswer() {
    v1::ServerMessage message;
    return stream_->Read(&message);
  }
  bool Write(const v1::ClientMessage& message) { return stream_->Write(message); }
  // Reads until the daemon ends the stream; why it did.
  grpc::Status End() {
    while (ReadsAnAnswer()) {
    }
    return stream_->Finish();
  }
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

TEST_F(BoundsTest, AMessageThatIsTooLarge) {
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

TEST_F(BoundsTest, MoreKeysThanAStreamMayHave) {
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
  ExpectTheOtherRankGoesOn();
}

TEST_F(BoundsTest, MoreStreamsThanThereMayBe) {
  std::vector<std::unique_ptr<BareStream>> streams;
  for (uint64_t i = 1; i <= kMaxStreams - 1; ++i) {  // one is the good rank's
    streams.push_back(std::make_unique<BareStream>(stub_.get(), i));
  }
  for (const auto& stream : streams) ASSERT_TRUE(stream->ReadsAnAnswer());
  BareStream one_more(stub_.get(), kMaxStreams);
  EXPECT_FALSE(one_more.ReadsAnAnswer());
  const grpc::Status status = one_more.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("4096 live streams"));
  ExpectTheOtherRankGoesOn();
  for (const auto& stream : streams) stream->Cancel();
}

}  // namespace
}  // namespace ranklog::testing
