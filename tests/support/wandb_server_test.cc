// The fake server: what it keeps of a client's requests, what it answers, and which mistakes of a
// client it notices. That the official SDK accepts it is tested in tests/interop.

#include "tests/support/wandb_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/wandb_dump.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class WandbServerTest : public ::testing::Test {
 protected:
  json Ask(const std::string& operation, json variables) {
    variables["project"] = "p";
    return server_
        .Graphql(json({{"operationName", operation}, {"variables", std::move(variables)}}).dump())
        .body["data"];
  }
  void Upsert(json variables = json::object()) {
    variables["name"] = "r";
    Ask("UpsertBucket", std::move(variables));
  }
  json Bucket() { return Ask("RunResumeStatus", {{"name", "r"}})["model"]["bucket"]; }
  // Returns the code of the answer.
  int Post(const json& body) { return server_.FileStream("fake-team", "p", "r", body.dump()).code; }
  static json Lines(const char* file, int offset, json lines) {
    return {{"files", {{file, {{"offset", offset}, {"content", std::move(lines)}}}}}};
  }
  static std::string Event(double cpu) {
    return json({{"_wandb", true}, {"_timestamp", 1.5}, {"_runtime", 0.5}, {"system.cpu", cpu}})
        .dump();
  }
  // Returns the target of an upload URL.
  std::string AskForUpload(const std::string& name) {
    const json made = Ask("CreateRunFiles", {{"run", "r"}, {"files", {name}}})["createRunFiles"];
    const std::string url = made["files"][0]["uploadUrl"];
    return url.substr(std::string("http://host").size());
  }
  int Put(const std::string& target, const std::string& bytes) {
    return server_.Put({.target = target, .headers = {{"x-fake-upload", "yes"}}, .body = bytes})
        .code;
  }
  void ExpectError(const std::string& text) {
    EXPECT_THAT(server_.errors(), ElementsAre(HasSubstr(text)));
  }
  WandbServer::Run run() { return server_.RunOf("r"); }

  WandbServer server_{"http://host"};
};

TEST_F(WandbServerTest, UpsertWithNullKeepsTheValue) {
  Upsert({{"displayName", "one"}, {"tags", {"a"}}, {"config", R"({"x":{"value":1}})"}});
  Upsert({{"displayName", nullptr}, {"tags", nullptr}, {"config", nullptr}});
  EXPECT_EQ(run().variables["displayName"], "one");
  EXPECT_EQ(run().variables["tags"], json({"a"}));
  Upsert({{"config", R"({"y":{"value":2}})"}});
  EXPECT_EQ(run().config, R"({"y":{"value":2}})") << "a config replaces the one before";
}

TEST_F(WandbServerTest, KeepsEventsByTheirLine) {
  Upsert();
  Post(Lines("wandb-events.jsonl", 0, {Event(1), Event(2)}));
  Post(Lines("wandb-events.jsonl", 1, {Event(2), Event(3)}));
  EXPECT_THAT(run().events, ElementsAre(Event(1), Event(2), Event(3)));
  EXPECT_EQ(run().repeated_events, 1);
  EXPECT_THAT(server_.errors(), IsEmpty());
}

TEST_F(WandbServerTest, RefusesAGapInTheEvents) {
  Upsert();
  EXPECT_EQ(Post(Lines("wandb-events.jsonl", 1, {Event(1)})), 400);
  ExpectError("event 1 where 0 to 0 fit");
}

TEST_F(WandbServerTest, NoticesAnEventThatChanged) {
  Upsert();
  Post(Lines("wandb-events.jsonl", 0, {Event(1)}));
  Post(Lines("wandb-events.jsonl", 0, {Event(2)}));
  ExpectError("event 0 was");
}

TEST_F(WandbServerTest, NoticesAnEventWithoutItsTime) {
  Upsert();
  Post(Lines("wandb-events.jsonl", 0, {R"({"_wandb":true,"system.cpu":1})"}));
  ExpectError("event 0 is not one");
}

TEST_F(WandbServerTest, ConsoleLinesMayChangeAndBeLeftOut) {
  Upsert();
  Post(Lines("output.log", 0, {"10 %"}));
  Post(Lines("output.log", 0, {"20 %"}));
  Post(Lines("output.log", 2, {"done"}));
  EXPECT_THAT(run().console, ElementsAre("20 %", "", "done"));
  EXPECT_THAT(server_.errors(), IsEmpty());
}

TEST_F(WandbServerTest, TellsWhereARunStands) {
  Upsert({{"config", R"({"_wandb":{"value":{"t":{"12":"1"},"m":[]}},"lr":{"value":1}})"},
          {"tags", {"a"}},
          {"notes", "n"},
          {"displayName", "one"}});
  Post(Lines("wandb-history.jsonl", 0, {R"({"_step":0})", R"({"_step":4})"}));
  Post(Lines("wandb-events.jsonl", 0, {Event(1)}));
  Post(Lines("output.log", 0, {"a", "b", "c"}));
  Post(Lines("wandb-summary.json", 0, {R"({"_step":4})"}));
  const json bucket = Bucket();
  EXPECT_EQ(bucket["id"], run().storage_id);
  EXPECT_EQ(bucket["historyLineCount"], 2);
  EXPECT_EQ(bucket["eventsLineCount"], 1);
  EXPECT_EQ(bucket["logLineCount"], 3);
  EXPECT_EQ(json::parse(bucket["historyTail"].get<std::string>()), json({R"({"_step":4})"}));
  EXPECT_EQ(json::parse(bucket["eventsTail"].get<std::string>()), json({Event(1)}));
  EXPECT_EQ(bucket["summaryMetrics"], R"({"_step":4})");
  EXPECT_EQ(bucket["config"], run().config);
  EXPECT_EQ(bucket["tags"], json({"a"}));
  EXPECT_EQ(bucket["notes"], "n");
  EXPECT_EQ(bucket["displayName"], "one");
  EXPECT_EQ(bucket["wandbConfig"], R"({"t":{"12":"1"}})");
}

TEST_F(WandbServerTest, ARunThatNobodyStartedHasNoTelemetry) {
  EXPECT_TRUE(Bucket().is_null());
  Upsert({{"config", R"({"lr":{"value":1}})"}});
  EXPECT_EQ(Bucket()["wandbConfig"], "{}");
}

TEST_F(WandbServerTest, APersonMayRenameARun) {
  Upsert({{"displayName", "one"}});
  server_.RunOf("r").variables["displayName"] = "two";
  Upsert({{"displayName", nullptr}});
  EXPECT_EQ(Bucket()["displayName"], "two");
}

TEST_F(WandbServerTest, AnswersToPostsTellThatTheRunWasStopped) {
  Upsert();
  const auto stopped = [&] {
    return server_.FileStream("fake-team", "p", "r", "{}").body.value("stopped", false);
  };
  EXPECT_FALSE(stopped());
  EXPECT_EQ(Ask("StopRun", {{"id", run().storage_id}})["stopRun"]["success"], true);
  EXPECT_TRUE(stopped());
}

TEST_F(WandbServerTest, KeepsTheBytesOfFiles) {
  Upsert();
  const std::string bytes("a\0\xff", 3);
  const std::string target = AskForUpload("media/a b%20ü.png");
  EXPECT_EQ(Put(target, bytes), 200);
  EXPECT_THAT(run().files, ElementsAre(Pair("media/a b%20ü.png", bytes)));
  EXPECT_EQ(server_.Get(target).body, bytes);
  Post({{"uploaded", {"media/a b%20ü.png"}}, {"complete", true}, {"exitcode", 0}});
  EXPECT_THAT(run().uploaded, ElementsAre("media/a b%20ü.png"));
  EXPECT_EQ(DumpOf(server_)["runs"]["r"]["files"]["media/a b%20ü.png"], json({{"base64", "YQD/"}}));
  EXPECT_THAT(server_.errors(), IsEmpty());
}

TEST_F(WandbServerTest, AFileMayBeReplaced) {
  Upsert();
  EXPECT_EQ(Put(AskForUpload("f"), "one"), 200);
  EXPECT_EQ(Put(AskForUpload("f"), "two"), 200);
  EXPECT_THAT(run().files, ElementsAre(Pair("f", "two")));
}

TEST_F(WandbServerTest, RefusesAnUploadThatNobodyAskedFor) {
  Upsert();
  EXPECT_EQ(Put("/storage/run/r/f?signature=fake", ""), 403);
  ExpectError("nothing was to be uploaded here");
}

TEST_F(WandbServerTest, RefusesAnUploadWithoutTheSignature) {
  Upsert();
  const std::string target = AskForUpload("f");
  EXPECT_EQ(Put(target.substr(0, target.find('?')), ""), 403);
  ExpectError("no signature");
}

TEST_F(WandbServerTest, RefusesAnUploadWithoutTheServersHeaders) {
  Upsert();
  EXPECT_EQ(server_.Put({.target = AskForUpload("f"), .headers = {}, .body = ""}).code, 403);
  ExpectError("upload headers");
}

TEST_F(WandbServerTest, RefusesAnUploadWithCredentials) {
  Upsert();
  const std::string target = AskForUpload("f");
  EXPECT_EQ(server_
                .Put({.target = target,
                      .headers = {{"x-fake-upload", "yes"}, {"authorization", "Basic x"}},
                      .body = ""})
                .code,
            403);
  ExpectError("credentials");
}

TEST_F(WandbServerTest, NoticesAConfirmedFileWithoutBytes) {
  Upsert();
  Post({{"uploaded", {"f"}}});
  ExpectError("no bytes");
}

TEST_F(WandbServerTest, NoticesTheEndBeforeAnUpload) {
  Upsert();
  AskForUpload("f");
  Post({{"complete", true}, {"exitcode", 0}});
  ExpectError("before the upload of f");
}

TEST_F(WandbServerTest, NoticesAFileThatNobodyConfirmed) {
  Upsert();
  Put(AskForUpload("f"), "");
  Post({{"complete", true}, {"exitcode", 0}});
  ExpectError("nobody confirmed f");
}

TEST_F(WandbServerTest, RewindingRemovesTheLaterRows) {
  Upsert();
  Post(Lines("wandb-history.jsonl", 0, {R"({"_step":0})", R"({"_step":1})", R"({"_step":2})"}));
  const json run =
      Ask("RewindRun", {{"runName", "r"}, {"metricName", "_step"}, {"metricValue", 1}});
  EXPECT_EQ(run["rewindRun"]["rewoundRun"]["historyLineCount"], 2);
}

TEST_F(WandbServerTest, ThePublicApiUpdatesARunByItsStorageId) {
  Upsert({{"displayName", "one"}});
  Ask("UpsertBucket", {{"id", run().storage_id}, {"display_name", "two"}, {"tags", {"b"}}});
  server_.Graphql(json({{"operationName", "UpsertBucket"},
                        {"variables", {{"id", run().storage_id}, {"summaryMetrics", "{}"}}}})
                      .dump());
  EXPECT_EQ(run().project, "p");
  EXPECT_EQ(run().summary, "{}");
  EXPECT_EQ(run().variables["displayName"], "two");
  EXPECT_EQ(run().variables["tags"], json({"b"}));
  EXPECT_EQ(server_.runs().size(), 1);
}

TEST_F(WandbServerTest, NoticesAnUpsertWithTheStorageIdOfAnotherRun) {
  Upsert({{"id", "storage-9"}});
  ExpectError("storage id of another run");
}

TEST_F(WandbServerTest, KeepsAlerts) {
  Upsert();
  Ask("NotifyScriptableRunAlert",
      {{"runName", "r"}, {"title", "t"}, {"text", "x"}, {"severity", "WARN"}});
  EXPECT_THAT(run().alerts,
              ElementsAre(json{
                  {"title", "t"}, {"text", "x"}, {"severity", "WARN"}, {"waitDuration", nullptr}}));
  Ask("NotifyScriptableRunAlert", {{"runName", "r"}, {"title", "t"}, {"severity", "BAD"}});
  ExpectError("an alert that is not valid");
}

TEST_F(WandbServerTest, WritersInSharedModeCountTheirOwnLines) {
  Upsert();
  const auto post = [&](const char* writer, int offset, const char* row) {
    const json body = Lines("wandb-history.jsonl", offset, {row});
    return server_.FileStream("fake-team", "p", "r", body.dump(), writer).code;
  };
  EXPECT_EQ(post("a", 0, R"({"x":1})"), 200);
  EXPECT_EQ(post("b", 1, R"({"x":2,"_step":0})"), 200) << "it was told of one line";
  EXPECT_EQ(post("a", 1, R"({"x":NaN})"), 200);
  EXPECT_THAT(run().history, ElementsAre(R"({"_step":0,"x":1})", R"({"_step":1,"x":2})",
                                         R"({"x":NaN,"_step":2})"));
  EXPECT_EQ(post("b", 3, R"({"x":3})"), 400);
  ExpectError("b left a gap");
}

TEST_F(WandbServerTest, TheDumpOfAnEmptyRunIsJson) {
  server_.RunOf("r");
  EXPECT_EQ(json::parse(DumpOf(server_).dump())["runs"]["r"]["summary"], nullptr);
}

class WandbArtifactsTest : public WandbServerTest {
 protected:
  static constexpr char kHello[] = "sZRqySSS0jR8YjW00mERhA==";           // MD5 of "hello\n"
  static constexpr char kDigest[] = "df2baf4982f9ccdd99de4a5a8b016e45";  // of a.txt with that

  WandbArtifactsTest() { Upsert(); }

  json Create(const std::string& digest = kDigest) {
    return Ask("CreateArtifact",
               {{"input",
                 {{"projectName", "p"},
                  {"runName", "r"},
                  {"artifactTypeName", "data"},
                  {"artifactCollectionName", "d"},
                  {"clientID", absl::StrCat("client of ", digest)},
                  {"digest", digest},
                  {"aliases", {{{"alias", "latest"}}}}}}})["createArtifact"]["artifact"];
  }
  json File(const std::string& artifact, json parts = nullptr) {
    const json spec = {{"artifactID", artifact},
                       {"md5", kHello},
                       {"name", "a.txt"},
                       {"uploadPartsInput", std::move(parts)}};
    return Ask("CreateArtifactFiles",
               {{"input",
                 {{"artifactFiles", {spec}}}}})["createArtifactFiles"]["files"]["edges"][0]["node"];
  }
  static std::string Target(const json& url) {
    return url.get<std::string>().substr(std::string("http://host").size());
  }
  void PutManifest(const std::string& artifact, const std::string& owner, int size = 6) {
    const std::string manifest =
        json({{"contents",
               {{"a.txt", {{"digest", kHello}, {"size", size}, {"birthArtifactID", owner}}}}}})
            .dump();
    const json made =
        Ask("CreateArtifactManifest",
            {{"artifactID", artifact}, {"digest", Md5Base64(manifest)}, {"includeUpload", true}});
    const json file = made["createArtifactManifest"]["artifactManifest"]["file"];
    EXPECT_EQ(Put(Target(file["uploadUrl"]), manifest), 200);
  }
  void Commit(const std::string& artifact) { Ask("CommitArtifact", {{"artifactID", artifact}}); }
};

TEST_F(WandbArtifactsTest, ACommittedArtifactIsFoundByNameAndContent) {
  const std::string id = Create()["id"];
  EXPECT_EQ(Put(Target(File(id)["uploadUrl"]), "hello\n"), 200);
  PutManifest(id, id);
  Commit(id);
  EXPECT_THAT(server_.errors(), IsEmpty());
  const json found = Ask("ArtifactMembershipByName", {{"name", "d:latest"}});
  EXPECT_EQ(found["project"]["artifactCollectionMembership"]["artifact"]["id"], id);
  EXPECT_EQ(Create()["state"], "COMMITTED") << "the same content is not uploaded again";

  const std::string next = Create("another digest")["id"];
  const json file = File(next);
  EXPECT_TRUE(file["uploadUrl"].is_null()) << "the server has this file";
  EXPECT_EQ(file["artifact"]["id"], id);
}

TEST_F(WandbArtifactsTest, FilesMayBeNamedByVariables) {
  const std::string id = Create()["id"];
  const json spec = {{"artifactID", id}, {"md5", kHello}, {"name", "a.txt"}};
  const json made =
      Ask("CreateArtifactFiles", {{"artifactFiles", {spec}}, {"storageLayout", "V2"}});
  const json node = made["createArtifactFiles"]["files"]["edges"][0]["node"];
  EXPECT_EQ(Put(Target(node["uploadUrl"]), "hello\n"), 200);
}

TEST_F(WandbArtifactsTest, NoticesOtherBytesThanThoseOfTheManifest) {
  const std::string id = Create()["id"];
  Put(Target(File(id)["uploadUrl"]), "hello");
  PutManifest(id, id);
  Commit(id);
  ExpectError("the bytes of a.txt");
}

TEST_F(WandbArtifactsTest, NoticesACommitBeforeTheUpload) {
  const std::string id = Create()["id"];
  File(id);
  PutManifest(id, id);
  Commit(id);
  EXPECT_THAT(server_.errors(), ElementsAre(HasSubstr("committed before the upload of a.txt"),
                                            HasSubstr("nobody uploaded a.txt")));
}

TEST_F(WandbArtifactsTest, NoticesAWrongDigest) {
  const std::string id = Create("0123")["id"];
  Put(Target(File(id)["uploadUrl"]), "hello\n");
  PutManifest(id, id);
  Commit(id);
  ExpectError("the digest is wrong");
}

TEST_F(WandbArtifactsTest, NoticesTheEndBeforeTheCommit) {
  Create();
  Post({{"complete", true}, {"exitcode", 0}});
  ExpectError("complete before the artifact d");
}

TEST_F(WandbArtifactsTest, PartsBecomeOneFile) {
  const std::string id = Create()["id"];
  const json parts = {{{"partNumber", 1}, {"hexMD5", ""}}, {{"partNumber", 2}, {"hexMD5", ""}}};
  const json upload = File(id, parts)["uploadMultipartUrls"];
  json completed = json::array();
  int number = 0;
  for (const std::string bytes : {"hel", "lo\n"}) {
    const json url = upload["uploadUrlParts"][number]["uploadUrl"];
    const WandbServer::StorageAnswer answer = server_.Put(
        {.target = Target(url), .headers = {{"content-md5", Md5Base64(bytes)}}, .body = bytes});
    EXPECT_EQ(answer.code, 200);
    completed.push_back({{"partNumber", ++number}, {"hexMD5", answer.etag}});
  }
  const json done =
      Ask("CompleteMultipartUploadArtifact",
          {{"artifactID", id}, {"uploadID", upload["uploadID"]}, {"completedParts", completed}});
  EXPECT_EQ(done["completeMultipartUploadArtifact"]["digest"], kHello);
  PutManifest(id, id);
  Commit(id);
  EXPECT_THAT(server_.errors(), IsEmpty());
}

TEST(FakeWandbTest, StorageHasFaultsOfItsOwn) {
  FakeWandb server;
  httplib::Client client(server.url());
  client.set_basic_auth("api", "key");
  client.Post("/graphql", R"({"operationName":"UpsertBucket","variables":{"name":"r"}})", "");
  client.Post("/graphql",
              R"({"operationName":"CreateRunFiles","variables":{"run":"r","files":["f"]}})", "");
  server.Inject({.on = FakeWandb::Fault::On::kStorage, .code = 503});
  httplib::Client storage(server.url());
  const auto put = [&] {
    return storage
        .Put("/storage/run/r/f?signature=fake", {{"X-Fake-Upload", "yes"}}, "bytes", "text/plain")
        ->status;
  };
  EXPECT_EQ(put(), 503);
  EXPECT_THAT(server.run("r").files, IsEmpty());
  EXPECT_EQ(put(), 200);
  EXPECT_THAT(server.run("r").files, ElementsAre(Pair("f", "bytes")));
  EXPECT_EQ(storage.Get("/storage/run/r/f?signature=fake")->body, "bytes");
  EXPECT_THAT(server.errors(), IsEmpty());
}

TEST(FakeWandbTest, ACutConnectionHasNoAnswer) {
  FakeWandb server;
  httplib::Client client(server.url());
  client.set_basic_auth("api", "key");
  const auto upsert = [&] {
    return client
        .Post("/graphql", R"({"operationName":"UpsertBucket","variables":{"name":"r"}})", "")
        .error();
  };
  server.Inject({.on = FakeWandb::Fault::On::kGraphql, .code = FakeWandb::kCut, .act = true});
  EXPECT_EQ(upsert(), httplib::Error::Read);
  EXPECT_EQ(server.run("r").upserts, 1);
  EXPECT_EQ(upsert(), httplib::Error::Success);
}

TEST(FakeWandbTest, EveryThirdRequestFails) {
  FakeWandb server;
  server.FailEvery(3);
  httplib::Client client(server.url());
  client.set_basic_auth("api", "key");
  std::string answers;
  for (int i = 0; i < 12; ++i) {
    const auto answer = client.Post("/graphql", R"({"operationName":"Viewer"})", "");
    answers += !answer ? "cut " : absl::StrCat(answer->status, " ");
  }
  EXPECT_EQ(answers, "200 200 cut 200 200 503 200 200 cut 200 200 500 ");
}

}  // namespace
}  // namespace ranklog::testing
