#include "service/ui/server.h"

#include <arpa/inet.h>
#include <civetweb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "service/base/status_macros.h"
#include "service/base/unique_fd.h"
#include "service/ui/assets.h"

namespace ranklog::ui {
namespace {

constexpr int kThreads = 64;  // small, and another user of this node may hold some for a while
constexpr char kRequestTimeoutMs[] = "2000";  // a browser on this machine sends a request at once
constexpr int kMostLive = 16;                 // each occupies a thread

// Without 'unsafe-inline', a text that became markup by mistake could not run.
constexpr char kHeaders[] =
    "Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-store\r\n";

constexpr char kNoToken[] =
    "403: open the page by the link that `ranklog ui` printed. It lets this browser in until "
    "`ranklog ui` ends.\n";

// Not a redirect: after the click on a link in a page of another site, browsers would withhold the
// cookie.
constexpr char kSignedIn[] =
    "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url=/\">"
    "<title>Ranklog</title><link rel=\"icon\" href=\"icon.svg\">";

absl::string_view TypeOf(absl::string_view name) {
  if (absl::EndsWith(name, ".js")) return "text/javascript; charset=utf-8";
  if (absl::EndsWith(name, ".css")) return "text/css; charset=utf-8";
  if (absl::EndsWith(name, ".html")) return "text/html; charset=utf-8";
  if (absl::EndsWith(name, ".svg")) return "image/svg+xml";
  return "text/plain; charset=utf-8";
}

absl::string_view Text(const char* text) { return text == nullptr ? "" : text; }

// Whether `port` is free on 127.0.0.1; if it is 0, sets it to a free one.
bool IsFree(int* port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(*port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return false;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  *port = ntohs(address.sin_port);
  return true;
}

int CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kInvalidArgument:
      return 400;
    default:
      return 500;
  }
}

// The keys whose values differ, or that only one of them has, with spaces between.
std::string ChangedKeys(const std::map<std::string, std::string>& before,
                        const std::map<std::string, std::string>& after) {
  std::set<std::string> keys;
  for (const auto* const states : {&before, &after}) {
    for (const auto& [key, state] : *states) {
      const auto a = before.find(key), b = after.find(key);
      if (a == before.end() || b == after.end() || a->second != b->second) keys.insert(key);
    }
  }
  return absl::StrJoin(keys, " ");
}

bool Write(mg_connection* connection, absl::string_view text) {
  return mg_write(connection, text.data(), text.size()) == static_cast<int>(text.size());
}

}  // namespace

Server::Server(const ServerOptions& options, std::vector<StoreSource> stores)
    : port_(options.port),
      poll_(options.poll),
      stores_(std::move(stores)),
      gate_(NewToken(), options.port) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      std::vector<StoreSource> stores) {
  ServerOptions chosen = options;
  const absl::Status taken = absl::UnavailableError(absl::StrCat(
      "cannot listen on 127.0.0.1:", options.port, ": the port is taken; choose another --port"));
  if (!IsFree(&chosen.port)) return taken;
  std::unique_ptr<Server> server(new Server(chosen, std::move(stores)));
  mg_callbacks callbacks{};
  callbacks.begin_request = &Server::OnRequest;
  callbacks.log_message = [](const mg_connection*, const char*) { return 1; };  // prints nothing
  // Debian's CivetWeb has no IPv6. Browsers that look for localhost at ::1 then try 127.0.0.1.
  const std::string address = absl::StrCat("127.0.0.1:", chosen.port);
  const std::string threads = absl::StrCat(kThreads);
  // No document_root, so no file of the machine is ever served. No header allows another origin to
  // read.
  const char* settings[] = {"listening_ports",
                            address.c_str(),
                            "num_threads",
                            threads.c_str(),
                            "enable_keep_alive",
                            "yes",
                            "keep_alive_timeout_ms",
                            "5000",
                            "request_timeout_ms",
                            kRequestTimeoutMs,
                            "access_control_allow_origin",
                            "",
                            "access_control_allow_methods",
                            "",
                            "access_control_allow_headers",
                            "",
                            "enable_directory_listing",
                            "no",
                            nullptr};
  server->context_ = mg_start(&callbacks, server.get(), settings);
  if (server->context_ == nullptr) return taken;
  return server;
}

Server::~Server() {
  stop_.Notify();
  if (context_ != nullptr) mg_stop(context_);
}

std::string Server::Url() const {
  return absl::StrCat("http://127.0.0.1:", port_, "/?token=", gate_.token());
}

int Server::OnRequest(mg_connection* connection) {
  static_cast<Server*>(mg_get_request_info(connection)->user_data)->Handle(connection);
  return 1;  // handled
}

void Server::Handle(mg_connection* connection) {
  const mg_request_info& request = *mg_get_request_info(connection);
  const auto header = [&](const char* name) { return Text(mg_get_header(connection, name)); };
  const absl::string_view path = Text(request.local_uri);
  const Params params = Params::Parse(Text(request.query_string));
  const std::string token = params.Get("token");
  const bool head_only = absl::string_view("HEAD") == request.request_method;
  Reply reply;
  switch (gate_.Judge({.method = Text(request.request_method),
                       .host = header("Host"),
                       .cookie = header("Cookie"),
                       .fetch_site = header("Sec-Fetch-Site"),
                       .token = token,
                       .page = path == "/"})) {
    case Verdict::kPass:
      if (path != "/api/live") {
        reply = Answer(path, params);
      } else if (head_only) {
        reply = {.type = "text/event-stream"};
      } else {
        return Live(connection, params);
      }
      break;
    case Verdict::kSignIn:
      reply = {.type = "text/html; charset=utf-8",
               .headers = absl::StrCat("Set-Cookie: ", gate_.SetCookie(), "\r\n"),
               .body = kSignedIn};
      break;
    case Verdict::kWrongMethod:
      reply = {.code = 405, .headers = "Allow: GET, HEAD\r\n", .body = "405: only GET and HEAD\n"};
      break;
    case Verdict::kWrongHost:
      reply = {.code = 403, .body = "403: use the address 127.0.0.1, ::1 or localhost\n"};
      break;
    case Verdict::kWrongSite:
      reply = {.code = 403, .body = "403: only this page's own scripts may ask\n"};
      break;
    case Verdict::kNoToken:
      reply = {.code = 403, .body = kNoToken};
      break;
  }
  // Another user cannot hold a thread by asking again and again.
  const bool stranger = reply.code == 403;
  if (stranger) {
    mg_disable_connection_keep_alive(connection);
    reply.headers = "Connection: close\r\n";
  }
  const std::string head =
      absl::StrCat("HTTP/1.1 ", reply.code, " ", mg_get_response_code_text(connection, reply.code),
                   "\r\n", kHeaders, "Content-Type: ", reply.type,
                   "\r\nContent-Length: ", reply.body.size(), "\r\n", reply.headers, "\r\n");
  Write(connection, head_only ? head : absl::StrCat(head, reply.body));
}

Server::Reply Server::Answer(absl::string_view path, const Params& params) {
  if (absl::StartsWith(path, "/api/")) {
    const absl::StatusOr<std::string> json = answers_.Get(path, params);
    if (json.ok()) return {.type = "application/json", .body = *json};
    return {.code = CodeOf(json.status()), .body = std::string(json.status().message())};
  }
  const absl::string_view name = path == "/" ? "index.html" : absl::StripPrefix(path, "/");
  // Only exact names of embedded files, so no path leads out of them.
  if (const Asset* const asset = FindAsset(name)) {
    return {.type = TypeOf(asset->name), .body = std::string(asset->content)};
  }
  return {.code = 404, .body = "404: there is no such page\n"};
}

void Server::Live(mg_connection* connection, const Params& params) {
  if (live_.fetch_add(1) < kMostLive) {
    constexpr int kBeats =
        10;  // rounds without an event, after which a comment finds closed connections
    std::map<std::string, std::string> states = answers_.States(params);
    bool open = Write(connection, absl::StrCat("HTTP/1.1 200 OK\r\n", kHeaders,
                                               "Content-Type: text/event-stream\r\n"
                                               "Connection: close\r\n\r\nretry: 2000\n\n"));
    for (int round = 1; open && !stop_.WaitForNotificationWithTimeout(poll_); ++round) {
      std::map<std::string, std::string> now = answers_.States(params);
      if (now != states) {
        open = Write(connection, absl::StrCat("data: ", ChangedKeys(states, now), "\n\n"));
        states = std::move(now);
      } else if (round % kBeats == 0) {
        open = Write(connection, ":\n\n");
      }
    }
  } else {
    Write(connection, absl::StrCat("HTTP/1.1 503 Service Unavailable\r\n", kHeaders,
                                   "Retry-After: 10\r\nContent-Length: 0\r\n\r\n"));
  }
  live_.fetch_sub(1);
}

}  // namespace ranklog::ui
