#include "tests/simulation/tracker.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ranklog::simulation {
namespace {

constexpr absl::Duration kCrashed = absl::Minutes(5);  // of silence, about as at wandb.ai
constexpr int kMostRefusals = 3;                       // see refusals_

// An upload that takes a while. The daemon may die meanwhile.
class SlowExchange : public deliver::Exchange {
 public:
  SlowExchange(World* world, absl::Duration time,
               std::function<absl::StatusOr<deliver::HttpResponse>()> end)
      : world_(*world), ends_(world->now() + time), end_(std::move(end)) {}
  absl::optional<absl::StatusOr<deliver::HttpResponse>> Continue(absl::Duration /*most*/) override {
    if (world_.now() < ends_) return absl::nullopt;
    return end_();
  }

 private:
  World& world_;
  const absl::Time ends_;
  const std::function<absl::StatusOr<deliver::HttpResponse>()> end_;
};

// Nullopt: the file is absent, or shorter than the range.
absl::optional<std::string> BodyOf(const deliver::HttpRequest& request) {
  if (!request.file.has_value()) return request.body;
  std::ifstream file(request.file->path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(request.file->offset));
  std::string bytes(request.file->bytes, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.is_open() || static_cast<uint64_t>(file.gcount()) != request.file->bytes) {
    return absl::nullopt;
  }
  return bytes;
}

}  // namespace

class TrackerTransport : public deliver::Transport {
 public:
  TrackerTransport(Tracker* tracker, uint32_t node, std::function<bool()> works)
      : tracker_(*tracker), node_(node), works_(std::move(works)) {}
  absl::StatusOr<deliver::HttpResponse> Send(const deliver::HttpRequest& request) override {
    if (!works_()) return absl::UnavailableError("the process is dead");
    return request.method == "PUT" ? tracker_.Put(request) : tracker_.Post(node_, request);
  }
  std::unique_ptr<deliver::Exchange> Begin(deliver::HttpRequest request) override {
    World& world = tracker_.world_;
    const absl::Duration time = world.Chance(0.2) ? world.Delay(0, 3000) : absl::ZeroDuration();
    return std::make_unique<SlowExchange>(
        &world, time, [this, request = std::move(request)] { return Send(request); });
  }

 private:
  Tracker& tracker_;
  const uint32_t node_;
  const std::function<bool()> works_;
};

Tracker::Tracker(World* world, Options options)
    : world_(*world), options_(options), server_("http://127.0.0.1/storage") {
  if (options_.several_stores) server_.ExpectSeveralStores();
  if (!options_.poison) return;
  server_.RefuseLines(
      [](const std::string& line) { return line.find("poison") != std::string::npos; });
}

std::unique_ptr<deliver::Transport> Tracker::Connect(uint32_t node, std::function<bool()> works) {
  return std::make_unique<TrackerTransport>(this, node, std::move(works));
}

Tracker::SetBack Tracker::set_back(const std::string& run_id) const {
  const auto found = effects_.find(run_id);
  return found == effects_.end() ? SetBack() : found->second.set_back;
}

int64_t Tracker::LastStep() const {
  int64_t last = 0;
  for (const auto& [id, run] : server_.runs()) {
    if (run.history.empty()) continue;
    last = std::max<int64_t>(last, testing::ParseExtendedJson(run.history.back())["_step"]);
  }
  return last;
}

deliver::HttpResponse Tracker::Act(const deliver::HttpRequest& request, uint64_t number) {
  deliver::HttpResponse response;
  testing::WandbServer::Answer answer;
  // http://host/files/entity/project/run/file_stream, or http://host/graphql
  const std::vector<std::string> parts = absl::StrSplit(request.url, '/');
  if (parts.size() == 8 && parts[3] == "files") {
    if (request.body.size() > options_.max_body) {
      response.code = 413;
      return response;
    }
    answer = server_.FileStream(parts[4], parts[5], parts[6], request.body);
    last_request_[parts[6]] = world_.now();
    if (answer.code == 200) NoteEffect(parts[6], request.body, number);
  } else {
    for (const auto& [run, heard] : last_request_) {
      if (world_.now() - heard > kCrashed) server_.RunOf(run).silent = true;
    }
    answer = server_.Graphql(request.body);
    if (answer.code == 200) NoteEffect("", request.body, number);
  }
  response.code = answer.code;
  response.body = answer.body.dump();
  return response;
}

// The client gave this request up, and has made others since.
void Tracker::ActLate(const deliver::HttpRequest& request, uint64_t number) {
  const bool heartbeat = request.body == "{}";  // has no effect so late
  if (heartbeat) return;
  world_.Note("request ", number, " takes effect late");
  Act(request, number);
}

void Tracker::NoteEffect(const std::string& stream_run, const std::string& text, uint64_t number) {
  const nlohmann::json body = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool upsert = stream_run.empty() && text.find("UpsertBucket") != std::string::npos;
  if (stream_run.empty() && !upsert) return;
  Effects& effects = effects_[upsert ? body["variables"]["name"].get<std::string>() : stream_run];
  const auto set = [number](uint64_t* newest, bool* set_back) {
    *set_back = number < *newest;
    *newest = std::max(*newest, number);
  };
  if (upsert) set(&effects.newest_config, &effects.set_back.config);
  if (text.find("wandb-summary.json") != std::string::npos) {
    set(&effects.newest_summary, &effects.set_back.summary);
  }
  // If the end was set back, rows of another store do not set it again.
  const bool stays = options_.several_stores && effects.set_back.end &&
                     text.find("\"complete\":true") == std::string::npos;
  set(&effects.newest_end, &effects.set_back.end);
  effects.set_back.end |= stays;
}

absl::StatusOr<deliver::HttpResponse> Tracker::Post(uint32_t node,
                                                    const deliver::HttpRequest& request) {
  const auto wait = not_before_.find(node);
  if (wait != not_before_.end() && world_.now() < wait->second) {
    wrong_.push_back(absl::StrCat("a request to ", request.url, " before Retry-After"));
  }
  const bool faulty = world_.faults && world_.Chance(options_.fault);
  const uint64_t fault = faulty ? world_.Between(1, 9) : 0;
  const uint64_t number = ++requests_;
  world_.Note("post ", request.url, " ", request.body.size(), " fault ", fault);
  const bool ends = request.body.find("\"complete\":true") != std::string::npos;
  if (options_.slow_end && ends) world_.Wait(world_.Delay(0, 1000));
  deliver::HttpResponse response;
  switch (fault) {
    case 0:
      return Act(request, number);
    case 1:
      response.code = static_cast<int>(500 + world_.Below(4));
      return response;
    case 2: {
      response.code = 429;
      response.retry_after = absl::Seconds(static_cast<int64_t>(world_.Between(1, 20)));
      not_before_[node] = world_.now() + *response.retry_after;
      return response;
    }
    case 3:
      Act(request, number);
      return absl::UnavailableError("the connection broke before the answer");
    case 4:
      return absl::UnavailableError("the connection broke before the request was there");
    case 6:
      Act(request, number);
      response.code = static_cast<int>(502 + world_.Below(3));
      return response;
    case 5:
      response = Act(request, number);
      response.body.resize(response.body.size() / 2);
      return response;
    default:  // accepts and never answers, or acts after the client has given up
      if (world_.Chance(0.7)) {
        world_.After(world_.Delay(0, 30000),
                     [this, node, request, number, times = forgotten_[node]] {
                       if (forgotten_[node] == times) ActLate(request, number);
                     });
      }
      return absl::DeadlineExceededError("no answer in time");
  }
}

// Takes effect as a whole, or not at all.
absl::StatusOr<deliver::HttpResponse> Tracker::Put(const deliver::HttpRequest& request) {
  const absl::optional<std::string> body = BodyOf(request);
  if (!body.has_value()) return absl::DataLossError("the file is not there");
  const bool faulty = world_.faults && world_.Chance(options_.fault);
  uint64_t fault = faulty ? world_.Between(1, 9) : 0;
  const uint64_t number = ++requests_;
  world_.Note("put ", request.url, " ", body->size(), " fault ", fault);
  testing::WandbServer::StorageRequest put{.target = request.url, .headers = {}, .body = *body};
  for (const auto& [name, value] : request.headers) {
    put.headers[absl::AsciiStrToLower(name)] = value;
  }
  const auto act = [this, number, put] {
    const std::vector<std::string> parts = absl::StrSplit(put.target, absl::ByAnyChar("/?"));
    if (const auto run = std::find(parts.begin(), parts.end(), "run"); run + 2 < parts.end()) {
      Effects& effects = effects_[run[1]];
      uint64_t& newest = effects.newest_files[run[2]];
      if (number < newest) {
        effects.set_back.files.insert(run[2]);
      } else {
        effects.set_back.files.erase(run[2]);
      }
      newest = std::max(newest, number);
    }
    const testing::WandbServer::StorageAnswer answer = server_.Put(put);
    deliver::HttpResponse response;
    response.code = answer.code;
    response.body = answer.body;
    if (!answer.etag.empty()) response.headers["etag"] = answer.etag;
    return response;
  };
  const auto answer = [](int code) {
    deliver::HttpResponse response;
    response.code = code;
    return response;
  };
  if (fault >= 6 && fault <= 8 && ++refusals_ > kMostRefusals) fault = 1;
  switch (fault) {
    case 0:
      return act();
    case 1:
      return answer(static_cast<int>(500 + world_.Below(4)));
    case 2:
      return answer(429);
    case 3:
      act();
      return absl::UnavailableError("the connection broke before the answer");
    case 4:
      return absl::UnavailableError("the connection broke before the request was there");
    case 5:
      act();
      return answer(502);
    case 6:
      return answer(409);
    case 7:
      return answer(403);  // the address has expired
    case 8: {              // the store loses the part that it has confirmed
      auto accepted = act();
      server_.LosePart(put.target);
      return accepted;
    }
    default:
      if (world_.Chance(0.7)) world_.After(world_.Delay(0, 30000), [act] { act(); });
      return absl::DeadlineExceededError("no answer in time");
  }
}

}  // namespace ranklog::simulation
