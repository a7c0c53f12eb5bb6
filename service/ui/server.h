// The web server of the local page.

#ifndef SERVICE_UI_SERVER_H_
#define SERVICE_UI_SERVER_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "service/ui/answers.h"
#include "service/ui/gate.h"
#include "service/ui/stores.h"

struct mg_connection;
struct mg_context;

namespace ranklog::ui {

struct ServerOptions {
  int port = 0;                            // 0: a free one
  absl::Duration poll = absl::Seconds(1);  // how often a live page looks for new rows
};

// Listens on 127.0.0.1 from Start() until it is destroyed.
class Server {
 public:
  //   kUnavailable  the port is taken
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       std::vector<StoreSource> stores);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const { return port_; }
  // With the token: whoever has it can read the runs.
  std::string Url() const;

 private:
  struct Reply {
    int code = 200;
    absl::string_view type = "text/plain; charset=utf-8";
    std::string headers{};  // further ones, each with its line end
    std::string body{};
  };

  Server(const ServerOptions& options, std::vector<StoreSource> stores);
  static int OnRequest(mg_connection* connection);  // on a thread of the web server
  void Handle(mg_connection* connection);
  Reply Answer(absl::string_view path, const Params& params);
  // Sends events until the browser or the server goes.
  void Live(mg_connection* connection, const Params& params);

  const int port_;
  const absl::Duration poll_;
  const Stores stores_;
  Answers answers_{&stores_};
  const Gate gate_;
  absl::Notification stop_;
  std::atomic<int> live_ = 0;  // calls of Live()
  mg_context* context_ = nullptr;
};

}  // namespace ranklog::ui

#endif  // SERVICE_UI_SERVER_H_
