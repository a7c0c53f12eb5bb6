// The part of WandbDelivery that uploads the run's files: facts of its program and node at the
// start, config and summary at the end. Sending a file twice is harmless. After some failures a
// file becomes a dead letter: it must not keep the run open.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/json_writer.h"
#include "service/deliver/wandb/config_document.h"
#include "service/deliver/wandb/wandb_delivery.h"
#include "service/deliver/wandb/yaml.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr int kTries = 5;  // with waits of 2 s to 16 s: half a minute
constexpr absl::Duration kFirstWait = absl::Seconds(2);

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
  std::vector<RunFile> files = facts_;
  if (ending) {
    files.emplace_back("config.yaml", ToYaml(MergeConfig(config_document_, server_run_.config,
                                                         cursor_.sent_config)));
    files.emplace_back("wandb-summary.json", SummaryText(RefusedBefore(delivery_.delivered_rows)));
  }
  const auto is_sent = [this](const RunFile& file) {
    const auto sent = cursor_.sent_files.find(file.name);
    return sent != cursor_.sent_files.end() && sent->second == file.digest;
  };
  files.erase(std::remove_if(files.begin(), files.end(), is_sent), files.end());
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
  if (upload_urls_.urls.count(files.front().name) == 0) {
    std::vector<std::string> names;
    for (const RunFile& file : files) names.push_back(file.name);
    const absl::StatusOr<HttpResponse> answer = Post(
        Endpoint::kGraphql, RunFilesBody(cursor_.entity, cursor_.project, cursor_.run_id, names));
    const Outcome outcome = Classify(answer);
    if (outcome == Outcome::kLater || outcome == Outcome::kBlocked) {
      return Failed(outcome, "ask where to upload the run's files", answer, now);
    }
    absl::StatusOr<UploadUrls> urls = outcome == Outcome::kAccepted
                                          ? ParseRunFiles(answer->body)
                                          : absl::UnknownError(Explain(answer));
    OnSuccess();
    if (urls.ok()) {
      upload_urls_ = *std::move(urls);
      for (const RunFile& file : files) upload_urls_.urls.try_emplace(file.name);
    } else {
      for (const RunFile& file : files) FileRefused(file, std::string(urls.status().message()));
    }
    return absl::ZeroDuration();
  }
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
  request.timeout = options_.stream_timeout;
  const absl::StatusOr<HttpResponse> answer = SendOutside(std::move(request));
  if (absl::IsCancelled(answer.status())) return kFirstWait;  // by our own Stop()
  if (Classify(answer) == Outcome::kAccepted) {
    cursor_.sent_files[file.name] = file.digest;
    cursor_.unannounced_files.push_back(file.name);
    upload_urls_.urls.erase(file.name);  // a later content gets a fresh one
    file_failures_ = 0;
    return absl::ZeroDuration();
  }
  upload_urls_ = {};  // they may have expired
  if (++file_failures_ >= kTries) {
    FileRefused(file, Explain(answer));
    return absl::ZeroDuration();
  }
  files_not_before_ = now + kFirstWait * (1 << (file_failures_ - 1));
  return absl::ZeroDuration();
}

void WandbDelivery::FileRefused(const RunFile& file, const std::string& why) {
  AddDeadLetter(0, absl::StrCat(kFileLetter, file.name, ": ", why), file.content);
  cursor_.sent_files[file.name] = file.digest;
  file_failures_ = 0;
}

}  // namespace ranklog::deliver::wandb
