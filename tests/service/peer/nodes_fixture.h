// Two nodes of one job, each with a store, an aggregate loop, and both sides of the join. Time is
// set by the test; requests go from one object to the other, as far as the network lets them.

#ifndef TESTS_SERVICE_PEER_NODES_FIXTURE_H_
#define TESTS_SERVICE_PEER_NODES_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/ingest/attach.h"
#include "service/peer/push_loop.h"
#include "service/peer/push_receiver.h"
#include "service/pipeline/aggregate_loop.h"
#include "service/pipeline/store_loop.h"
#include "tests/service/aggregate/rows.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::peer {

inline constexpr int64_t kNowUs = 1'700'000'000'000'000;

class NodesTest : public ::testing::Test {
 protected:
  struct Network {
    bool cut = false;        // nothing arrives, which the sender sees at once
    bool silent = false;     // nothing arrives, and there is no answer
    int lose_answer_of = 0;  // of every n-th request; 0: of none
    bool twice = false;      // each request arrives twice
    int requests = 0;
  };

  // A node's daemon, and its ranks.
  struct Node {
    explicit Node(NodesTest* test, std::string its_name) : test(*test), name(std::move(its_name)) {}
    ~Node() { Kill(); }

    void Start() {
      auto opened = storage::Store::Open(dir.path(), {});
      ASSERT_OK(opened);
      store = std::make_unique<pipeline::StoreLoop>(
          *std::move(opened),
          pipeline::StoreLoop::Options{.commit_interval = absl::ZeroDuration()});
      attacher = std::make_unique<ingest::Attacher>(
          Reader(), [this] { return absl::FromUnixMicros(test.clock_us_++); });
      receiver = std::make_unique<PushReceiver>(PushReceiver::Options{
          .store = store.get(),
          .attacher = attacher.get(),
          .run_changed = [this](int64_t run) { aggregate->Notify(run); },
          .steady_clock = [this] { return test.now_; },
          .wall_clock = [this] { return absl::FromUnixMicros(test.clock_us_++); }});
      pipeline::AggregateLoop::Options options;
      options.run.joins_nodes = true;
      options.run.heard = [this](const model::Stream& stream) { return receiver->Heard(stream); };
      aggregate = std::make_unique<pipeline::AggregateLoop>(
          store.get(), Reader(), [this] { return test.now_; }, nullptr, options);
      PushLoop::Options push;
      push.part = {.node = name, .sender = ++test.starts_};
      push.port = 1;
      push.steady_clock = [this] { return test.now_; };
      push.wall_clock = [this] { return absl::FromUnixMicros(test.clock_us_); };
      sender = std::make_unique<PushLoop>(
          store.get(), Reader(),
          [this](const HostPort&, const v1::PushRequest& request, auto done) {
            test.Carry(request, std::move(done));
          },
          push);
    }
    void Kill() {
      sender.reset();
      aggregate.reset();
      if (store != nullptr) store->Stop();
      receiver.reset();
      attacher.reset();
      store.reset();
    }
    std::unique_ptr<storage::StoreReader> Reader() const {
      auto reader = storage::StoreReader::Open(dir.path());
      EXPECT_OK(reader);
      return *std::move(reader);
    }
    void Write(absl::AnyInvocable<absl::Status(storage::Store&)> apply) {
      EXPECT_OK(store->SubmitAndWait(std::move(apply)));
    }
    // A rank of this node attaches. `start` names the process that started the node's ranks.
    int64_t Attach(uint32_t rank, uint32_t local_rank, const std::string& start = "1",
                   uint64_t incarnation = 0) {
      model::Session session;
      if (incarnation == 0) incarnation = 1 + test.incarnations_++;
      session.settings.start_time_us = kNowUs + static_cast<int64_t>(incarnation);
      session.settings.destinations = {"local"};
      session.settings.home = "home";
      session.settings.rank_statistics = {"mean", "max", "argmax"};
      session.settings.resume = test.resume_;
      session.settings.strategy = test.strategy_;
      session.stream = {"project", "job", rank, incarnation};
      session.identity.local_rank = local_rank;
      session.identity.world_size = 4;
      session.identity.local_world_size = 2;
      session.identity.node_rank = rank / 2;
      session.identity.node = name;
      session.launch.id = (test.one_launcher_ ? "all" : name) + start;
      session.launch.restarts_ranks = test.restarts_ranks_;
      session.launch.given_id = "job";
      session.launch.id_given = true;
      session.launch.process = name + "@" + std::to_string(incarnation);
      int64_t id = 0;
      int64_t run = 0;
      Write([&](storage::Store& into) -> absl::Status {
        const auto stream = attacher->Attach(session, into);
        if (!stream.ok()) return stream.status();
        id = stream->id;
        run = stream->run;
        return into.DefineShape(id, 1, {"loss"});
      });
      runs[id] = run;
      Notify(run);
      return id;
    }
    void Log(int64_t stream, int64_t from, int64_t to, double loss) {
      std::vector<aggregate::RankRow> rows;
      for (int64_t step = from; step <= to; ++step) {
        rows.push_back({.step = step, .values = {loss}, .commits = true});
      }
      const uint64_t first = logged[stream] + 1;
      logged[stream] += rows.size();
      Write([&](storage::Store& into) {
        return into.Append(stream, aggregate::BatchOf(first, rows)).status();
      });
      Notify(runs[stream]);
    }
    void End(int64_t stream, model::StreamState state = model::StreamState::kFinished,
             int exit_code = 0, const char* reason = "") {
      Write([&](storage::Store& into) {
        return into.EndStream(stream, state, exit_code, reason, test.clock_us_++);
      });
      Notify(runs[stream]);
    }
    void Notify(int64_t run) {
      aggregate->Notify(run);
      sender->Notify(run);
    }
    model::Run RunOf(int64_t stream) const {
      auto run = Reader()->GetRun(runs.at(stream));
      EXPECT_OK(run);
      return *std::move(run);
    }
    std::vector<model::Stream> StreamsOf(int64_t stream) const {
      auto streams = Reader()->Streams(runs.at(stream));
      EXPECT_OK(streams);
      return *std::move(streams);
    }
    std::vector<aggregate::RunRow> Rows(int64_t stream) const {
      auto reader = Reader();
      aggregate::StoredRun stored;
      aggregate::Aggregated result;
      auto shapes = reader->RunShapes(runs.at(stream));
      auto batches = reader->RunBatches(runs.at(stream), 0, 1 << 30);
      EXPECT_OK(shapes);
      EXPECT_OK(batches);
      stored.shapes = *shapes;
      for (storage::StoredBatch& batch : *batches) result.batches.push_back(std::move(batch.batch));
      EXPECT_TRUE(stored.Store(result));
      return stored.rows;
    }

    NodesTest& test;
    const std::string name;
    testing::TempDir dir;
    std::unique_ptr<pipeline::StoreLoop> store;
    std::unique_ptr<ingest::Attacher> attacher;
    std::unique_ptr<PushReceiver> receiver;
    std::unique_ptr<pipeline::AggregateLoop> aggregate;
    std::unique_ptr<PushLoop> sender;
    std::map<int64_t, uint64_t> logged;
    std::map<int64_t, int64_t> runs;  // by stream
  };

  NodesTest() {
    home_.Start();
    away_.Start();
  }

  // The network: from the sender to the home's receiver.
  void Carry(const v1::PushRequest& request,
             std::function<void(absl::Status, v1::PushReply)> done) {
    ++network_.requests;
    if (network_.silent) return;
    if (network_.cut || home_.receiver == nullptr) {
      return done(absl::UnavailableError("the network is cut"), {});
    }
    const bool loses =
        network_.lose_answer_of > 0 && network_.requests % network_.lose_answer_of == 0;
    if (network_.twice) home_.receiver->Handle(request, [](const v1::PushReply&) {});
    home_.receiver->Handle(request, [loses, done](v1::PushReply reply) {
      if (loses) return done(absl::DeadlineExceededError("the answer is lost"), {});
      done(absl::OkStatus(), std::move(reply));
    });
  }

  // Lets everything happen that happens within `time`.
  void Pass(absl::Duration time) {
    for (const absl::Time end = now_ + time; now_ < end; now_ += absl::Milliseconds(250)) {
      for (Node* node : {&away_, &home_, &away_, &home_}) {
        if (node->store == nullptr) continue;
        node->sender->Step();
        node->aggregate->Step();
        // After the writes of these steps.
        node->Write([](storage::Store&) { return absl::OkStatus(); });
      }
      if (home_.store != nullptr) home_.Write([](storage::Store&) { return absl::OkStatus(); });
    }
  }

  absl::Time now_ = absl::FromUnixSeconds(5000);
  std::atomic<int64_t> clock_us_ = kNowUs;
  uint64_t starts_ = 0;
  uint64_t incarnations_ = 0;
  std::string resume_;
  model::LogStrategy strategy_ = model::LogStrategy::kMain;
  bool one_launcher_ = false;  // of both nodes
  bool restarts_ranks_ = false;
  Network network_;
  Node home_{this, "home"};  // of the ranks 0 and 1
  Node away_{this, "away"};  // of the ranks 2 and 3
};

}  // namespace ranklog::peer

#endif  // TESTS_SERVICE_PEER_NODES_FIXTURE_H_
