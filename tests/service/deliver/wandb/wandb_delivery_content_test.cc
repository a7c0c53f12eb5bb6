// What ranks staged: artifacts and files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "service/deliver/wandb/artifacts/artifact_manifest.h"
#include "tests/service/deliver/wandb/http_delivery.h"
#include "tests/support/temp_dir.h"

namespace ranklog::deliver::wandb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The values are those of the official client.
TEST(ArtifactDigestTest, IsTheOfficialClients) {
  EXPECT_EQ(ArtifactDigest({}), "64e7c61456b10382e2f3b571ac24b659");
  EXPECT_EQ(ArtifactDigest({{"a.txt", "sZRqySSS0jR8YjW00mERhA=="}}),
            "df2baf4982f9ccdd99de4a5a8b016e45");
  EXPECT_EQ(ArtifactDigest(
                {{"dir/b.bin", "1B2M2Y8AsgTpgAmY7PhCfg=="}, {"a.txt", "sZRqySSS0jR8YjW00mERhA=="}}),
            "6fc86fb49f49fdfa061815cffe5b7193");
}

class WandbDeliveryContentTest : public HttpDeliveryTest {
 protected:
  WandbDeliveryContentTest() {
    content_dir_ = dir_.path();
    Restart();
  }
  void Restart() { HttpDeliveryTest::Restart(WandbDelivery::Options()); }

  // Stages a file, and returns the entry that names it.
  model::Json Stage(const std::string& path, const std::string& bytes) {
    const std::string name = "f-" + std::to_string(++staged_);
    std::ofstream(dir_.File(name), std::ios::binary) << bytes;
    return {{"path", path}, {"file", name}, {"bytes", bytes.size()}};
  }
  void LogArtifact(const std::string& id, const std::vector<model::Json>& entries,
                   const model::Json& more = nullptr) {
    model::Json artifact = {{"id", id},        {"name", "gpt"},
                            {"type", "model"}, {"aliases", model::Json::array({"latest"})},
                            {"step", 7},       {"entries", entries}};
    if (more.is_object()) artifact.update(more);
    stored_.Apply(model::Item::Kind::kArtifact, artifact);
  }
  void End() {
    stored_.Close(model::RunState::kFinished, 0);
    Deliver(absl::Minutes(5));
  }
  nlohmann::json Artifacts() { return server_.Dump()["runs"]["r"]["artifacts"]; }

  // Requests that sent a file of an artifact, or a part.
  size_t Uploads() {
    const auto requests = server_.requests();
    return static_cast<size_t>(
        std::count_if(requests.begin(), requests.end(), [](const FakeWandb::Request& request) {
          return request.path.find("/storage/artifact/") != std::string::npos ||
                 request.path.find("/storage/part/") != std::string::npos;
        }));
  }

  std::vector<std::string> Answers() {
    std::vector<std::string> answers;
    for (const model::DeadLetter& letter : letters_) answers.push_back(letter.answer);
    return answers;
  }

  testing::TempDir dir_;
  int staged_ = 0;
};

TEST_F(WandbDeliveryContentTest, ArtifactArrives) {
  stored_.Append(3);
  LogArtifact("id1",
              {Stage("model.bin", std::string(100000, 'x')),
               Stage("sub/empty", ""),
               {{"path", "data"}, {"ref", "s3://bucket/data"}}},
              {{"metadata", {{"loss", 0.5}}},
               {"description", "the best"},
               {"tags", model::Json::array({"good"})}});
  End();
  EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  EXPECT_EQ(stored_delivery_.delivered_items, stored_.run().last_item);
  EXPECT_THAT(server_.errors(), IsEmpty());
  ASSERT_THAT(Artifacts(), SizeIs(1));
  const nlohmann::json artifact = Artifacts()[0];
  EXPECT_EQ(artifact["committed"], true);
  EXPECT_EQ(artifact["name"], "gpt");
  EXPECT_EQ(artifact["type"], "model");
  EXPECT_EQ(artifact["version"], 0);
  EXPECT_THAT(artifact["aliases"], ElementsAre("latest"));
  EXPECT_THAT(artifact["tags"], ElementsAre("good"));
  EXPECT_EQ(artifact["description"], "the best");
  EXPECT_EQ(artifact["history_step"], 7);
  EXPECT_EQ(nlohmann::json::parse(artifact["metadata"].get<std::string>())["loss"], 0.5);
  EXPECT_EQ(artifact["files"],
            nlohmann::json({{"model.bin", std::string(100000, 'x')}, {"sub/empty", ""}}));
  EXPECT_EQ(artifact["manifest"]["contents"]["data"]["ref"], "s3://bucket/data");
}

TEST_F(WandbDeliveryContentTest, EqualContentIsSentOnce) {
  stored_.Append(1);
  LogArtifact("id1", {Stage("a", "same"), Stage("b", "one")});
  LogArtifact("id2", {Stage("a", "same"), Stage("b", "two")});
  LogArtifact("id3", {Stage("a", "same"), Stage("b", "two")},
              {{"aliases", model::Json::array({"best"})}});
  End();
  EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  EXPECT_THAT(server_.errors(), IsEmpty());
  ASSERT_THAT(Artifacts(), SizeIs(2)) << "the third is the second";
  EXPECT_EQ(Artifacts()[1]["files"], nlohmann::json({{"b", "two"}}));
  EXPECT_THAT(Artifacts()[1]["aliases"], ElementsAre("best", "latest"));
}

TEST_F(WandbDeliveryContentTest, IncrementalVersionHasTheFilesOfTheLatest) {
  stored_.Append(1);
  LogArtifact("id1", {Stage("a", "one"), Stage("b", "old")});
  LogArtifact("id2", {Stage("b", "new"), Stage("c", "three")}, {{"incremental", true}});
  End();
  EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  EXPECT_THAT(server_.errors(), IsEmpty());
  ASSERT_THAT(Artifacts(), SizeIs(2));
  const nlohmann::json contents = Artifacts()[1]["manifest"]["contents"];
  ASSERT_THAT(contents, SizeIs(3));
  EXPECT_EQ(contents["a"], Artifacts()[0]["manifest"]["contents"]["a"]);
  EXPECT_EQ(contents["b"]["size"], 3);
  EXPECT_NE(contents["b"], Artifacts()[0]["manifest"]["contents"]["b"]);
  EXPECT_EQ(Artifacts()[1]["files"], nlohmann::json({{"b", "new"}, {"c", "three"}}));
}

TEST_F(WandbDeliveryContentTest, ConfigNamesTheCode) {
  stored_.Append(1);
  LogArtifact("id1", {Stage("main.cc", "x")}, {{"type", "code"}, {"name", "source-llm-train"}});
  LogArtifact("id2", {Stage("model", "y")});
  End();
  EXPECT_THAT(server_.errors(), IsEmpty());
  EXPECT_EQ(server_.Dump()["runs"]["r"]["config"]["_wandb"]["value"]["code_path"],
            "source-llm-train");
}

// What `ranklog artifacts` shows while a large upload goes on.
TEST_F(WandbDeliveryContentTest, CursorHasWhatTheServerHas) {
  stored_.Append(1);
  LogArtifact("id1", {Stage("a", std::string(3000, 'a')), Stage("b", std::string(5000, 'b'))});
  stored_.Close(model::RunState::kFinished, 0);
  std::vector<uint64_t> bytes, files;
  for (int steps = 0; steps < 200 && !stored_delivery_.complete; ++steps) {
    stored_delivery_ = delivery_->Step(stored_.reader(), now_, /*draining=*/true).delivery;
    now_ += absl::Seconds(3);
    const model::Delivery::Uploads uploads = stored_delivery_.uploads();
    if (!bytes.empty() && bytes.back() == uploads.sent_bytes) continue;
    bytes.push_back(uploads.sent_bytes);
    files.push_back(uploads.sent_files);
  }
  EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  EXPECT_THAT(bytes, ElementsAre(0, 5000, 8000, 0)) << "the last file is sent first";
  EXPECT_THAT(files, ElementsAre(0, 1, 2, 0));
}

// The daemon is killed after each step in turn: no version is made twice, no file is sent again once
// the server has it.
TEST_F(WandbDeliveryContentTest, RestartAnywhereMakesNoSecondVersion) {
  stored_.Append(1);
  LogArtifact("id1", {Stage("a", "one"), Stage("b", "two"), Stage("c", "three")});
  stored_.Close(model::RunState::kFinished, 0);
  for (int steps = 0; steps < 200 && !stored_delivery_.complete; ++steps) {
    if (steps % 3 == 2) Restart();
    const StepResult result = delivery_->Step(stored_.reader(), now_, /*draining=*/true);
    stored_delivery_ = result.delivery;
    now_ += std::max(result.wait, absl::ZeroDuration());
    if (steps % 40 < 36) continue;  // a whole delivery needs some steps in a row
    for (int more = 0; more < 60 && !stored_delivery_.complete; ++more) {
      stored_delivery_ = delivery_->Step(stored_.reader(), now_, /*draining=*/true).delivery;
    }
  }
  EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  EXPECT_THAT(server_.errors(), IsEmpty());
  ASSERT_THAT(Artifacts(), SizeIs(1));
  EXPECT_EQ(Artifacts()[0]["version"], 0);
  EXPECT_THAT(Artifacts()[0]["files"], SizeIs(3));
}

TEST_F(WandbDeliveryContentTest, LargeFileGoesInParts) {
  WandbDelivery::Options options;
  options.multipart_bytes = 1000;
  options.part_bytes = 4096;
  HttpDeliveryTest::Restart(options);
  std::string bytes;
  for (int i = 0; i < 10000; ++i) bytes += static_cast<char>('a' + i % 26);
  stored_.Append(1);
  LogArtifact("id1", {Stage("large", bytes), Stage("small", "x")});
  End();
  EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  EXPECT_THAT(server_.errors(), IsEmpty());
  ASSERT_THAT(Artifacts(), SizeIs(1));
  EXPECT_TRUE(Artifacts()[0]["files"]["large"] == bytes);
  EXPECT_EQ(Artifacts()[0]["committed"], true);
}

// The daemon is killed after each file and each part in turn.
TEST_F(WandbDeliveryContentTest, RestartedDaemonSendsNoPartAgain) {
  WandbDelivery::Options options;
  options.multipart_bytes = 5000;
  options.part_bytes = 4096;
  HttpDeliveryTest::Restart(options);
  stored_.Append(1);
  LogArtifact("id1",
              {Stage("a", "one"), Stage("large", std::string(10000, 'x')), Stage("z", "two")});
  stored_.Close(model::RunState::kFinished, 0);
  size_t uploads = 0;
  for (int steps = 0; steps < 300 && !stored_delivery_.complete; ++steps) {
    stored_delivery_ = delivery_->Step(stored_.reader(), now_, /*draining=*/true).delivery;
    now_ += absl::Seconds(3);
    if (Uploads() == uploads) continue;
    uploads = Uploads();
    HttpDeliveryTest::Restart(options);
  }
  EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  EXPECT_THAT(server_.errors(), IsEmpty());
  ASSERT_THAT(Artifacts(), SizeIs(1));
  EXPECT_EQ(Artifacts()[0]["committed"], true);
  EXPECT_TRUE(Artifacts()[0]["files"]["large"] == std::string(10000, 'x'));
  EXPECT_EQ(Uploads(), 2u + 3u) << "of files and parts";
}

// The store refuses the second part each time, and takes the first one each time.
TEST_F(WandbDeliveryContentTest, FileThatChangedAfterItWasReadIsSetApart) {
  WandbDelivery::Options options;
  options.multipart_bytes = 5000;
  options.part_bytes = 4096;
  HttpDeliveryTest::Restart(options);
  stored_.Append(1);
  const model::Json entry = Stage("large", std::string(10000, 'x'));
  LogArtifact("id1", {entry});
  stored_.Close(model::RunState::kFinished, 0);
  for (int steps = 0; steps < 100 && Uploads() == 0; ++steps) {
    stored_delivery_ = delivery_->Step(stored_.reader(), now_, /*draining=*/true).delivery;
  }
  ASSERT_EQ(Uploads(), 1u);
  std::ofstream(dir_.File(entry["file"].get<std::string>()))
      << std::string(5000, 'x') << std::string(5000, 'y');
  Deliver(absl::Minutes(5));
  EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  EXPECT_THAT(Answers(), ElementsAre(HasSubstr("artifact gpt: HTTP 403")));
}

TEST_F(WandbDeliveryContentTest, StoreThatFailsIsTriedAgain) {
  server_.Inject({.on = FakeWandb::Fault::On::kStorage, .times = 5, .code = 503});
  stored_.Append(1);
  LogArtifact("id1", {Stage("a", "one")});
  End();
  EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  EXPECT_THAT(Answers(), IsEmpty());
  EXPECT_THAT(Artifacts(), SizeIs(1));
}

TEST_F(WandbDeliveryContentTest, RefusedArtifactIsSetApart) {
  server_.Inject({.on = FakeWandb::Fault::On::kStorage, .times = 1000, .code = 403});
  stored_.Append(2);
  LogArtifact("id1", {Stage("a", "one")});
  End();
  EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  EXPECT_THAT(server_.run("r").history, SizeIs(2));
  ASSERT_FALSE(letters_.empty());
  EXPECT_THAT(Answers().front(), HasSubstr("artifact gpt: HTTP 403"));
  EXPECT_FALSE(IsOfRow(letters_.front()));
  EXPECT_EQ(stored_delivery_.refused_rows, 0u);
}

TEST_F(WandbDeliveryContentTest, LostFileIsSetApartAndTheNextOneArrives) {
  stored_.Append(1);
  model::Json lost = Stage("a", "one");
  lost["bytes"] = 4;
  LogArtifact("id1", {lost});
  LogArtifact("id2", {Stage("a", "two")});
  End();
  EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  EXPECT_THAT(Answers(), ElementsAre(HasSubstr("does not have the 4 bytes that it had")));
  ASSERT_THAT(Artifacts(), SizeIs(1));
  EXPECT_EQ(Artifacts()[0]["files"], nlohmann::json({{"a", "two"}}));
}

TEST_F(WandbDeliveryContentTest, NewestFileOfAPathArrives) {
  stored_.Append(1);
  for (const char* text : {"one", "two"}) {
    stored_.Apply(model::Item::Kind::kRunFile, Stage("notes/a.txt", text));
  }
  stored_.Apply(model::Item::Kind::kRunFile, Stage("b.txt", "b"));
  End();
  EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  const FakeWandb::Run run = server_.run("r");
  EXPECT_EQ(run.files.at("notes/a.txt"), "two");
  EXPECT_EQ(run.files.at("b.txt"), "b");
  EXPECT_EQ(run.uploaded.count("notes/a.txt"), 1u);
}

// An upload that takes long is made between the posts of rows.
TEST_F(WandbDeliveryContentTest, RowsArriveDuringAnUpload) {
  stored_.Append(1);
  Deliver();
  server_.Inject(
      {.on = FakeWandb::Fault::On::kStorage, .times = 1, .code = 503, .delay = absl::Seconds(5)});
  LogArtifact("id1", {Stage("a", "one")});
  const auto step = [&] {
    now_ += absl::Seconds(20);  // rows and the config are due
    stored_delivery_ = delivery_->Step(stored_.reader(), now_, /*draining=*/false).delivery;
  };
  const auto has_address = [&] {
    const auto requests = server_.requests();
    return std::any_of(requests.begin(), requests.end(), [](const auto& request) {
      return request.operation == "CreateArtifactFiles";
    });
  };
  for (int i = 0; i < 100 && !has_address(); ++i) step();
  ASSERT_TRUE(has_address());
  step();  // begins the upload
  stored_.Append(1);
  for (int i = 0; i < 10 && server_.run("r").history.size() < 2; ++i) step();
  EXPECT_THAT(server_.run("r").history, SizeIs(2));
  const auto requests = server_.requests();
  EXPECT_TRUE(std::any_of(requests.begin(), requests.end(), [](const auto& request) {
    return request.code == 0;  // no answer yet
  })) << "the upload was over before the row was sent";
  EXPECT_EQ(stored_delivery_.uploads().sent_bytes, 3u) << "the answer is not there yet";
  End();
  EXPECT_EQ(Artifacts()[0]["committed"], true);
  EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
}

TEST_F(WandbDeliveryContentTest, RowsOfALiveRunDoNotWait) {
  stored_.Append(1);
  Deliver();
  server_.Inject({.on = FakeWandb::Fault::On::kStorage, .times = 1000, .code = 503});
  LogArtifact("id1", {Stage("a", "one")});
  now_ += absl::Seconds(20);
  Deliver();
  stored_.Append(2);
  now_ += absl::Seconds(20);
  Deliver();
  EXPECT_THAT(server_.run("r").history, SizeIs(3));
  EXPECT_LT(stored_delivery_.delivered_items, stored_.run().last_item);
}

}  // namespace
}  // namespace ranklog::deliver::wandb
