// The part of MlflowDelivery that uploads files: artifacts, files of the run, and the console. The
// server stores them at the run's artifact URI if it serves artifacts. Sending one twice is harmless.

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "service/base/status_macros.h"
#include "service/deliver/http/url.h"
#include "service/deliver/json/json_members.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/mlflow/format/names.h"
#include "service/deliver/mlflow/mlflow_delivery.h"

namespace ranklog::deliver::mlflow {
namespace {

constexpr size_t kLinesOfRead = 10000;
constexpr size_t kBytesOfConsole = 16 << 20;  // the last ones
constexpr char kServed[] = "mlflow-artifacts:/";

}  // namespace

// Nullopt: the server does not serve the run's files.
absl::optional<std::string> MlflowDelivery::ArtifactUrl(const std::string& path) const {
  absl::string_view root = cursor_.artifact_uri;
  if (!absl::ConsumePrefix(&root, kServed) || absl::StartsWith(root, "/")) return absl::nullopt;
  std::string url = absl::StrCat(server(), "/api/2.0/mlflow-artifacts/artifacts");
  for (absl::string_view part : absl::StrSplit(absl::StrCat(root, "/", path), '/')) {
    absl::StrAppend(&url, "/", PercentEncode(part));
  }
  return url;
}

// `done`: it is there, or was set apart.
absl::Duration MlflowDelivery::Put(HttpRequest request, const std::string& path, absl::Time now,
                                   bool* done) {
  *done = true;
  const auto set_apart = [&](absl::string_view why) {
    AddDeadLetter(0, absl::StrCat("file ", path, ": ", why), "");
    return absl::ZeroDuration();
  };
  const absl::optional<std::string> url = ArtifactUrl(path);
  if (!url) {
    return set_apart(absl::StrCat("the server keeps the run's files at ", cursor_.artifact_uri,
                                  ", which only a program with the keys of that store can write"));
  }
  request.method = "PUT";
  request.url = *url;
  request.headers = {{"Content-Type", "application/octet-stream"}};
  const absl::StatusOr<HttpResponse> answer = SendRequest(std::move(request), /*large=*/true);
  const Outcome outcome = Classify(answer);
  if (outcome == Outcome::kAccepted) {
    OnSuccess();
    delivery_.last_error.clear();
    return absl::ZeroDuration();
  }
  // A server without this service answers so for good.
  const bool unserved =
      answer.ok() && answer->code == 503 && absl::StrContains(answer->body, "serve-artifacts");
  const bool lost = absl::IsDataLoss(answer.status());
  const bool unauthorized =
      answer.ok() && (answer->code == HttpResponse::kUnauthorized || answer->code == 403);
  if (unserved || lost || (answer.ok() && outcome != Outcome::kLater && !unauthorized)) {
    return set_apart(Explain(answer));
  }
  *done = false;
  return NotAccepted(absl::StrCat("upload ", path), answer, now);
}

// The next file of the next upload.
MlflowDelivery::Wait MlflowDelivery::SendContent(absl::Time now) {
  if (content_.empty()) return absl::nullopt;
  const model::Item& item = content_.front().item;
  const model::Json& object = item.object;
  const model::Json& list = MemberOf(object, "entries");
  const bool is_file = item.kind == model::Item::Kind::kRunFile;
  const size_t entries = is_file ? 1 : list.is_array() ? list.size() : 0;
  while (content_entry_ < entries) {
    const model::Json& entry = is_file ? object : list[content_entry_];
    const std::string file = TextOf(entry, "file");
    if (file.empty()) {  // a reference
      ++content_entry_;
      continue;
    }
    std::string path = TextOf(entry, "path");
    if (!is_file) path = absl::StrCat("artifacts/", TextOf(object, "name"), "/", path);
    HttpRequest request;
    request.file = FileRange{.path = absl::StrCat(content_dir_, "/", file),
                             .bytes = static_cast<uint64_t>(IntegerOf(entry, "bytes"))};
    bool done = false;
    const absl::Duration wait = Put(std::move(request), path, now, &done);
    if (done) ++content_entry_;
    return wait;
  }
  if (!is_file) {
    model::Json about = object;
    for (const char* const own : {"id", "step"}) about.erase(own);
    const std::string used = TextOf(object, "use");
    if (used.empty()) {
      for (const char* const large : {"entries", "name"}) about.erase(large);
    }
    const std::string tag = used.empty() ? absl::StrCat("ranklog.artifact.", TextOf(object, "name"))
                                         : absl::StrCat("ranklog.used.", used);
    AddTags({{NameOf(tag), ToJsonText(about)}});
  }
  cursor_.content = content_.front().id;
  content_.pop_front();
  content_entry_ = 0;
  return absl::ZeroDuration();
}

absl::StatusOr<MlflowDelivery::Wait> MlflowDelivery::SendConsole(storage::StoreReader& reader,
                                                                 absl::Time now) {
  if (console_done_) return absl::nullopt;
  std::string text;
  for (uint64_t from = 0;;) {
    ASSIGN_OR_RETURN(const std::vector<model::StoredConsoleLine> lines,
                     reader.ConsoleLines(run_.id, run_.primary_rank, from, kLinesOfRead));
    for (const model::StoredConsoleLine& stored : lines) {
      absl::StrAppend(&text, stored.line.text, "\n");
    }
    if (text.size() > kBytesOfConsole) {
      text.erase(0, text.find('\n', text.size() - kBytesOfConsole) + 1);
    }
    if (lines.size() < kLinesOfRead) break;
    from = lines.back().line.number + 1;
  }
  const std::string digest = Digest(text);
  console_done_ = text.empty() || digest == cursor_.console;
  if (console_done_) return absl::nullopt;
  HttpRequest request;
  request.body = std::move(text);
  const absl::Duration wait = Put(std::move(request), "output.log", now, &console_done_);
  if (console_done_) cursor_.console = digest;
  return wait;
}

}  // namespace ranklog::deliver::mlflow
