#include "service/deliver/http/curl_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <atomic>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/unique_fd.h"
#include "service/deliver/http/curl_answer.h"
#include "service/deliver/http/gzip.h"
#include "tests/support/dead_port.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::deliver {
namespace {

using ranklog::testing::StatusIs;
using ::testing::HasSubstr;

// Answers by path, and keeps the requests.
class CurlTransportTest : public ::testing::Test {
 protected:
  CurlTransportTest() {
    const auto note = [this](const httplib::Request& request) {
      request_ = request;
      ports_.insert(request.remote_port);
    };
    server_.set_tcp_nodelay(true);
    server_.Post("/echo", [note](const httplib::Request& request, httplib::Response& response) {
      note(request);
      response.set_content(request.body, "text/plain");
    });
    server_.Get("/echo", [note](const httplib::Request& request, httplib::Response& response) {
      note(request);
      response.set_header("X-Kind", " of get ");
    });
    const auto take = [note](const httplib::Request& request, httplib::Response& response) {
      note(request);
      response.status = 308;
      response.set_header("Range", "bytes=0-9");
    };
    server_.Put("/echo", take);
    server_.Patch("/echo", take);
    server_.Post("/big", [](const httplib::Request&, httplib::Response& response) {
      response.set_content(std::string(5 << 20, 'x'), "text/plain");
    });
    server_.Post("/busy", [](const httplib::Request&, httplib::Response& response) {
      response.status = 503;
      response.set_header("Retry-After", "1.5");
    });
    server_.Post("/quota", [](const httplib::Request& request, httplib::Response& response) {
      response.set_header("RateLimit-Remaining", request.body);
      response.set_header("RateLimit-Reset", "12.5");
    });
    server_.Post("/slow", [this](const httplib::Request&, httplib::Response&) {
      slow_was_asked_ = true;
      while (!stop_.load()) std::this_thread::yield();
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
    transport_ = CurlTransport::Create({}).value();
  }
  ~CurlTransportTest() override {
    stop_ = true;
    transport_.reset();
    server_.stop();
    thread_.join();
  }

  HttpRequest To(const std::string& path) {
    HttpRequest request;
    request.url = absl::StrCat("http://127.0.0.1:", port_, path);
    request.headers = {{"Content-Type", "application/octet-stream"}};
    return request;
  }

  httplib::Server server_;
  std::thread thread_;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<bool> slow_was_asked_{false};
  httplib::Request request_;
  std::set<int> ports_;
  std::unique_ptr<CurlTransport> transport_;
};

// The proxy of the request's job takes precedence over the environment, and so does its permission
// to use http.
TEST_F(CurlTransportTest, JobVariablesPrecedeEnvironment) {
  using Variables = std::map<std::string, std::string>;
  HttpRequest request = To("/echo");
  request.url = "http://tracker.invalid/echo";
  EXPECT_THAT(transport_->Send(request), StatusIs(absl::StatusCode::kFailedPrecondition));
  request.variables = Variables{{"RANKLOG_ALLOW_HTTP", ""}};
  const auto lenient = CurlTransport::Create({.allow_plain_http = true}).value();
  EXPECT_THAT(lenient->Send(request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("RANKLOG_ALLOW_HTTP=1")));
  // Our server acts as a proxy and gets the whole URL, which it does not know.
  request.variables = Variables{{"RANKLOG_ALLOW_HTTP", "1"},
                                {"http_proxy", absl::StrCat("http://127.0.0.1:", port_)}};
  const auto answer = transport_->Send(request);
  ASSERT_OK(answer);
  EXPECT_EQ(answer->code, 404);
  (*request.variables)["no_proxy"] = "tracker.invalid";
  EXPECT_THAT(transport_->Send(request), StatusIs(absl::StatusCode::kUnavailable));
}

// A command allows http for a job whose other variables the daemon does not have.
TEST_F(CurlTransportTest, AbsentProxyLeavesOurOwn) {
  HttpRequest request = To("/echo");
  request.url = "http://tracker.invalid/echo";
  request.variables = std::map<std::string, std::string>{{"RANKLOG_ALLOW_HTTP", "1"}};
  setenv("http_proxy", absl::StrCat(" http://127.0.0.1:", port_, "\n").c_str(), 1);
  const auto answer = transport_->Send(request);
  unsetenv("http_proxy");
  ASSERT_OK(answer);
  EXPECT_EQ(answer->code, 404) << "of our server, which acts as the proxy";
}

TEST_F(CurlTransportTest, PostsAndReadsTheAnswer) {
  HttpRequest request = To("/echo");
  request.body = std::string("a\0b", 3);
  request.headers = {{"Content-Type", "application/json"}, {"X-Own", "v"}};
  request.basic_user = "api";
  request.basic_password = "key";
  ASSERT_OK_AND_ASSIGN(const HttpResponse response, transport_->Send(request));
  EXPECT_EQ(response.code, 200);
  EXPECT_EQ(response.body, request.body);
  EXPECT_FALSE(response.retry_after.has_value());
  EXPECT_EQ(request_.get_header_value("X-Own"), "v");
  EXPECT_EQ(request_.get_header_value("Authorization"), "Basic YXBpOmtleQ==");
  EXPECT_EQ(request_.get_header_value_count("Content-Type"), 1u);
}

TEST_F(CurlTransportTest, SendsLargeBodyWithoutExpectHeader) {
  HttpRequest request = To("/echo");
  request.body = std::string(3 << 20, 'x');
  ASSERT_OK_AND_ASSIGN(const HttpResponse response, transport_->Send(request));
  EXPECT_EQ(response.body.size(), request.body.size());
  EXPECT_FALSE(request_.has_header("Expect"));
}

TEST_F(CurlTransportTest, OtherMethodsAndHeaders) {
  HttpRequest request = To("/echo");
  request.method = "GET";
  request.bearer = "token";
  ASSERT_OK_AND_ASSIGN(HttpResponse response, transport_->Send(request));
  EXPECT_EQ(response.code, 200);
  EXPECT_EQ(response.headers.at("x-kind"), "of get");
  EXPECT_EQ(request_.method, "GET");
  EXPECT_EQ(request_.get_header_value("Authorization"), "Bearer token");
  EXPECT_FALSE(request_.has_header("Content-Length"));
  EXPECT_TRUE(request_.has_header("Content-Type"));
  request.headers.clear();
  for (const char* method : {"PUT", "PATCH"}) {
    request.method = method;
    request.body = "part";
    ASSERT_OK_AND_ASSIGN(response, transport_->Send(request));
    EXPECT_EQ(response.code, 308);
    EXPECT_EQ(response.headers.at("range"), "bytes=0-9");
    EXPECT_EQ(request_.method, method);
    EXPECT_EQ(request_.body, "part");
    EXPECT_FALSE(request_.has_header("Content-Type")) << "a store of files signs it";
  }
}

TEST_F(CurlTransportTest, SendsRangeOfFile) {
  const testing::TempDir dir;
  const std::string path = dir.path() + "/checkpoint";
  std::string content(3 << 20, 'x');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 >> 3);
  std::ofstream(path) << content;
  HttpRequest request = To("/echo");
  request.method = "PUT";
  request.file = FileRange{.path = path, .offset = 1000, .bytes = 2 << 20};
  uint64_t last = 0;
  request.on_progress = [&](uint64_t sent) {
    EXPECT_GE(sent, last);
    last = sent;
  };
  request.gzip = true;  // only bodies from memory are compressed
  ASSERT_OK(transport_->Send(request));
  EXPECT_EQ(request_.body, content.substr(1000, 2 << 20));
  EXPECT_FALSE(request_.has_header("Content-Encoding"));
  EXPECT_EQ(last, 2u << 20);
  request.on_progress = nullptr;
  request.file->bytes = 0;
  ASSERT_OK(transport_->Send(request));
  EXPECT_EQ(request_.body, "");

  request.file->bytes = content.size();  // from 1000 on, there is less
  EXPECT_THAT(transport_->Send(request),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path + ": the file became shorter")));
  request.file->path += "2";
  EXPECT_THAT(transport_->Send(request),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("No such file")));
  request.file = absl::nullopt;
  ASSERT_OK(transport_->Send(request)) << "a later request does not inherit the file";
}

// The time limit counts from the last byte that moved.
TEST_F(CurlTransportTest, FileThatDoesNotMoveTimesOut) {
  const testing::TempDir dir;
  std::ofstream(dir.path() + "/file") << std::string(64 << 20, 'x');
  HttpRequest request;
  const testing::DeadPort port(testing::DeadPort::kListens);
  request.url = port.url();
  request.file = FileRange{.path = dir.path() + "/file", .offset = 0, .bytes = 64 << 20};
  request.timeout = absl::Seconds(1);
  EXPECT_THAT(transport_->Send(request), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(CurlTransportTest, KeepsItsConnection) {
  for (int i = 0; i < 4; ++i) ASSERT_OK(transport_->Send(To("/echo")));
  EXPECT_EQ(ports_.size(), 1u);
}

// Answers the first request, and closes the connection after each later one, without an answer.
class CuttingServer {
 public:
  CuttingServer() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~CuttingServer() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    for (const UniqueFd& connection : connections_) shutdown(connection.get(), SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
  }
  std::string url() const { return absl::StrCat("http://127.0.0.1:", port_, "/"); }
  int requests() const { return requests_; }

 private:
  // The client keeps the first connection, also while it uses another.
  void Serve() {
    while (true) {
      UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection.valid()) return;
      threads_.emplace_back([this, fd = connection.get()] { ServeConnection(fd); });
      connections_.push_back(std::move(connection));
    }
  }
  void ServeConnection(int fd) {
    std::string request;
    char bytes[4096];
    for (ssize_t size = 0; (size = recv(fd, bytes, sizeof bytes, 0)) > 0;) {
      request.append(bytes, static_cast<size_t>(size));
      if (!absl::EndsWith(request, "end")) continue;
      request.clear();
      if (++requests_ > 1) break;
      constexpr char kAnswer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
      send(fd, kAnswer, sizeof kAnswer - 1, MSG_NOSIGNAL);
    }
    shutdown(fd, SHUT_RDWR);
  }

  const UniqueFd listener_;
  int port_ = 0;
  std::atomic<int> requests_{0};
  std::vector<UniqueFd> connections_;
  std::vector<std::thread> threads_;
  std::thread thread_;
};

// By itself, libcurl repeats a request if a connection that it used before breaks.
TEST_F(CurlTransportTest, RequestThatMustNotBeRepeatedIsSentOnce) {
  for (const bool once : {false, true}) {
    const CuttingServer server;
    HttpRequest request;
    request.url = server.url();
    request.body = "end";
    ASSERT_OK(transport_->Send(request));
    request.once = once;
    EXPECT_THAT(transport_->Send(request), StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_EQ(server.requests(), once ? 2 : 3);
  }
}

TEST_F(CurlTransportTest, ForgetsTheLastRequestsCredentials) {
  HttpRequest request = To("/echo");
  request.basic_user = "api";
  ASSERT_OK(transport_->Send(request));
  ASSERT_OK(transport_->Send(To("/echo")));
  EXPECT_FALSE(request_.has_header("Authorization"));
}

TEST_F(CurlTransportTest, GzipsTheBody) {
  HttpRequest request = To("/echo");
  request.body = std::string(100000, 'x');
  request.gzip = true;
  ASSERT_OK_AND_ASSIGN(const HttpResponse response, transport_->Send(request));
  EXPECT_EQ(response.body, request.body);  // the server decompresses it
  EXPECT_EQ(request_.get_header_value("Content-Encoding"), "gzip");
}

TEST_F(CurlTransportTest, LimitsAnswerToFourMiB) {
  ASSERT_OK_AND_ASSIGN(const HttpResponse response, transport_->Send(To("/big")));
  EXPECT_EQ(response.body.size(), 4u << 20);
}

TEST_F(CurlTransportTest, ReadsRetryAfter) {
  ASSERT_OK_AND_ASSIGN(const HttpResponse response, transport_->Send(To("/busy")));
  EXPECT_EQ(response.code, 503);
  EXPECT_EQ(response.retry_after, absl::Milliseconds(1500));
}

TEST_F(CurlTransportTest, ReadsExhaustedQuota) {
  HttpRequest request = To("/quota");
  for (const char* left : {"0", "0.0"}) {
    request.body = left;
    ASSERT_OK_AND_ASSIGN(const HttpResponse response, transport_->Send(request));
    EXPECT_EQ(response.quota_after, absl::Seconds(12.5)) << left;
  }
  for (const char* left : {"1", "0.5", "-0.5", "nan", "none"}) {
    request.body = left;
    ASSERT_OK_AND_ASSIGN(const HttpResponse response, transport_->Send(request));
    EXPECT_EQ(response.quota_after, absl::nullopt) << left;
  }
}

TEST_F(CurlTransportTest, ReportsTimeoutAndRefusedConnection) {
  HttpRequest request = To("/slow");
  request.timeout = absl::Milliseconds(50);
  EXPECT_THAT(transport_->Send(request), StatusIs(absl::StatusCode::kDeadlineExceeded));
  HttpRequest nobody;
  nobody.url = "http://127.0.0.1:1/file?signature=secret";
  EXPECT_THAT(transport_->Send(nobody),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("127.0.0.1:1/file: "), Not(HasSubstr("secret")))));
}

TEST_F(CurlTransportTest, RefusesWhatCannotBeSentSafely) {
  for (const char* url :
       {"http://example.com/", "ftp://127.0.0.1/", "", "https://user:pw@127.0.0.1/"}) {
    HttpRequest request;
    request.url = url;
    EXPECT_THAT(transport_->Send(request), StatusIs(absl::StatusCode::kFailedPrecondition)) << url;
  }
  HttpRequest request = To("/echo");
  request.headers = {{"X", "a\r\nY: b"}};
  EXPECT_THAT(transport_->Send(request), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(CurlTransportTest, CancelEndsPostInFlight) {
  std::thread canceller([this] {
    while (!slow_was_asked_.load()) std::this_thread::yield();
    transport_->Cancel();
  });
  const absl::Time begin = absl::Now();
  EXPECT_THAT(transport_->Send(To("/slow")), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  canceller.join();
  EXPECT_THAT(transport_->Send(To("/echo")), StatusIs(absl::StatusCode::kCancelled));
}

TEST(ParseRetryAfterTest, ReadsSecondsAndDates) {
  const absl::Time now = absl::FromUnixSeconds(784111777);  // Sun, 06 Nov 1994 08:49:37 GMT
  EXPECT_EQ(ParseRetryAfter("120", now), absl::Seconds(120));
  EXPECT_EQ(ParseRetryAfter("0.25", now), absl::Milliseconds(250));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:50:37 GMT", now), absl::Seconds(60));
  EXPECT_EQ(ParseRetryAfter("Sun, 06 Nov 1994 08:00:00 GMT", now), absl::ZeroDuration());
  for (const char* text : {"", "soon", "-5", "nan", "inf"})
    EXPECT_EQ(ParseRetryAfter(text, now), absl::nullopt) << text;
}

TEST(GzipTest, ShrinksRepetitiveText) {
  ASSERT_OK_AND_ASSIGN(const std::string zipped, Gzip(std::string(100000, 'x')));
  EXPECT_LT(zipped.size(), 1000u);
  EXPECT_OK(Gzip(""));
}

}  // namespace
}  // namespace ranklog::deliver
