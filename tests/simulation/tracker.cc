#include "tests/simulation/tracker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ranklog::simulation {

class TrackerTransport : public deliver::Transport {
 public:
  TrackerTransport(Tracker* tracker, std::function<bool()> works)
      : tracker_(*tracker), works_(std::move(works)) {}
  absl::StatusOr<deliver::HttpResponse> Post(const deliver::HttpRequest& request) override {
    if (!works_()) return absl::UnavailableError("the process is dead");
    return tracker_.Post(request);
  }

 private:
  Tracker& tracker_;
  const std::function<bool()> works_;
};

Tracker::Tracker(World* world, Options options)
    : world_(*world), options_(options), server_("http://127.0.0.1/storage") {
  if (!options_.poison) return;
  server_.RefuseLines(
      [](const std::string& line) { return line.find("poison") != std::string::npos; });
}

std::unique_ptr<deliver::Transport> Tracker::Connect(std::function<bool()> works) {
  return std::make_unique<TrackerTransport>(this, std::move(works));
}

deliver::HttpResponse Tracker::Act(const deliver::HttpRequest& request) {
  deliver::HttpResponse response;
  if (request.body.size() > options_.max_body) {
    response.code = 413;
    return response;
  }
  testing::WandbServer::Answer answer;
  // http://host/files/entity/project/run/file_stream, or http://host/graphql
  const std::vector<std::string> parts = absl::StrSplit(request.url, '/');
  if (parts.size() == 8 && parts[3] == "files") {
    answer = server_.FileStream(parts[4], parts[5], parts[6], request.body);
  } else {
    answer = server_.Graphql(request.body);
  }
  response.code = answer.code;
  response.body = answer.body.dump();
  return response;
}

absl::StatusOr<deliver::HttpResponse> Tracker::Post(const deliver::HttpRequest& request) {
  if (world_.now() < not_before_) {
    wrong_.push_back(absl::StrCat("a request to ", request.url, " before Retry-After"));
  }
  const bool faulty = world_.faults && world_.Chance(options_.fault);
  const uint64_t fault = faulty ? world_.Between(1, 7) : 0;
  world_.Note("post ", request.url, " ", request.body.size(), " fault ", fault);
  deliver::HttpResponse response;
  switch (fault) {
    case 0:
      return Act(request);
    case 1:
      response.code = static_cast<int>(500 + world_.Below(4));
      return response;
    case 2: {
      response.code = 429;
      response.retry_after = absl::Seconds(static_cast<int64_t>(world_.Between(1, 20)));
      not_before_ = world_.now() + *response.retry_after;
      return response;
    }
    case 3:
      Act(request);
      return absl::UnavailableError("the connection broke before the answer");
    case 4:
      return absl::UnavailableError("the connection broke before the request was there");
    case 5:  // accepts and never answers, or answers after the client gave up
      if (world_.Chance(0.5)) Act(request);
      return absl::DeadlineExceededError("no answer in time");
    case 6:
      Act(request);
      response.code = static_cast<int>(502 + world_.Below(3));
      return response;
    default:
      response = Act(request);
      response.body.resize(response.body.size() / 2);
      return response;
  }
}

}  // namespace ranklog::simulation
