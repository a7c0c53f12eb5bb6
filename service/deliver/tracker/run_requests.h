// The requests of one run to its server, with the keys of its job.

#ifndef SERVICE_DELIVER_TRACKER_RUN_REQUESTS_H_
#define SERVICE_DELIVER_TRACKER_RUN_REQUESTS_H_

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/deliver/credentials.h"
#include "service/deliver/destination.h"
#include "service/deliver/http/transport.h"
#include "service/deliver/run_delivery.h"

namespace ranklog::deliver {

// A key that the server refused is not used again while its job has another one.
//
// Not thread-safe.
class RunRequests {
 public:
  // All must outlive this object. `address` of the server may be wrong: then Send() fails.
  RunRequests(const Destination& destination, Transport* transport,
              const CredentialStore* credentials, absl::string_view address, std::string project);

  // The run's server has another address from now on.
  void SetAddress(absl::string_view address) { server_ = destination_.CheckUrl(address); }
  // Empty: the address is wrong.
  std::string server() const { return server_.value_or(""); }
  // The job whose keys are used.
  void SetJob(std::string job) { job_ = std::move(job); }
  bool has_job() const { return !job_.empty(); }
  // Whether a rank of the job has sent its keys.
  bool JobHasAttached() const { return credentials_->HasAttached(job_); }
  // A variable of the job; `own` if no rank of the job has sent its variables.
  std::string Variable(const std::string& name, const std::string& own) const;

  // Adds the key and the variables of the job, and makes at most one exchange. The key is masked in
  // the answer.
  //   kFailedPrecondition  there is no key, or the address is wrong; nothing was sent
  //   others               those of Transport::Send()
  absl::StatusOr<HttpResponse> Send(HttpRequest request);

  // The same for a server that the run's server named, such as a store of files. The request has no
  // key, and is not known as an exchange with the run's server.
  absl::StatusOr<HttpResponse> SendOutside(HttpRequest request);

  // The same, piece by piece.
  std::unique_ptr<Exchange> BeginOutside(HttpRequest request);

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

  const Destination& destination_;
  Transport* const transport_;
  const CredentialStore* const credentials_;
  absl::StatusOr<std::string> server_;
  const std::string project_;
  std::string job_;
  std::set<Credential> refused_keys_;
  bool other_key_ = false;   // another key can be tried at once
  bool awaits_key_ = false;  // the last key was refused, or there was no key
  StepResult::Exchange exchange_ = StepResult::Exchange::kNone;
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_TRACKER_RUN_REQUESTS_H_
