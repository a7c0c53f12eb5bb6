// Which key delivers a run, and what happens without one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/file_content.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// The daemon started only after the job, which had the key.
TEST(KeysTest, RunWithoutKeyWaitsForLogin) {
  const std::string key(40, 'k');
  FakeWandb wandb;
  wandb.RequireKey(key);
  Node node;
  auto there = WandbAt(wandb.url());
  there["RANKLOG_FINISH_TIMEOUT_MS"] = "10";
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"300"}, there);
  EXPECT_EQ(rank.Wait(), 3) << rank.Output();  // all rows are in the ring

  const std::map<std::string, std::string> no_key = {
      {"HOME", node.state_dir()}, {"XDG_CONFIG_HOME", node.state_dir()}, {"NETRC", "/nonexistent"}};
  node.StartWith(no_key);
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
  const auto deliveries = [&] { return node.Reader()->Deliveries(node.GetRun("job").id).value(); };
  ASSERT_THAT(deliveries(), SizeIs(1));
  EXPECT_EQ(deliveries().front().kind, "wandb");
  ASSERT_TRUE(WaitFor([&] { return !deliveries().front().last_error.empty(); }));
  ChildProcess::Options options;
  options.environment = no_key;
  options.unset = {"WANDB_API_KEY"};
  for (const char* command : {"runs", "status", "doctor"}) {
    const Finished finished =
        RunToEnd({RANKLOG_CLI, command, "--state-dir", node.state_dir()}, options);
    EXPECT_THAT(finished.output, HasSubstr("no API key for 127.0.0.1")) << command;
    EXPECT_THAT(finished.output,
                HasSubstr("; to continue, run `ranklog login --base-url " + wandb.url()))
        << command;
  }
  EXPECT_GE(node.LogCount("run job: wandb: no API key"), 1u);

  options.environment["WANDB_BASE_URL"] = wandb.url();
  const auto login = [&](const std::string& text) {
    return RunToEnd({"/bin/sh", "-c", "printf '%s\n' \"$0\" | \"$1\" login", text, RANKLOG_CLI},
                    options);
  };
  EXPECT_THAT(login("").output, HasSubstr("run: ranklog login < FILE"));
  const Finished refused = login(std::string(40, 'x'));
  EXPECT_EQ(refused.code, 1) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr(wandb.url() + " refused the key; it was not stored"));
  wandb.Inject({.on = FakeWandb::Fault::On::kGraphql, .code = 200, .body = "<html>Log in</html>"});
  const Finished page = login(key);
  EXPECT_EQ(page.code, 1) << page.output;
  EXPECT_THAT(page.output, HasSubstr("HTTP 200 with a web page"));
  wandb.Inject(
      {.on = FakeWandb::Fault::On::kGraphql, .code = 200, .body = R"({"data": {"viewer": null}})"});
  EXPECT_THAT(login(key).output, HasSubstr("copy a valid one from " + wandb.url() + "/authorize"));
  const std::string path = node.state_dir() + "/ranklog/credentials";
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  for (int times = 0; times < 2; ++times) {  // the second time, the key is replaced
    const Finished taken = login(key);
    EXPECT_EQ(taken.code, 0) << taken.output;
    EXPECT_THAT(taken.output, HasSubstr("the key of fake for 127.0.0.1"));
    EXPECT_THAT(taken.output, HasSubstr("no daemon answers; to deliver waiting runs, run `ranklog"))
        << "at the usual address";
  }
  struct stat file = {};
  ASSERT_EQ(stat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  EXPECT_EQ(FileContent(path),
            absl::StrCat("machine 127.0.0.1:", wandb.port(), " login user password ", key, "\n"));
  ASSERT_TRUE(wandb.WaitForEnd("job"));
  EXPECT_THAT(wandb.run("job").history, SizeIs(300));

  const Finished out = RunToEnd({RANKLOG_CLI, "logout"}, options);
  EXPECT_EQ(out.code, 0) << out.output;
  EXPECT_EQ(FileContent(path), "");
  const Finished again = RunToEnd({RANKLOG_CLI, "logout"}, options);
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.output, HasSubstr("there is no key for 127.0.0.1"));
}

// It does not wait for the next try, which is a minute away.
TEST(KeysTest, CorrectedKeyIsUsedAtOnce) {
  const std::string key(40, 'k');
  FakeWandb wandb;
  wandb.RequireKey(key);
  Node node;
  const std::map<std::string, std::string> home = {
      {"HOME", node.state_dir()}, {"XDG_CONFIG_HOME", node.state_dir()}, {"NETRC", "/nonexistent"}};
  node.StartWith(home);
  const auto run = [&](const std::string& id, char with) {
    ChildProcess rank =
        node.StartRank(id, 0, 0, 1, 1, {"10"},
                       {{"WANDB_BASE_URL", wandb.url()}, {"WANDB_API_KEY", std::string(40, with)}});
    EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  };
  run("first", 'x');
  run("second", 'y');
  const auto waits = [&](const std::string& id) {
    const auto deliveries = node.Reader()->Deliveries(node.GetRun(id).id);
    return deliveries.ok() && deliveries->size() == 1 &&
           absl::StrContains(deliveries->front().last_error, "HTTP 401");
  };
  ASSERT_TRUE(WaitFor([&] { return waits("first") && waits("second"); })) << node.Log();
  ChildProcess::Options options;
  options.environment = home;
  options.environment["WANDB_BASE_URL"] = wandb.url();
  options.unset = {"WANDB_API_KEY"};
  const Finished login =
      RunToEnd({"/bin/sh", "-c", "printf '%s\n' \"$0\" | \"$1\" login --address \"$2\"", key,
                RANKLOG_CLI, node.address()},
               options);
  EXPECT_EQ(login.code, 0) << login.output;
  EXPECT_THAT(login.output, HasSubstr("waiting runs continue within a minute"));
  for (const char* id : {"first", "second"}) {
    EXPECT_TRUE(wandb.WaitForEnd(id, absl::Seconds(20))) << id << node.Log();
  }
}

// The key of a command is for the runs that it names, or that have none.
TEST(KeysTest, SyncKeepsTheKeyOfJob) {
  FakeWandb wandb;
  wandb.RequireKey(std::string(40, 'k'));
  wandb.Inject({.times = 2, .code = 503});
  Node node({"--transmit-interval", "50ms"});
  node.Start();
  ChildProcess rank =
      node.StartRank("job", 0, 0, 1, 1, {"10"},
                     {{"WANDB_BASE_URL", wandb.url()}, {"WANDB_API_KEY", std::string(40, 'k')}});
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  ChildProcess::Options options;
  options.environment = {{"RANKLOG_ADDRESS", node.address()},
                         {"WANDB_API_KEY", std::string(40, 'x')}};
  const Finished sync = RunToEnd({RANKLOG_CLI, "sync", "--state-dir", node.state_dir()}, options);
  EXPECT_EQ(sync.code, 0) << sync.output;
  EXPECT_TRUE(wandb.WaitForEnd("job")) << node.Log();
}

// A secret with a newline, an address without a scheme, and a page that is not a tracker's. None
// makes the run local, and each run reports what is wrong.
TEST(KeysTest, SyncDeliversRunsThatHaveAKey) {
  const std::string key(40, 'k');
  FakeWandb first, second;
  Node node;
  const std::map<std::string, std::string> no_key = {
      {"HOME", node.state_dir()}, {"XDG_CONFIG_HOME", node.state_dir()}, {"NETRC", "/nonexistent"}};
  node.StartWith(no_key);
  for (const auto& [id, url] :
       {std::pair("first", first.url()), std::pair("second", second.url())}) {
    ChildProcess rank = node.StartRank(
        id, 0, 0, 1, 1, {"10"}, {{"RANKLOG_DESTINATIONS", "wandb"}, {"WANDB_BASE_URL", url}});
    EXPECT_EQ(rank.Wait(), 0) << rank.Output();
    ASSERT_TRUE(WaitFor([&, run = id] { return node.RunHasEnded(run); }));
  }
  ASSERT_EQ(node.Terminate(), 0);

  ChildProcess::Options options;
  options.environment = no_key;
  options.unset = {"WANDB_API_KEY"};
  const std::string credentials = node.state_dir() + "/credentials";
  const auto add_key = [&](FakeWandb& wandb) {
    std::ofstream(credentials, std::ios::app)
        << "machine 127.0.0.1:" << wandb.port() << " login user password " << key << "\n";
    ASSERT_EQ(chmod(credentials.c_str(), 0600), 0);
  };
  const auto sync = [&] {
    return RunToEnd({RANKLOG_CLI, "--state-dir", node.state_dir(), "sync"}, options);
  };
  add_key(second);
  const Finished partly = sync();
  EXPECT_EQ(partly.code, 1);
  EXPECT_THAT(partly.output, AllOf(HasSubstr("test:first  wandb  0 of 10 rows delivered, 10 left"),
                                   HasSubstr("test:second  wandb  10 of 10 rows delivered\n"),
                                   HasSubstr("no usable API key for " + first.url())));
  EXPECT_TRUE(second.WaitForEnd("second"));
  add_key(first);
  const Finished whole = sync();
  EXPECT_EQ(whole.code, 0) << whole.output;
  EXPECT_TRUE(first.WaitForEnd("first"));
  EXPECT_THAT(second.run("second").history, SizeIs(10));
}

TEST(KeysTest, EachRunReportsItsMissingKey) {  // S42
  FakeWandb wandb;
  wandb.RequireKey(std::string(40, 'k'));
  Node node;
  node.Start();
  const auto run = [&](const std::string& id, const std::string& url, const std::string& key) {
    ChildProcess rank =
        node.StartRank(id, 0, 0, 1, 1, {"10"}, {{"WANDB_BASE_URL", url}, {"WANDB_API_KEY", key}});
    EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  };
  run("newline", wandb.url() + "\n", std::string(40, 'k') + "\n");
  run("short", wandb.url(), "short");
  run("bare", "localhost:8080", "key");
  // The same server, at an address that does not count as this machine.
  run("plain", absl::StrReplaceAll(wandb.url(), {{"127.0.0.1", "0.0.0.0"}}), "key");
  EXPECT_TRUE(wandb.WaitForEnd("newline"));
  const auto output = [&](const char* command) {
    return RunToEnd({RANKLOG_CLI, command, "--state-dir", node.state_dir()}).output;
  };
  ASSERT_TRUE(WaitFor([&] {
    const std::string runs = output("runs");
    return absl::StrContains(runs, "short waits for wandb") &&
           absl::StrContains(runs, "bare waits for wandb") &&
           absl::StrContains(runs, "plain waits for wandb");
  })) << output("runs")
      << node.Log();
  for (const char* command : {"runs", "status", "doctor"}) {
    const std::string text = output(command);
    EXPECT_THAT(text, HasSubstr("HTTP 401")) << command;
    EXPECT_THAT(text, HasSubstr("has no http:// or https://")) << command;
    EXPECT_THAT(text, HasSubstr("run: RANKLOG_ALLOW_HTTP=1 ranklog sync plain")) << command;
  }
  const Finished check = RunToEnd({RANKLOG_CLI, "status", "--check", "--address", node.address()});
  EXPECT_EQ(check.code, 1);
  EXPECT_THAT(check.output, AllOf(HasSubstr("run short waits for wandb: "),
                                  HasSubstr("run bare waits for wandb: "),
                                  HasSubstr("run plain waits for wandb: "),
                                  HasSubstr("ranklog login --base-url " + wandb.url())));

  // What the messages say mends each.
  ChildProcess::Options options;
  options.environment = {{"WANDB_API_KEY", std::string(40, 'k')}};
  const auto sync = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {RANKLOG_CLI, "--state-dir", node.state_dir(), "sync"});
    return RunToEnd(args, options);
  };
  const auto expect_synced = [&](const std::vector<std::string>& args) {
    const Finished finished = sync(args);
    EXPECT_EQ(finished.code, 0) << finished.output;
  };
  options.environment["RANKLOG_ADDRESS"] = node.address();
  expect_synced({"short"});
  options.environment["RANKLOG_ALLOW_HTTP"] = "1";
  expect_synced({"plain"});
  const std::vector<std::string> correct = {"bare", "--base-url", wandb.url()};
  EXPECT_THAT(sync(correct).output, HasSubstr("stop`, then this command again"));
  EXPECT_EQ(node.Terminate(), 0);
  EXPECT_THAT(sync({"bare"}).output,
              HasSubstr("run: ranklog stop && ranklog sync bare --base-url URL"));
  expect_synced(correct);
  for (const char* id : {"short", "plain", "bare"}) EXPECT_TRUE(wandb.WaitForEnd(id)) << id;
  const Finished late = sync({"bare", "--base-url", "https://wandb.example.com"});
  EXPECT_EQ(late.code, 1);
  EXPECT_THAT(late.output, AllOf(HasSubstr("the address of run bare stays " + wandb.url()),
                                 HasSubstr("wandb has a part of the job's runs already"),
                                 HasSubstr("run `ranklog sync` without --base-url")));
}

// The address is stored and shown, so it must not contain a user.
TEST(KeysTest, AddressPasswordIsNotStored) {
  FakeWandb wandb;
  Node node;
  node.Start();
  auto there = WandbAt(absl::StrReplaceAll(wandb.url(), {{"://", "://me:URLSECRET@"}}));
  there["RANKLOG_QUIET"] = "0";
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"10"}, there);
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_THAT(rank.Output(), HasSubstr("a user or a password"));
  EXPECT_THAT(rank.Output(), Not(HasSubstr("URLSECRET")));
  EXPECT_TRUE(wandb.WaitForEnd("job"));
  ChildProcess::Options options;
  options.environment = there;
  for (const char* command : {"runs", "status", "doctor"}) {
    EXPECT_THAT(
        RunToEnd({RANKLOG_CLI, command, "--json", "--state-dir", node.state_dir()}, options).output,
        Not(HasSubstr("URLSECRET")))
        << command;
  }
  for (const auto& file : std::filesystem::directory_iterator(node.state_dir())) {
    EXPECT_THAT(FileContent(file.path()), Not(HasSubstr("URLSECRET"))) << file.path();
  }
  EXPECT_EQ(node.LogCount("URLSECRET"), 0u);
}

TEST(KeysTest, EachJobUsesItsOwnKey) {
  FakeWandb wandb;
  Node node({"--transmit-interval", "20ms"});
  node.Start();
  const auto with_key = [&](char c) {
    return std::map<std::string, std::string>{{"WANDB_BASE_URL", wandb.url()},
                                              {"WANDB_API_KEY", std::string(40, c)}};
  };
  ChildProcess one = node.StartRank("one", 0, 0, 1, 1, {"1000000", "0", "2000"}, with_key('1'));
  ASSERT_TRUE(WaitFor([&] { return wandb.run("one").history.size() > 10; }));
  ChildProcess two = node.StartRank("two", 0, 0, 1, 1, {"10"}, with_key('2'));
  EXPECT_EQ(two.Wait(), 0) << two.Output();
  ASSERT_TRUE(wandb.WaitForEnd("two"));
  const size_t lines = wandb.run("one").history.size();
  ASSERT_TRUE(WaitFor([&] { return wandb.run("one").history.size() > lines + 10; }));
  one.Kill();
  ASSERT_TRUE(wandb.WaitForEnd("one"));
  for (const FakeWandb::Request& request : wandb.requests()) {
    for (const char job : {'1', '2'}) {
      const std::string run = job == '1' ? "one" : "two";
      if (!absl::StrContains(request.path, "/" + run + "/") &&
          !absl::StrContains(request.body, absl::StrCat("\"name\":\"", run, "\""))) {
        continue;
      }
      const bool store_of_files = absl::StartsWith(request.path, "/storage/");  // gets no key
      EXPECT_EQ(request.authorization,
                store_of_files ? "" : "Basic " + absl::Base64Escape("api:" + std::string(40, job)))
          << request.path << " " << request.operation;
    }
  }
}

}  // namespace
}  // namespace ranklog::testing
