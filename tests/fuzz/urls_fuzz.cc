// Parses addresses of trackers, which come from a user's settings. Input: the address.

#include <string>

#include "absl/strings/match.h"
#include "service/deliver/http/url.h"
#include "service/deliver/wandb/api/base_url.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ranklog::deliver;
  const absl::string_view text = ranklog::fuzz::Text(data, size);
  if (const absl::StatusOr<Url> url = ParseUrl(text); url.ok()) {
    MUST(url->scheme == "http" || url->scheme == "https");
    MUST(!url->host().empty());
    const absl::StatusOr<Url> again = ParseUrl(url->scheme + "://" + url->netloc + url->path);
    MUST(again.ok() && again->netloc == url->netloc && again->path == url->path);
  }
  if (const absl::StatusOr<std::string> base = wandb::CheckBaseUrl(text); base.ok()) {
    MUST(!absl::EndsWith(*base, "/"));
    MUST(ParseUrl(wandb::GraphqlUrl(*base)).ok());
  }
  return 0;
}
