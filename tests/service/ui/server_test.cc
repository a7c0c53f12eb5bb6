// The real server on a real store, asked by an HTTP client.

#include "service/ui/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "tests/service/storage/store_fixture.h"

namespace ranklog::ui {
namespace {

using ::ranklog::testing::Dense;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::StoreTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ServerTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    Do([&] {
      run_ = Attach(0).run;
      EXPECT_OK(store_->DefineRunShape(run_, 1, std::vector<std::string>{"lr", "train/loss"}));
    });
    Append(0, 10);
    ASSERT_OK_AND_ASSIGN(server_,
                         Server::Start({.port = 0, .poll = absl::Milliseconds(20)},
                                       {{dir_.path(), nullptr}, {"/nonexistent", nullptr}}));
    const std::string url = server_->Url();
    token_ = url.substr(url.find("token=") + 6);
    cookie_ = absl::StrCat("ranklog_", server_->port(), "=", token_);
  }
  // A server takes up to 2 s to stop, so all of them stop at once, after the last test.
  void TearDown() override { stopping_->push_back(std::move(server_)); }
  static void SetUpTestSuite() { stopping_ = new std::vector<std::unique_ptr<Server>>(); }
  static void TearDownTestSuite() {
    std::vector<std::thread> threads;
    for (std::unique_ptr<Server>& server : *stopping_) {
      threads.emplace_back([&server] { server.reset(); });
    }
    for (std::thread& thread : threads) thread.join();
    delete stopping_;
  }

  void Append(uint64_t first, uint64_t rows) {
    Do([&] { EXPECT_OK(store_->AppendRunRows(run_, Dense(first, rows, 1, 2))); });
  }
  httplib::Result Get(const std::string& path, httplib::Headers headers = {},
                      bool signed_in = true) {
    httplib::Client client("127.0.0.1", server_->port());
    client.set_read_timeout(60);
    if (signed_in) headers.emplace("Cookie", cookie_);
    return client.Get(path.c_str(), headers);
  }
  int Code(const std::string& path, const httplib::Headers& headers = {}, bool signed_in = true) {
    const httplib::Result result = Get(path, headers, signed_in);
    return result ? result->status : 0;
  }
  nlohmann::json Json(const std::string& path) {
    const httplib::Result result = Get(path);
    EXPECT_TRUE(result) << path;
    if (!result) return {};
    EXPECT_EQ(result->status, 200) << path << ": " << result->body;
    return nlohmann::json::parse(result->body, nullptr, false);
  }
  std::string Key() const { return absl::StrCat("0-", run_); }

  int64_t run_ = 0;
  std::unique_ptr<Server> server_;
  std::string token_;
  std::string cookie_;

 private:
  static inline std::vector<std::unique_ptr<Server>>* stopping_ = nullptr;
};

TEST_F(ServerTest, NothingIsServedWithoutTheToken) {
  for (const char* const path :
       {"/", "/index.html", "/app.js", "/uPlot.js", "/api/runs", "/api/live", "/api/absent",
        "/absent", "/?token=", "/?token=0123"}) {
    const httplib::Result result = Get(path, {}, /*signed_in=*/false);
    ASSERT_TRUE(result) << path;
    EXPECT_EQ(result->status, 403) << path;
    EXPECT_THAT(result->body, HasSubstr("the link that `ranklog ui` printed")) << path;
    EXPECT_FALSE(result->has_header("Set-Cookie")) << path;
  }
}

TEST_F(ServerTest, LinkSetsTheCookieWithoutARedirect) {
  const httplib::Result result = Get("/?token=" + token_, {}, /*signed_in=*/false);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 200);
  EXPECT_EQ(result->get_header_value("Set-Cookie"),
            cookie_ + "; Path=/; HttpOnly; SameSite=Strict");
  EXPECT_THAT(result->body, Not(HasSubstr(token_)));
}

// In the files of the kernel, a listener has the state 0A, and 127.0.0.1 is 0100007F.
TEST_F(ServerTest, ListensOnLoopbackOnly) {
  const std::string port = absl::StrFormat(":%04X ", server_->port());
  int listeners = 0;
  for (const char* const file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      const size_t at = line.find(port);
      if (at == std::string::npos || line.find(" 0A ") == std::string::npos) continue;
      ++listeners;
      EXPECT_THAT(line, HasSubstr("0100007F" + port));
    }
  }
  EXPECT_EQ(listeners, 1);
}

TEST_F(ServerTest, NamesOfOtherMachinesAreRefused) {
  EXPECT_EQ(Code("/api/runs", {{"Host", "evil.example"}}), 403);
  EXPECT_EQ(Code("/api/runs", {{"Host", "localhost:1"}}), 200);
}

TEST_F(ServerTest, ScriptsOfOtherOriginsAreRefused) {
  EXPECT_EQ(Code("/api/runs", {{"Sec-Fetch-Site", "cross-site"}}), 403);
  EXPECT_EQ(Code("/api/runs", {{"Sec-Fetch-Site", "same-site"}}), 403);
  EXPECT_EQ(Code("/api/runs", {{"Sec-Fetch-Site", "same-origin"}}), 200);
}

TEST_F(ServerTest, EveryAnswerForbidsInlineScriptsFramesAndCaches) {
  for (const char* const path : {"/", "/app.js", "/api/runs", "/absent", "/api/absent"}) {
    const httplib::Result result = Get(path);
    ASSERT_TRUE(result) << path;
    EXPECT_THAT(result->get_header_value("Content-Security-Policy"),
                HasSubstr("default-src 'self';"));
    EXPECT_THAT(result->get_header_value("Content-Security-Policy"),
                HasSubstr("frame-ancestors 'none'"));
    EXPECT_THAT(result->get_header_value("Content-Security-Policy"), Not(HasSubstr("unsafe")));
    EXPECT_EQ(result->get_header_value("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(result->get_header_value("Cache-Control"), "no-store");
    EXPECT_FALSE(result->has_header("Access-Control-Allow-Origin")) << path;
  }
}

TEST_F(ServerTest, NoOtherOriginMayRead) {
  httplib::Client client("127.0.0.1", server_->port());
  const httplib::Headers headers = {{"Cookie", cookie_},
                                    {"Origin", "http://evil.example"},
                                    {"Access-Control-Request-Method", "GET"}};
  const httplib::Result preflight = client.Options("/api/runs", headers);
  ASSERT_TRUE(preflight);
  EXPECT_EQ(preflight->status, 405);
  for (const auto& [name, value] : preflight->headers)
    EXPECT_THAT(name, Not(HasSubstr("Access-Control")));
}

TEST_F(ServerTest, MethodsThatCouldChangeSomethingAreRefused) {
  httplib::Client client("127.0.0.1", server_->port());
  const httplib::Headers headers = {{"Cookie", cookie_}};
  EXPECT_EQ(client.Post("/api/runs", headers, "{}", "application/json")->status, 405);
  EXPECT_EQ(client.Put("/api/runs", headers, "{}", "application/json")->status, 405);
  EXPECT_EQ(client.Delete("/api/runs", headers)->status, 405);
  const httplib::Result head = client.Head("/api/runs", headers);
  EXPECT_EQ(head->status, 200);
  EXPECT_THAT(head->body, IsEmpty());
}

TEST_F(ServerTest, NoPathLeadsToAFileOfTheMachine) {
  for (const char* const path :
       {"/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd",
        "//etc/passwd", "/etc/passwd", "/ranklog.db", "/./ranklog.db", "/app.js/../../ranklog.db",
        "/ranklog.db%00.js"}) {
    const httplib::Result result = Get(path);
    ASSERT_TRUE(result) << path;
    EXPECT_THAT(result->status, ::testing::AnyOf(400, 404)) << path;
    EXPECT_THAT(result->body, Not(HasSubstr("root:"))) << path;
  }
}

TEST_F(ServerTest, RunsOfAllStoresAreListedAndBrokenStoresNamed) {
  const nlohmann::json json = Json("/api/runs");
  ASSERT_EQ(json["runs"].size(), 1u);
  EXPECT_EQ(json["runs"][0]["run_id"], "job");
  EXPECT_EQ(json["runs"][0]["key"], Key());
  EXPECT_EQ(json["stores"][0]["error"], "");
  EXPECT_THAT(json["stores"][1]["error"].get<std::string>(), Not(IsEmpty()));
}

TEST_F(ServerTest, CurvesHaveTheRowsAndTheirNewOnes) {
  nlohmann::json json = Json("/api/curves?metric=train%2Floss&run=" + Key());
  EXPECT_EQ(json["rows"], 10);
  EXPECT_EQ(json["complete"], true);
  EXPECT_EQ(json["curves"]["train/loss"]["x"].size(), 10u);
  EXPECT_EQ(json["curves"].size(), 1u);
  Append(10, 2);
  json = Json("/api/curves?metric=lr&since=10&run=" + Key());
  EXPECT_THAT(json["curves"]["lr"]["v"], ElementsAre(10, 11));
}

TEST(JsonTextTest, WhatABrowserCannotReadBecomesText) {
  const int64_t beyond = (int64_t{1} << 53) + 1;
  EXPECT_EQ(
      JsonText({{"nan", std::numeric_limits<double>::quiet_NaN()},
                {"list", {std::numeric_limits<double>::infinity(), 1.5, -beyond}},
                {"most", std::numeric_limits<uint64_t>::max()}}),
      R"({"nan":"NaN","list":["inf",1.5,"-9007199254740993"],"most":"18446744073709551615"})");
  EXPECT_EQ(NotFiniteText(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST_F(ServerTest, QuickLookAtAShortRunIsComplete) {
  EXPECT_EQ(Json("/api/curves?quick=1&run=" + Key())["complete"], true);
}

TEST_F(ServerTest, EveryViewHasAnAnswer) {
  for (const char* const view :
       {"run", "summary", "system", "ranks", "console", "delivery", "artifacts"}) {
    EXPECT_TRUE(Json(absl::StrCat("/api/", view, "?run=", Key())).is_object()) << view;
  }
  EXPECT_THAT(Json("/api/run?run=" + Key())["commands"]["verify"].get<std::string>(),
              HasSubstr("ranklog verify gpt:job --state-dir "));
}

TEST_F(ServerTest, WrongParametersAreErrorsOfTheCaller) {
  for (const char* const path : {"/api/run", "/api/run?run=x", "/api/run?run=0-x",
                                 "/api/run?run=-1-1", "/api/curves?run=0-1&since=x"}) {
    EXPECT_EQ(Code(path), 400) << path;
  }
  for (const char* const path :
       {"/api/run?run=0-99", "/api/run?run=7-1", "/api/run?run=1-1", "/api/"}) {
    EXPECT_EQ(Code(path), 404) << path;
  }
}

TEST_F(ServerTest, LivePageIsToldOfNewRows) {
  httplib::Client client("127.0.0.1", server_->port());
  client.set_read_timeout(60);
  std::string events;
  const auto result = client.Get(("/api/live?run=" + Key()).c_str(), {{"Cookie", cookie_}},
                                 [&](const char* data, size_t size) {
                                   // The first bytes come after the server has looked at the store.
                                   if (events.empty()) Append(10, 1);
                                   events.append(data, size);
                                   return events.find("data: ") == std::string::npos;
                                 });
  EXPECT_THAT(events, HasSubstr(absl::StrCat("data: ", Key(), "\n\n")));
}

TEST_F(ServerTest, HeadOfALivePageEnds) {
  for (int i = 0; i < 20; ++i) {  // more than may be live
    httplib::Client client("127.0.0.1", server_->port());
    client.set_read_timeout(10);
    const httplib::Result result = client.Head("/api/live", {{"Cookie", cookie_}});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, 200);
    EXPECT_EQ(result->get_header_value("Content-Type"), "text/event-stream");
  }
}

TEST_F(ServerTest, StopsWhileAPageIsLive) {
  absl::Notification live;
  std::thread page([&] {
    httplib::Client client("127.0.0.1", server_->port());
    client.set_read_timeout(60);
    client.Get("/api/live", {{"Cookie", cookie_}}, [&](const char*, size_t) {
      if (!live.HasBeenNotified()) live.Notify();
      return true;
    });
  });
  live.WaitForNotification();
  server_.reset();
  page.join();
}

TEST_F(ServerTest, StoreWithoutADaemonGetsNoFiles) {
  const auto files = [this] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      names.insert(entry.path().filename().string());
    }
    return names;
  };
  reader_.reset();
  store_.reset();
  std::filesystem::remove(dir_.File("ranklog.db-shm"));  // left by reader_
  std::filesystem::remove(dir_.File("ranklog.db-wal"));
  const std::set<std::string> before = files();
  for (const char* const view : {"runs", "run", "summary", "curves", "delivery"}) {
    EXPECT_EQ(Code(absl::StrCat("/api/", view, "?run=", Key())), 200) << view;
  }
  EXPECT_EQ(Json("/api/run?run=" + Key())["rows"], 10);
  EXPECT_EQ(files(), before);
}

TEST_F(ServerTest, TakenPortIsAnError) {
  EXPECT_THAT(Server::Start({.port = server_->port()}, {}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("choose another --port")));
}

}  // namespace
}  // namespace ranklog::ui
