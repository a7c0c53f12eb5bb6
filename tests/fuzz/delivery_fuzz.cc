// Delivers a run to a W&B server that answers in any way. The first byte of the input chooses the
// run. The answers follow, one for each request, separated by lines "%%". Each has a body and,
// before it, a line
//   CODE[;RETRY-AFTER[;SECONDS UNTIL THE QUOTA IS RENEWED]]
//
// CODE  0  the connection breaks
//       1  no answer in time
//       2  an untrusted certificate
//       +  before a code: the server acts on the request, and then gives this answer
//       =  alone: the answer of an honest server
//
// "!" in the place of an answer restarts the daemon. After the last answer, the server is honest.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/deliver/http/curl_answer.h"
#include "service/deliver/http/url.h"
#include "service/deliver/wandb/api/server_json.h"
#include "service/deliver/wandb/wandb_delivery.h"
#include "service/storage/rows/documents.h"
#include "service/storage/store.h"
#include "service/storage/store_reader.h"
#include "tests/fuzz/fuzz.h"
#include "tests/service/storage/builders.h"
#include "tests/support/wandb_account.h"
#include "tests/support/wandb_server.h"

namespace ranklog::fuzz {
namespace {

using deliver::HttpRequest;
using deliver::HttpResponse;

constexpr char kServer[] = "https://tracker.test";
constexpr int64_t kStartUs = 1'767'322'800'000'000;
// An input may contain it: the delivery masks it in answers.
const std::string kKey(40, 'k');
constexpr size_t kMaxAnswers = 50;  // the rest of the input is ignored
// The delivery to an honest server needs fewer answers.
constexpr int kMaxHonestAnswers = 400;
constexpr int kMaxQuietSteps = 200;                    // in a row, without a request
constexpr absl::Duration kCrashed = absl::Minutes(5);  // of silence, about as at wandb.ai

// Three runs, written once. The first has 16 rows, one of them long, and config, definitions and
// summary. The second crashed with one row. The third has no rows.
class Runs {
 public:
  Runs() : dir_(std::filesystem::temp_directory_path() / absl::StrCat("fuzz-", getpid())) {
    store_ = storage::Store::Open(dir_, {}).value();
    Add("long", 16, model::RunState::kFinished);
    Add("short", 1, model::RunState::kCrashed);
    Add("empty", 0, model::RunState::kFinished);
    reader_ = storage::StoreReader::Open(dir_).value();
    std::filesystem::remove_all(dir_);  // SQLite keeps the files open
  }

  storage::StoreReader& reader() const { return *reader_; }
  int64_t Id(uint8_t choice) const { return ids_[choice % ids_.size()]; }

 private:
  void Add(const std::string& run_id, uint64_t rows, model::RunState state) {
    model::Session session;
    session.stream = {"p", run_id, 0, ids_.size() + 1};
    session.settings.destination_settings["wandb"]["base_url"] = kServer;
    session.settings.destinations = {"wandb"};
    session.settings.start_time_us = kStartUs;
    model::RunAssignment assignment;
    assignment.run_id = run_id;
    assignment.name = "name";
    assignment.primary = true;
    MUST(store_->Begin().ok());
    const model::Stream stream = store_->Attach(session, assignment, kStartUs).value();
    ids_.push_back(stream.run);
    const auto apply = [&](model::Item::Kind kind, const model::Json& object) {
      model::Item update;
      update.kind = kind;
      update.object = object;
      update.metric = {.name = "loss", .step_metric = "epoch", .summary = {"min"}, .goal = ""};
      MUST(testing::AppendItem(*store_, stream.id, update).ok());
    };
    apply(model::Item::Kind::kConfig, {{"lr", 1e-3}, {"model", {{"layers", 12}}}});
    apply(model::Item::Kind::kMetric, {});
    apply(model::Item::Kind::kSummary, {{"best", 0.5}});
    if (rows > 0) {
      MUST(store_->DefineRunShape(stream.run, 1, std::vector<std::string>{"loss", "epoch"}).ok());
      MUST(store_->AppendRunRows(stream.run, Rows(rows)).ok());
    }
    MUST(store_->EndStream(stream.id, model::StreamState::kFinished, 0, "", kStartUs).ok());
    MUST(store_->CloseRun(stream.run, state, 0, "", kStartUs + 5'000'000).ok());
    MUST(store_->Commit().ok());
  }

  static model::Batch Rows(uint64_t rows) {
    model::Batch batch;
    batch.last = rows - 1;
    model::Block& block = batch.blocks.emplace_back();
    block.shape = 1;
    for (uint64_t row = 0; row < rows; ++row) {
      block.offsets.push_back(static_cast<uint32_t>(row));
      block.steps.push_back(static_cast<int64_t>(row) * 10);
      block.times_us.push_back(kStartUs + static_cast<int64_t>(row) * 1000);
      block.values.push_back(static_cast<double>(row) + 0.5);
      block.values.push_back(static_cast<double>(row / 10));
    }
    if (rows > 7) block.texts.push_back({7, "note", std::string(3000, 'x')});  // too long
    return batch;
  }

  const std::string dir_;
  std::unique_ptr<storage::Store> store_;
  std::unique_ptr<storage::StoreReader> reader_;
  std::vector<int64_t> ids_;
};

// One answer of the input, or a restart of the daemon.
struct Answer {
  bool honest = false;
  bool acts = false;
  bool restart = false;
  absl::StatusOr<HttpResponse> response;
};

Answer ParseAnswer(absl::string_view text) {
  Answer answer;
  if (text == "!") {
    answer.restart = true;
    return answer;
  }
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('\n', 1));
  const std::vector<absl::string_view> head = absl::StrSplit(parts.first, ';');
  absl::string_view code = head[0];
  answer.honest = code == "=";
  answer.acts = absl::ConsumePrefix(&code, "+");
  HttpResponse response;
  if (!absl::SimpleAtoi(code, &response.code)) response.code = 200;
  response.body = std::string(parts.second);
  if (head.size() > 1) response.retry_after = deliver::ParseRetryAfter(head[1], absl::UnixEpoch());
  uint32_t seconds = 0;
  if (head.size() > 2 && absl::SimpleAtoi(head[2], &seconds)) {
    response.quota_after = absl::Seconds(seconds);
  }
  switch (response.code) {
    case 0:
      answer.response = absl::UnavailableError("the connection broke");
      break;
    case 1:
      answer.response = absl::DeadlineExceededError("no answer in time");
      break;
    case 2:
      answer.response = absl::FailedPreconditionError("an untrusted certificate");
      break;
    default:
      answer.response = std::move(response);
  }
  return answer;
}

// The request of one step, and whether the server accepted it.
struct Exchange {
  bool stream = false;
  bool accepted = false;
  int64_t offset = 0;
  std::vector<std::string> lines;
  bool complete = false;
};

class Tracker : public deliver::Transport {
 public:
  explicit Tracker(std::vector<Answer> answers) : answers_(std::move(answers)) {}

  absl::Time now = absl::UnixEpoch() + absl::Hours(1);  // of a steady clock
  std::vector<Exchange> exchanges;                      // of the current step
  int honest_answers = 0;                               // after the last one of the input

  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    const absl::StatusOr<deliver::Url> url = deliver::ParseUrl(request.url);
    MUST(url.ok() && url->scheme == "https" && url->netloc == "tracker.test");
    MUST(request.basic_password == kKey);
    Note(*url, request);
    absl::StatusOr<HttpResponse> answer = AnswerTo(*url, request);
    exchanges.back().accepted = deliver::Classify(answer) == deliver::Outcome::kAccepted &&
                                deliver::wandb::CheckAnswer(*answer).ok();
    return answer;
  }

  bool NextIsRestart() {
    if (next_ == answers_.size() || !answers_[next_].restart) return false;
    ++next_;
    return true;
  }

 private:
  void Note(const deliver::Url& url, const HttpRequest& request) {
    Exchange& exchange = exchanges.emplace_back();
    const auto body = nlohmann::json::parse(request.body, nullptr, /*allow_exceptions=*/false);
    MUST(body.is_object());
    if (url.path == "/graphql") return;
    MUST(absl::StartsWith(url.path, "/files/") && absl::EndsWith(url.path, "/file_stream"));
    exchange.stream = true;
    exchange.complete = body.contains("complete");
    if (!body.contains("files") || !body["files"].contains("wandb-history.jsonl")) return;
    const auto& chunk = body["files"]["wandb-history.jsonl"];
    exchange.offset = chunk["offset"].get<int64_t>();
    for (const auto& line : chunk["content"]) exchange.lines.push_back(line.get<std::string>());
  }

  absl::StatusOr<HttpResponse> AnswerTo(const deliver::Url& url, const HttpRequest& request) {
    if (next_ == answers_.size()) {
      ++honest_answers;
      return Honest(url, request);
    }
    const Answer& answer = answers_[next_++];
    if (answer.honest) return Honest(url, request);
    if (answer.acts) Honest(url, request).IgnoreError();
    if (answer.response.ok() && answer.response->body.size() > request.max_answer) {
      HttpResponse shortened = *answer.response;
      shortened.body.resize(request.max_answer);
      return shortened;
    }
    return answer.response;
  }

  absl::StatusOr<HttpResponse> Honest(const deliver::Url& url, const HttpRequest& request) {
    HttpResponse response;
    testing::WandbServer::Answer answer;
    const std::vector<std::string> parts = absl::StrSplit(url.path, '/');
    if (exchanges.back().stream) {  // /files/ENTITY/PROJECT/RUN/file_stream
      MUST(parts.size() == 6);
      KeepWord(parts[4]);
      answer = server_.FileStream(parts[2], parts[3], parts[4], request.body);
    } else {
      for (const auto& [run, heard] : heard_) {
        if (now - heard > kCrashed) server_.RunOf(run).silent = true;
      }
      answer = server_.Graphql(request.body);
    }
    response.code = answer.code;
    response.body =
        answer.body.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
    return response;
  }

  // An answer of the input may have claimed that the run exists and has lines. From now on, both
  // are true.
  void KeepWord(const std::string& run_id) {
    heard_[run_id] = now;
    testing::WandbServer::Run& run = server_.RunOf(run_id);
    const Exchange& exchange = exchanges.back();
    if (exchange.lines.empty()) return;
    const auto written = static_cast<int64_t>(run.history.size());
    run.existing_lines = std::max(run.existing_lines, exchange.offset - written);
  }

  const std::vector<Answer> answers_;
  size_t next_ = 0;
  std::map<std::string, absl::Time> heard_;  // by run
  testing::WandbServer server_{"https://storage.test"};
};

// A delivery, checked after each of its steps.
class Delivered {
 public:
  Delivered(const Runs& runs, int64_t run, Tracker* tracker)
      : runs_(runs),
        tracker_(*tracker),
        run_(runs.reader().GetRun(run).value()),
        credentials_(testing::WandbKey(kKey)),
        breakers_({.seed = 1}, [tracker] { return tracker->now; }) {
    stored_.run = run;
    stored_.kind = deliver::wandb::kKind;
    Restart();
  }

  // Steps until the delivery is complete, which must be soon after the server becomes honest.
  void Go() {
    int quiet = 0;
    while (!stored_.complete) {
      while (tracker_.NextIsRestart()) Restart();
      tracker_.exchanges.clear();
      const deliver::StepResult result =
          delivery_->Step(runs_.reader(), tracker_.now, /*draining=*/false);
      Check(result);
      quiet = tracker_.exchanges.empty() ? quiet + 1 : 0;
      MUST(quiet < kMaxQuietSteps);
      MUST(tracker_.honest_answers < kMaxHonestAnswers);
      stored_ = result.delivery;
      tracker_.now += std::max(result.wait, absl::Milliseconds(1));
    }
  }

 private:
  void Restart() {
    // The cursor is encoded and decoded, as by the store.
    stored_.cursor = storage::DecodeDocument(storage::EncodeDocument(stored_.cursor)).value();
    deliver::wandb::WandbDelivery::Options options;
    options.files = false;
    options.backoff.seed = 1;
    options.max_line_bytes = 2000;
    options.max_post_bytes = 1000;
    delivery_ = std::make_unique<deliver::wandb::WandbDelivery>(
        run_, stored_,
        deliver::DeliveryParts{
            .transport = &tracker_, .breakers = &breakers_, .credentials = &credentials_},
        options);
  }

  void Check(const deliver::StepResult& result) {
    const model::Delivery& now = result.delivery;
    MUST(result.wait >= absl::ZeroDuration());
    MUST(result.wait <= absl::Hours(2) || now.complete);
    MUST(tracker_.exchanges.size() <= 1);
    MUST(!absl::StrContains(now.last_error, kKey));
    for (const model::DeadLetter& letter : result.dead_letters) {
      MUST(!absl::StrContains(letter.answer, kKey));
      if (absl::StartsWith(letter.answer, deliver::wandb::kConfigLetter)) continue;
      if (absl::StartsWith(letter.answer, deliver::wandb::kSummaryLetter)) continue;
      MUST(dead_.insert(letter.row).second);
    }
    MUST(now.last_error.size() < 4096);
    MUST(now.refused_rows == dead_.size());
    MUST(now.delivered_rows >= stored_.delivered_rows && now.delivered_rows <= run_.rows);
    // A row that newly counts as delivered was in an accepted post. A dead letter was a bare line
    // there, any other row a line with its values.
    const uint64_t more = now.delivered_rows - stored_.delivered_rows;
    const Exchange exchange = tracker_.exchanges.empty() ? Exchange() : tracker_.exchanges[0];
    MUST(more == 0 || (exchange.stream && exchange.accepted && exchange.lines.size() == more));
    for (uint64_t i = 0; i < more; ++i) {
      const bool bare = !absl::StrContains(exchange.lines[i], "\"loss\":");
      MUST(bare == (dead_.count(stored_.delivered_rows + i) > 0));
    }
    if (!now.complete) return;
    MUST(now.delivered_rows == run_.rows);
    MUST((exchange.complete && exchange.accepted) || Continued(now));
  }

  static bool Continued(const model::Delivery& delivery) {
    return deliver::wandb::CursorFrom(delivery.cursor).continued;
  }

  const Runs& runs_;
  Tracker& tracker_;
  const model::Run run_;
  const deliver::CredentialStore credentials_;
  deliver::CircuitBreakers breakers_;
  model::Delivery stored_;
  std::set<uint64_t> dead_;  // rows
  std::unique_ptr<deliver::wandb::WandbDelivery> delivery_;
};

}  // namespace
}  // namespace ranklog::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ranklog::fuzz;
  static const Runs* const runs = new Runs;
  if (size == 0) return 0;
  std::vector<Answer> answers;
  absl::string_view text = Text(data + 1, size - 1);
  absl::ConsumePrefix(&text, "\n");
  for (const absl::string_view answer : absl::StrSplit(text, "\n%%\n")) {
    if (answers.size() == kMaxAnswers) break;
    answers.push_back(ParseAnswer(answer));
  }
  Tracker tracker(std::move(answers));
  Delivered(*runs, runs->Id(data[0]), &tracker).Go();
  return 0;
}
