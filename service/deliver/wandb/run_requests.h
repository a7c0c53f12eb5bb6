// The requests of one run to its server, with the keys of its job.

#ifndef SERVICE_DELIVER_WANDB_RUN_REQUESTS_H_
#define SERVICE_DELIVER_WANDB_RUN_REQUESTS_H_

#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/deliver/credentials.h"
#include "service/deliver/run_delivery.h"
#include "service/deliver/transport.h"

namespace ranklog::deliver::wandb {

// A key that the server refused is not used again while its job has another one.
//
// Not thread-safe.
class RunRequests {
 public:
  struct Options {
    absl::Duration graphql_timeout;
    absl::Duration stream_timeout;
    std::string user_agent;  // empty: ranklog/VERSION
    std::string username;    // unless the job's variables name another one
    std::string user_email;
  };

  // Both must outlive this object. `address` of the server may be wrong: then Post() fails.
  RunRequests(Transport* transport, const CredentialStore* credentials, std::string address,
              std::string project, Options options);

  // The run's server has another address from now on.
  void SetAddress(absl::string_view address);
  // The job whose keys are used.
  void SetJob(std::string job) { job_ = std::move(job); }
  bool has_job() const { return !job_.empty(); }
  // Whether a rank of the job has sent its keys.
  bool JobHasAttached() const { return credentials_->HasAttached(job_); }

  // A request to the GraphQL endpoint or, with `stream`, to the file stream of that run.
  struct RunAtServer {
    std::string entity;
    std::string project;
    std::string run_id;
  };
  struct Request {
    std::string body;
    size_t max_answer = HttpRequest().max_answer;
    absl::optional<RunAtServer> stream = absl::nullopt;
    bool gzip = false;  // compress the body
  };

  // Makes at most one exchange. The key is masked in the answer.
  //   kFailedPrecondition  there is no key, or the address is wrong; nothing was sent
  //   kUnavailable         also if a program other than the server answered
  //   others               those of Transport::Post()
  absl::StatusOr<HttpResponse> Post(Request request);

  // Whether the last key was refused, or there was no key.
  bool awaits_key() const { return awaits_key_; }
  bool HasKey() const;
  // While it awaits a key: whether there is a key that the server has not refused.
  bool HasNewKey() const;
  // Whether the last key was refused and another one can be tried at once. Only once per refusal.
  bool TakeOtherKey();

  // The exchange since the last call.
  StepResult::Exchange TakeExchange();

 private:
  absl::StatusOr<Credential> FindKey(const std::set<Credential>& refused) const;

  Transport* const transport_;
  const CredentialStore* const credentials_;
  absl::StatusOr<std::string> server_;
  const std::string project_;
  const Options options_;
  std::string job_;
  std::set<Credential> refused_keys_;
  bool other_key_ = false;   // another key can be tried at once
  bool awaits_key_ = false;  // the last key was refused, or there was no key
  StepResult::Exchange exchange_ = StepResult::Exchange::kNone;
};

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_RUN_REQUESTS_H_
