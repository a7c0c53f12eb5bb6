#ifndef TESTS_SUPPORT_WANDB_ACCOUNT_H_
#define TESTS_SUPPORT_WANDB_ACCOUNT_H_

#include <string>

#include "service/deliver/wandb/wandb_destination.h"

namespace ranklog::testing {

inline deliver::Account WandbAccount(const std::string& server, const std::string& project = "p") {
  return {.destination = deliver::wandb::Wandb(), .server = server, .project = project};
}

// Credentials with this key in the environment.
inline deliver::CredentialStore::Options WandbKey(const std::string& key) {
  deliver::CredentialStore::Options options;
  options.environment["wandb"] = {.secret = key};
  return options;
}

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_WANDB_ACCOUNT_H_
