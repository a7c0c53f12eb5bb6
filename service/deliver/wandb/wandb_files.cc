// The part of WandbDelivery that uploads the run's files: facts of its program and node at the
// start, config and summary at the end. Sending a file twice is harmless. A file that is refused,
// or cannot be sent at the end, becomes a dead letter: it must not keep the run open.

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/wandb/documents/config_document.h"
#include "service/deliver/wandb/documents/yaml.h"
#include "service/deliver/wandb/wandb_delivery.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr int kTriesAtEnd = 5;  // of all files, with waits of 2 s to 16 s: half a minute
constexpr absl::Duration kFirstWait = absl::Seconds(2);
constexpr absl::Duration kLongestWait = absl::Minutes(1);  // while the run is live
constexpr double kBytesPerSecond = 1 << 20;                // a slow link

// What a Python program's requirements are for a program of shared libraries.
std::string Requirements(const model::Json& libraries) {
  std::string lines;
  for (const model::Json& library : libraries) {
    if (library.is_string()) absl::StrAppend(&lines, library.get<std::string>(), "\n");
  }
  return lines;
}

}  // namespace

void WandbDelivery::SetFacts(const model::Json& libraries) {
  facts_.clear();
  if (metadata_.is_object()) {
    facts_.emplace_back("wandb-metadata.json",
                        metadata_.dump(2, ' ', false, model::Json::error_handler_t::replace));
  }
  if (!libraries.empty()) facts_.emplace_back("requirements.txt", Requirements(libraries));
}

// `ending`: everything but the files and the end was delivered.
std::vector<WandbDelivery::RunFile> WandbDelivery::FilesToSend(bool ending) const {
  std::vector<RunFile> files;
  const auto add = [&](const RunFile& file) {
    const auto sent = cursor_.sent_files.find(file.name);
    if (sent == cursor_.sent_files.end() || sent->second != file.digest) files.push_back(file);
  };
  for (const RunFile& fact : facts_) add(fact);
  if (ending) {
    if (console_file_ && !console_file_->empty()) add({"output.log", *console_file_});
    add({"config.yaml",
         ToYaml(MergeConfig(config_document_, server_run_.config, cursor_.sent_config))});
    add({"wandb-summary.json", SummaryText(RefusedBefore(delivery_.delivered_rows))});
  }
  return files;
}

// Makes at most one exchange. Nullopt: there is nothing to do now.
absl::optional<absl::Duration> WandbDelivery::SendFiles(bool ending, absl::Time now) {
  const std::vector<RunFile> files = FilesToSend(ending);
  if (files.empty()) return absl::nullopt;
  if (now < files_not_before_) {
    if (!ending) return absl::nullopt;
    return files_not_before_ - now;
  }
  // While the store does not answer, one run at a time tries it. The others count that as a
  // failure of their own, so that their ends do not wait for their turn.
  CircuitBreaker* const store = breakers_of_all_->Of(absl::StrCat("files of ", server()));
  if (store->Enter() > absl::ZeroDuration()) return FilesFailed(files, store->why(), ending, now);
  const absl::Cleanup leave = [store] { store->Leave(); };
  if (upload_urls_.urls.count(files.front().name) == 0) return AskForUploads(files, ending, now);
  return Upload(files, store, ending, now);
}

absl::Duration WandbDelivery::AskForUploads(const std::vector<RunFile>& files, bool ending,
                                            absl::Time now) {
  std::vector<std::string> names;
  for (const RunFile& file : files) names.push_back(file.name);
  const absl::StatusOr<HttpResponse> answer = Post(
      Endpoint::kGraphql, RunFilesBody(cursor_.entity, cursor_.project, cursor_.run_id, names));
  const Outcome outcome = Classify(answer);
  if (ConcernsServer(answer)) {
    return Failed(outcome, "ask where to upload the run's files", answer, now);
  }
  OnSuccess();
  absl::StatusOr<UploadUrls> urls = outcome == Outcome::kAccepted
                                        ? ParseRunFiles(answer->body)
                                        : absl::UnknownError(Explain(answer));
  if (!urls.ok()) return FilesFailed(files, std::string(urls.status().message()), ending, now);
  upload_urls_ = *std::move(urls);
  for (const RunFile& file : files) upload_urls_.urls.try_emplace(file.name);
  return absl::ZeroDuration();
}

// Sends the first one.
absl::Duration WandbDelivery::Upload(const std::vector<RunFile>& files, CircuitBreaker* store,
                                     bool ending, absl::Time now) {
  const RunFile& file = files.front();
  HttpRequest request;
  request.method = "PUT";
  request.url = upload_urls_.urls[file.name];
  if (request.url.empty()) {
    FileRefused(file, "the server gives no address for it");
    return absl::ZeroDuration();
  }
  request.headers = upload_urls_.headers;
  request.body = file.content;
  request.timeout = options_.upload_timeout +
                    absl::Seconds(1) * static_cast<double>(file.content.size()) / kBytesPerSecond;
  const absl::StatusOr<HttpResponse> answer = SendOutside(std::move(request));
  if (absl::IsCancelled(answer.status())) return kFirstWait;  // by our own Stop()
  const Outcome outcome = Classify(answer);
  if (outcome == Outcome::kLater) {
    const std::string why = Explain(answer);
    store->Failed(absl::nullopt, why);
    return FilesFailed(files, why, ending, now);
  }
  store->Answered();
  upload_urls_.urls.erase(file.name);  // a later content gets a fresh one
  if (outcome == Outcome::kAccepted) {
    cursor_.sent_files[file.name] = file.digest;
    cursor_.unannounced_files.push_back(file.name);
    file_failures_ = 0;
  } else {
    FileRefused(file, Explain(answer));
  }
  return absl::ZeroDuration();
}

absl::Duration WandbDelivery::FilesFailed(const std::vector<RunFile>& files, const std::string& why,
                                          bool ending, absl::Time now) {
  upload_urls_ = {};  // they may have expired
  const int failures = ending ? ++failures_at_end_ : ++file_failures_;
  if (failures_at_end_ >= kTriesAtEnd) {
    for (const RunFile& file : files) FileRefused(file, why);
  } else {
    files_not_before_ =
        now + std::min(kFirstWait * (1 << std::min(failures - 1, 10)), kLongestWait);
  }
  return absl::ZeroDuration();
}

void WandbDelivery::FileRefused(const RunFile& file, const std::string& why) {
  AddDeadLetter(0, absl::StrCat(kFileLetter, file.name, ": ", why), file.content);
  cursor_.sent_files[file.name] = file.digest;
}

}  // namespace ranklog::deliver::wandb
