// Parses a netrc file, and checks the key in it. Input: the file.

#include <string>

#include "absl/strings/str_cat.h"
#include "service/deliver/credentials.h"
#include "service/deliver/netrc.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ranklog;
  const absl::string_view text = fuzz::Text(data, size);
  const auto found = deliver::NetrcPassword(text, "api.test");
  if (found.has_value()) {
    MUST(found->size() <= text.size());
    // The error for an invalid key contains no part of it: all invalid keys get the same error.
    const absl::Status status = deliver::CheckWandbKey(*found);
    MUST(status.ok() || status == deliver::CheckWandbKey(found->empty() ? "" : " "));
  }
  // The first entry of a machine counts, whatever follows.
  const std::string with = absl::StrCat("machine api.test login l password KEY\n", text);
  MUST(deliver::NetrcPassword(with, "api.test") == std::string("KEY"));
  return 0;
}
