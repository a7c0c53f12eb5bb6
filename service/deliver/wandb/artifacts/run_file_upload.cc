#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/json/json_members.h"
#include "service/deliver/wandb/api/run_files.h"
#include "service/deliver/wandb/artifacts/content_upload.h"
#include "service/deliver/wandb/artifacts/staged_file.h"

namespace ranklog::deliver::wandb {
namespace {

using model::Json;

class RunFileUpload : public ContentUpload {
 public:
  RunFileUpload(const Json& file, Place place)
      : path_(TextOf(file, "path")),
        staged_(TextOf(file, "file")),
        bytes_(static_cast<uint64_t>(std::max<int64_t>(IntegerOf(file, "bytes"), 0))),
        place_(std::move(place)) {}

  Work work() const override {
    if (is_done_) return Work::kDone;
    if (!is_found_) return Work::kRead;
    return url_.empty() ? Work::kQuery : Work::kPut;
  }
  absl::Status Read(size_t /*bytes*/) override {
    StagedFile file;
    RETURN_IF_ERROR(file.Open(place_.staged, staged_, bytes_, /*part_bytes=*/0));
    is_found_ = true;
    return absl::OkStatus();
  }
  std::string Query() const override {
    return RunFilesBody(place_.entity, place_.project, place_.run_id, {path_});
  }
  absl::Status OnAnswer(absl::string_view body) override {
    ASSIGN_OR_RETURN(UploadUrls uploads, ParseRunFiles(body));
    url_ = uploads.urls[path_];
    headers_ = std::move(uploads.headers);
    return url_.empty() ? absl::FailedPreconditionError("the server gives no address for it")
                        : absl::OkStatus();
  }
  HttpRequest Put() const override {
    HttpRequest request;
    request.method = "PUT";
    request.url = url_;
    request.headers = headers_;
    request.timeout = kIdle;
    request.file = FileRange{absl::StrCat(place_.staged, "/", staged_), 0, bytes_};
    return request;
  }
  absl::Status OnPut(const HttpResponse& /*answer*/) override {
    is_done_ = true;
    return absl::OkStatus();
  }
  void Restart(bool /*refused*/) override { url_.clear(); }
  Sent sent() const override { return {}; }
  std::string Name() const override { return absl::StrCat("file ", path_); }

 private:
  const std::string path_;
  const std::string staged_;
  const uint64_t bytes_;
  const Place place_;
  bool is_found_ = false;
  bool is_done_ = false;
  std::string url_;
  std::vector<std::pair<std::string, std::string>> headers_;
};

}  // namespace

std::unique_ptr<ContentUpload> UploadRunFile(const model::Item& item, ContentUpload::Place place) {
  return std::make_unique<RunFileUpload>(item.object, std::move(place));
}

}  // namespace ranklog::deliver::wandb
