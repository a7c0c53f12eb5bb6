#include "service/ingest/server/attach_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "ranklog/v1/spool_layout.h"
#include "service/ingest/server/finish_call.h"
#include "tests/support/bare_ingest.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::ingest {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kIncarnation = 7;

// A call that keeps all messages.
class FakeCall : public AttachSession::Call {
 public:
  void Read() override { ++reads; }
  void Write(const v1::ServerMessage& message) override {
    EXPECT_FALSE(writing) << "one message at a time";
    writing = true;
    written.push_back(message);
  }
  void Finish(const absl::Status& status) override { finished = status; }

  bool reading() const { return reads > messages; }
  // Returns the durable_seq of the acknowledgements, without the answer to the Hello.
  std::vector<uint64_t> Acks() const {
    std::vector<uint64_t> acks;
    for (const v1::ServerMessage& message : written) {
      if (message.has_ack()) acks.push_back(message.ack().durable_seq());
    }
    return acks;
  }

  int reads = 0;
  int messages = 0;
  bool writing = false;
  std::vector<v1::ServerMessage> written;
  absl::optional<absl::Status> finished;
};

class AttachSessionTest : public ::testing::Test {
 protected:
  AttachSessionTest() {
    auto store = storage::Store::Open(dir_.path(), {.vfs = vfs_.name()});
    EXPECT_OK(store);
    store_ = std::make_unique<pipeline::StoreLoop>(
        *std::move(store),
        pipeline::StoreLoop::Options{.max_queued_bytes = 4096, .threads = false});
    attacher_ = std::make_unique<Attacher>(Reader());
    context_ = testing::BareIngest(store_.get(), attacher_.get(), &registry_, &counters_);
  }
  ~AttachSessionTest() override { store_->Stop(); }

  std::unique_ptr<storage::StoreReader> Reader() {
    auto reader = storage::StoreReader::Open(dir_.path(), vfs_.name());
    EXPECT_OK(reader);
    return *std::move(reader);
  }
  std::shared_ptr<AttachSession> Start(FakeCall* call) {
    return AttachSession::Start(&context_, nullptr, call);
  }
  static void Send(AttachSession& session, FakeCall& call, const v1::ClientMessage& message) {
    ASSERT_TRUE(call.reading()) << "nobody reads";
    ++call.messages;
    session.OnMessage(message);
  }
  static void Written(AttachSession& session, FakeCall& call) {
    call.writing = false;
    session.OnWritten(true);
  }
  std::shared_ptr<AttachSession> Greeted(FakeCall* call) {
    auto session = Start(call);
    Send(*session, *call, Hello());
    store_->Step();
    return session;
  }
  // Returns a session that has sent its Hello and defined its shape.
  std::shared_ptr<AttachSession> Attached(FakeCall* call) {
    auto session = Greeted(call);
    Written(*session, *call);
    Send(*session, *call, Shape());
    store_->Step();
    return session;
  }

  static v1::ClientMessage Hello() {
    v1::ClientMessage message;
    v1::Hello* const hello = message.mutable_hello();
    hello->set_protocol(v1::kProtocolVersion);
    *hello->mutable_stream() = Stream();
    hello->mutable_identity()->set_world_size(1);
    return message;
  }
  static v1::StreamId Stream() {
    v1::StreamId stream;
    stream.set_project("gpt");
    stream.set_job_id("job");
    stream.set_incarnation(kIncarnation);
    return stream;
  }
  static v1::ClientMessage Shape() {
    v1::ClientMessage message;
    message.mutable_shape()->set_id(1);
    message.mutable_shape()->add_keys("loss");
    return message;
  }
  static v1::ClientMessage Rows(uint64_t first, uint64_t last) {
    v1::ClientMessage message;
    v1::Batch* const batch = message.mutable_batch();
    batch->set_first_seq(first);
    batch->set_last_seq(last);
    v1::Block* const block = batch->add_block();
    block->set_shape(1);
    for (uint64_t seq = first; seq <= last; ++seq) {
      block->add_seq_offset(static_cast<uint32_t>(seq - first));
      block->add_step_delta(seq == first ? static_cast<int64_t>(first) : 1);
      block->add_time_delta_us(seq == first ? 1'700'000'000'000'000 : 1);
      block->add_value(static_cast<double>(seq));
    }
    return message;
  }
  std::vector<double> StoredValues() {
    std::vector<double> values;
    const auto reader = Reader();
    const auto streams = reader->LiveStreams();
    EXPECT_OK(streams);
    for (const model::Stream& stream : *streams) {
      const auto batches = reader->StreamBatches(stream.id, 0, 1 << 20);
      EXPECT_OK(batches);
      for (const storage::StoredBatch& stored : *batches) {
        for (const model::Block& block : stored.batch.blocks) {
          values.insert(values.end(), block.values.begin(), block.values.end());
        }
      }
    }
    return values;
  }

  testing::TempDir dir_;
  testing::FaultyVfs vfs_;
  StreamRegistry registry_{[] {}};
  IngestCounters counters_;
  std::unique_ptr<pipeline::StoreLoop> store_;
  std::unique_ptr<Attacher> attacher_;
  IngestContext context_;
};

TEST_F(AttachSessionTest, FirstMessageMustBeAHello) {
  FakeCall call;
  auto session = Start(&call);
  Send(*session, call, Rows(1, 1));
  ASSERT_TRUE(call.finished);
  EXPECT_THAT(*call.finished, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(counters_.refused_messages, 1u);
}

TEST_F(AttachSessionTest, RefusesASecondHello) {
  FakeCall call;
  auto session = Attached(&call);
  Send(*session, call, Hello());
  ASSERT_TRUE(call.finished);
  EXPECT_THAT(*call.finished, StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(AttachSessionTest, RefusesANewerProtocol) {
  FakeCall call;
  auto session = Start(&call);
  v1::ClientMessage hello = Hello();
  hello.mutable_hello()->set_protocol(v1::kProtocolVersion + 1);
  Send(*session, call, hello);
  ASSERT_TRUE(call.finished);
  EXPECT_THAT(*call.finished, StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(AttachSessionTest, PausesReadingUntilHelloReply) {
  FakeCall call;
  auto session = Start(&call);
  Send(*session, call, Hello());
  EXPECT_FALSE(call.reading());
  EXPECT_THAT(call.written, IsEmpty());
  store_->Step();
  EXPECT_TRUE(call.reading());
  ASSERT_EQ(call.written.size(), 1u);
  EXPECT_EQ(call.written[0].hello().durable_seq(), 0u);
}

TEST_F(AttachSessionTest, RefusesTooManyShapesOrKeys) {
  v1::ClientMessage high = Shape();
  high.mutable_shape()->set_id(v1::kMaxShapes + 1);
  v1::ClientMessage wide = Shape();
  for (size_t i = 0; i < v1::kMaxShapeKeys; ++i) wide.mutable_shape()->add_keys("k");
  for (const v1::ClientMessage& shape : {high, wide}) {
    FakeCall call;
    auto session = Attached(&call);
    Send(*session, call, shape);
    ASSERT_TRUE(call.finished);
    EXPECT_THAT(*call.finished, StatusIs(absl::StatusCode::kResourceExhausted));
  }
}

TEST_F(AttachSessionTest, RefusesTooManyKeyBytes) {
  FakeCall call;
  auto session = Attached(&call);
  v1::ClientMessage shape = Shape();
  shape.mutable_shape()->set_keys(0, std::string(1 << 20, 'k'));
  uint32_t shapes = 1;
  while (!call.finished && shapes < 100) {
    shape.mutable_shape()->set_id(++shapes);
    Send(*session, call, shape);
    store_->Step();
  }
  ASSERT_TRUE(call.finished);
  EXPECT_THAT(*call.finished, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("64 MiB")));
  EXPECT_EQ(shapes, 65u);  // the first defines "loss", the last exceeds the limit
}

TEST_F(AttachSessionTest, AcknowledgesAfterTheCommit) {
  FakeCall call;
  auto session = Attached(&call);
  Send(*session, call, Rows(1, 3));
  EXPECT_THAT(call.Acks(), IsEmpty());
  vfs_.FailSyncs(1, ENOSPC);
  EXPECT_LT(store_->Step(), absl::InfiniteDuration());  // the write is tried again
  EXPECT_THAT(call.Acks(), IsEmpty());
  vfs_.Heal();
  store_->Step();
  EXPECT_THAT(call.Acks(), ElementsAre(3));
  EXPECT_THAT(StoredValues(), ElementsAre(1, 2, 3));
}

TEST_F(AttachSessionTest, HelloAnswerHasDestinationsAndNotices) {
  NoticeBoard board;
  context_.notices = &board;
  v1::Notice notice;
  notice.set_key("store");
  notice.set_text("the disk is full");
  board.Post(NoticeBoard::kAllRuns, notice);
  FakeCall call;
  const auto session = Start(&call);
  Send(*session, call, Hello());
  // This arrives before the attach is committed, which waits while the disk is full.
  ASSERT_THAT(call.written, SizeIs(1));
  EXPECT_FALSE(call.written[0].has_hello());
  EXPECT_EQ(call.written[0].notices(0).text(), "the disk is full");
  Written(*session, call);
  store_->Step();
  ASSERT_THAT(call.written, SizeIs(2));
  EXPECT_EQ(call.written[1].hello().run_id(), "job");
  EXPECT_THAT(call.written[1].hello().destinations(), ElementsAre("local"));
  EXPECT_THAT(call.written[1].notices(), SizeIs(1));

  notice.set_over(true);
  board.Post(NoticeBoard::kAllRuns, notice);
  EXPECT_THAT(call.written, SizeIs(2));  // one at a time
  Written(*session, call);
  ASSERT_THAT(call.written, SizeIs(3));
  EXPECT_TRUE(call.written[2].notices(0).over());
  session->OnDone();
  board.Post(NoticeBoard::kAllRuns, notice);
}

TEST_F(AttachSessionTest, HelloAnswerHasTheStartsNotice) {
  // Works also without a board.
  std::vector<std::shared_ptr<AttachSession>> sessions;
  const auto greet = [&](FakeCall* call, uint64_t incarnation, const std::string& resume) {
    v1::ClientMessage message = Hello();
    v1::Hello* const hello = message.mutable_hello();
    hello->mutable_stream()->set_incarnation(incarnation);
    hello->mutable_settings()->set_resume(resume);
    v1::Destination* const destination = hello->mutable_settings()->add_destinations();
    destination->set_kind("wandb");
    destination->set_chosen(true);
    hello->mutable_launch()->set_id(absl::StrCat("launch ", incarnation));
    hello->mutable_launch()->set_id_given(true);
    hello->mutable_launch()->set_process(absl::StrCat("process ", incarnation, "@0"));
    sessions.push_back(Start(call));
    Send(*sessions.back(), *call, message);
    store_->Step();
    return call->written.at(0);
  };
  FakeCall first, second, refused;
  EXPECT_THAT(greet(&first, 1, "").notices(), IsEmpty());
  v1::ServerMessage reply = greet(&second, 2, "");
  EXPECT_EQ(reply.hello().run_id(), "job-2");
  ASSERT_THAT(reply.notices(), SizeIs(1));
  EXPECT_EQ(reply.notices(0).severity(), v1::Notice::WARNING);
  EXPECT_THAT(reply.notices(0).text(), HasSubstr("this start is 'job-2'"));
  EXPECT_THAT(reply.hello().destinations(), ElementsAre("wandb"));
  reply = greet(&refused, 3, "never");
  EXPECT_EQ(reply.hello().run_id(), "job-3");
  ASSERT_THAT(reply.notices(), SizeIs(1));
  EXPECT_EQ(reply.notices(0).severity(), v1::Notice::WARNING);
  EXPECT_THAT(reply.hello().destinations(), ElementsAre("local"));
  for (const auto& session : sessions) session->OnDone();
}

TEST_F(AttachSessionTest, SendsRunIdAfterPrimaryChoice) {
  NoticeBoard board;
  context_.notices = &board;
  std::vector<std::shared_ptr<AttachSession>> sessions;
  const auto greet = [&](FakeCall* call, uint32_t rank) {
    v1::ClientMessage message = Hello();
    v1::Hello* const hello = message.mutable_hello();
    hello->mutable_stream()->set_rank(rank);
    hello->mutable_settings()->set_strategy(v1::LOG_STRATEGY_NODE);
    hello->mutable_identity()->set_world_size(4);
    hello->mutable_identity()->set_local_world_size(2);
    hello->mutable_identity()->set_local_rank(rank - 2);
    sessions.push_back(Start(call));
    Send(*sessions.back(), *call, message);
    store_->Step();
    Written(*sessions.back(), *call);
  };
  FakeCall second, first;
  greet(&second, 3);
  ASSERT_THAT(second.written, SizeIs(1));
  EXPECT_EQ(second.written[0].hello().run_id(), "");
  greet(&first, 2);
  ASSERT_THAT(first.written, SizeIs(1));
  EXPECT_EQ(first.written[0].hello().run_id(), "job-2");
  EXPECT_THAT(first.written[0].notices(), IsEmpty());
  ASSERT_THAT(second.written, SizeIs(2));
  ASSERT_THAT(second.written[1].notices(), SizeIs(1));
  EXPECT_EQ(second.written[1].notices(0).key(), "run");
  EXPECT_EQ(second.written[1].notices(0).text(), "job-2");
  for (const auto& session : sessions) session->OnDone();
}

TEST_F(AttachSessionTest, SendsOneAcknowledgementAtATime) {
  FakeCall call;
  auto session = Attached(&call);
  Send(*session, call, Rows(1, 1));
  store_->Step();
  Send(*session, call, Rows(2, 2));
  Send(*session, call, Rows(3, 3));
  store_->Step();
  EXPECT_THAT(call.Acks(), ElementsAre(1));
  Written(*session, call);
  EXPECT_THAT(call.Acks(), ElementsAre(1, 3));
}

TEST_F(AttachSessionTest, DropsResentRows) {
  FakeCall first;
  auto before = Attached(&first);
  Send(*before, first, Rows(1, 3));
  store_->Step();
  FakeCall second;
  auto after = Greeted(&second);
  EXPECT_EQ(second.written[0].hello().durable_seq(), 3u);
  Written(*after, second);
  Send(*after, second, Rows(2, 5));
  Send(*before, first, Rows(3, 4));  // messages in flight on the older connection still arrive
  store_->Step();
  EXPECT_THAT(second.Acks(), ElementsAre(5));
  EXPECT_THAT(StoredValues(), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(AttachSessionTest, RefusesAGap) {
  FakeCall call;
  auto session = Attached(&call);
  Send(*session, call, Rows(2, 2));
  store_->Step();
  ASSERT_TRUE(call.finished);
  EXPECT_THAT(*call.finished, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(StoredValues(), IsEmpty());
  EXPECT_EQ(counters_.refused_messages, 1u);
}

// Found by the simulation: a shape could not be stored, but the row after it could. The rank then
// freed the shape, and later rows that used it were lost with the rank.
TEST_F(AttachSessionTest, StoresNothingAfterARefusedMessage) {
  FakeCall call;
  auto session = Attached(&call);
  v1::ClientMessage shape = Shape();
  shape.mutable_shape()->set_keys(0, "other than before");
  Send(*session, call, shape);
  Send(*session, call, Rows(1, 1));
  store_->Step();
  ASSERT_TRUE(call.finished);
  EXPECT_THAT(*call.finished, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(call.Acks(), IsEmpty());
  EXPECT_THAT(StoredValues(), IsEmpty());
}

TEST_F(AttachSessionTest, FailedCommitIsNotAcknowledged) {
  FakeCall call;
  auto session = Attached(&call);
  Send(*session, call, Rows(1, 1));
  vfs_.FailSyncs(1, EIO);
  store_->Step();
  vfs_.Heal();
  EXPECT_THAT(call.Acks(), IsEmpty());
  ASSERT_TRUE(call.finished);
  EXPECT_FALSE(call.finished->ok());  // the rank connects again and resends
  EXPECT_EQ(counters_.refused_messages, 0u);
}

TEST_F(AttachSessionTest, FullStoreQueuePausesReading) {
  FakeCall call;
  auto session = Attached(&call);
  uint64_t seq = 0;
  while (call.reading()) {
    ASSERT_LT(++seq, 100u);
    Send(*session, call, Rows(seq, seq));
  }
  EXPECT_TRUE(store_->full());
  EXPECT_EQ(counters_.paused_streams, 1u);
  store_->Step();
  EXPECT_TRUE(call.reading());
  Written(*session, call);
  EXPECT_THAT(call.Acks(), ElementsAre(1, seq));
  EXPECT_EQ(counters_.paused_streams, 1u);
}

TEST_F(AttachSessionTest, EndsAfterTheLastAcknowledgement) {
  FakeCall call;
  auto session = Attached(&call);
  Send(*session, call, Rows(1, 1));
  session->OnNoMoreMessages();
  EXPECT_FALSE(call.finished);
  store_->Step();
  ASSERT_TRUE(call.writing);  // the acknowledgement, even if nobody reads it
  Written(*session, call);
  ASSERT_TRUE(call.finished);
  EXPECT_OK(*call.finished);
  session->OnDone();
  EXPECT_EQ(registry_.CountAttached().streams, 0u);
  EXPECT_THAT(StoredValues(), ElementsAre(1));
}

TEST_F(AttachSessionTest, LostCallKeepsNewerAttachment) {
  FakeCall first;
  auto before = Attached(&first);
  FakeCall second;
  auto after = Greeted(&second);
  before->OnNoMoreMessages();
  before->OnDone();
  EXPECT_EQ(registry_.CountAttached().streams, 1u);
}

// A rank that comes right after a daemon's start is attached when all dead ranks' rows are stored.
TEST_F(AttachSessionTest, CallThatEndsBeforeItsAttachIsNotAttached) {
  absl::AnyInvocable<void()> attach;
  context_.when_caught_up = [&](auto then) { attach = std::move(then); };
  FakeCall call;
  auto session = Start(&call);
  Send(*session, call, Hello());
  session->OnNoMoreMessages();
  ASSERT_TRUE(call.finished);
  session->OnDone();
  ASSERT_TRUE(attach);
  attach();
  store_->Step();
  EXPECT_EQ(counters_.attaches, 1u);
  EXPECT_EQ(registry_.CountAttached().streams, 0u);
}

TEST_F(AttachSessionTest, FinishRequiresAllRows) {
  FakeCall call;
  auto session = Attached(&call);
  v1::FinishRequest request;
  *request.mutable_stream() = Stream();
  request.set_last_seq(1);
  absl::Status answer;
  Finish(&context_, request, [&](const absl::Status& status) { answer = status; });
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("rows 1 to 1")));
}

TEST_F(AttachSessionTest, RepeatedFinishIsAnsweredAgain) {
  FakeCall call;
  auto session = Attached(&call);
  v1::FinishRequest request;
  *request.mutable_stream() = Stream();
  std::vector<absl::Status> answers;
  const auto keep = [&](const absl::Status& status) { answers.push_back(status); };
  Finish(&context_, request, keep);
  EXPECT_THAT(answers, IsEmpty());
  store_->Step();
  Finish(&context_, request, keep);
  request.mutable_stream()->set_incarnation(99);  // of no stream
  Finish(&context_, request, keep);
  store_->Step();
  EXPECT_THAT(answers, ElementsAre(StatusIs(absl::StatusCode::kOk), StatusIs(absl::StatusCode::kOk),
                                   StatusIs(absl::StatusCode::kNotFound)));
}

TEST_F(AttachSessionTest, ItemsAreAcknowledgedAndFinishWaitsForThem) {
  FakeCall call;
  auto session = Attached(&call);
  v1::ClientMessage message;
  for (uint64_t seq = 1; seq <= 2; ++seq) {
    v1::Item* const item = message.mutable_items()->add_item();
    item->set_seq(seq);
    item->mutable_config()->add_fields()->set_key("lr");
  }
  v1::FinishRequest request;
  *request.mutable_stream() = Stream();
  request.set_last_item(2);
  absl::Status answer;
  const auto keep = [&](const absl::Status& status) { answer = status; };
  Finish(&context_, request, keep);
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kFailedPrecondition));
  session->OnMessage(message);
  store_->Step();
  ASSERT_FALSE(call.written.empty());
  EXPECT_EQ(call.written.back().ack().durable_item(), 2u);
  Finish(&context_, request, keep);
  store_->Step();
  EXPECT_OK(answer);
}

// Later items and rows must not wait for it.
TEST_F(AttachSessionTest, InvalidItemIsDroppedAndCounted) {
  FakeCall call;
  auto session = Attached(&call);
  v1::ClientMessage message;
  message.mutable_items()->add_item()->set_seq(1);  // no content
  session->OnMessage(message);
  store_->Step();
  EXPECT_EQ(call.written.back().ack().durable_item(), 1u);
  EXPECT_EQ(counters_.unreadable_items, 1u);
}

}  // namespace
}  // namespace ranklog::ingest
