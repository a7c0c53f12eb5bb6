// One artifact or file on its way to a W&B server: decides what is sent next, and reads the answers.
// Makes no exchange itself.

#ifndef SERVICE_DELIVER_WANDB_ARTIFACTS_CONTENT_UPLOAD_H_
#define SERVICE_DELIVER_WANDB_ARTIFACTS_CONTENT_UPLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/deliver/http/transport.h"
#include "service/model/item.h"

namespace ranklog::deliver::wandb {

// Not thread-safe.
class ContentUpload {
 public:
  struct Place {
    std::string entity;
    std::string project;
    std::string run_id;
    std::string staged;  // the directory of the staged files
    // From this size, a file is sent in parts of `part_bytes`.
    uint64_t multipart_bytes = 0;
    uint64_t part_bytes = 0;
    bool names_used_project = false;  // the server takes the project of a used artifact
  };
  // kRead: call Read(). kQuery: post Query(), then call OnAnswer(). kPut: send Put(), then call
  // OnPut(). kDone: the server has it.
  enum class Work { kRead, kQuery, kPut, kDone };
  // The store of files must move some bytes in this time.
  static constexpr absl::Duration kIdle = absl::Minutes(1);

  virtual ~ContentUpload() = default;
  virtual Work work() const = 0;
  // Reads some more of the staged files, about `bytes`.
  //   kDataLoss  a staged file is absent, or has another size than it had
  virtual absl::Status Read(size_t bytes) = 0;
  virtual std::string Query() const = 0;
  // `body` of an answer with code 200.
  //   kFailedPrecondition  the server reports errors
  //   kInternal            not the answer to this query
  virtual absl::Status OnAnswer(absl::string_view body) = 0;
  virtual HttpRequest Put() const = 0;
  // An accepted answer.
  virtual absl::Status OnPut(const HttpResponse& answer) = 0;
  // Begins anew with the server, after a failure. `refused`: the server did not want the last request,
  // for instance because an address has expired. What it has accepted is not sent again, unless it
  // refused what follows the files: then it may have lost some.
  virtual void Restart(bool refused) = 0;
  // What a restarted daemon needs so that it sends no file and no part again; null: nothing yet.
  virtual model::Json Progress() const { return nullptr; }
  // Before the first work. Ignores what is not its own.
  virtual void Continue(model::Json /*progress*/) {}
  // What the server has: whole files, and the bytes of those and of whole parts. Counted anew after
  // Restart().
  struct Sent {
    uint64_t files = 0;
    uint64_t bytes = 0;
  };
  virtual Sent sent() const = 0;
  // For messages: "artifact gpt".
  virtual std::string Name() const = 0;
};

// An item of kind kArtifact. What is sent is a function of the item and the answers, so a restarted
// daemon goes on with the same artifact at the server.
std::unique_ptr<ContentUpload> UploadArtifact(const model::Item& item, ContentUpload::Place place);
// An item of kind kArtifact with a member `use`.
std::unique_ptr<ContentUpload> UseArtifact(const model::Item& item, ContentUpload::Place place);
// An item of kind kRunFile.
std::unique_ptr<ContentUpload> UploadRunFile(const model::Item& item, ContentUpload::Place place);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_ARTIFACTS_CONTENT_UPLOAD_H_
