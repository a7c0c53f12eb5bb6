// Parses a netrc file, and checks the key in it. Input: the file.

#include <string>

#include "absl/strings/str_cat.h"
#include "service/deliver/http/machine/netrc.h"
#include "service/deliver/wandb/wandb_destination.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ranklog;
  const absl::string_view text = fuzz::Text(data, size);
  const auto found = deliver::NetrcEntryOf(text, "api.test");
  if (found.has_value()) {
    MUST(found->login.size() + found->password.size() <= text.size());
    // The error for an invalid key contains no part of it: all invalid keys get the same error.
    const deliver::Destination& wandb = deliver::wandb::Wandb();
    const absl::Status status = wandb.CheckCredential(wandb.CredentialOfLogin(*found));
    MUST(status.ok() || status == wandb.CheckCredential({.secret = " "}));
  }
  // The first entry of a machine and a project counts, whatever follows.
  const std::string with = absl::StrCat("machine api.test account p login l password KEY\n", text);
  MUST(deliver::NetrcEntryOf(with, "api.test", "p")->password == "KEY");
  return 0;
}
