// Advice for messages: how a person can unblock a delivery that waits.

#ifndef SERVICE_DELIVER_WANDB_ADVICE_H_
#define SERVICE_DELIVER_WANDB_ADVICE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/deliver/transport.h"

namespace ranklog::deliver::wandb {

// Corrects a wrong address. RUN stands for the run.
inline constexpr char kCorrectAddress[] = "run: ranklog sync RUN --base-url URL";

// The command that stores a key for the server: "`ranklog login --base-url URL`". The public server
// needs no URL.
std::string LoginCommand(absl::string_view base_url);

// `no_key` of CredentialStore::Find(), with this command if it is kNotFound.
absl::Status WithLoginCommand(const absl::Status& no_key, absl::string_view base_url);

// About a failure that is Outcome::kBlocked. `created`: the run exists at the server.
std::string Advice(const absl::StatusOr<HttpResponse>& answer, absl::string_view base_url,
                   bool created);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_ADVICE_H_
