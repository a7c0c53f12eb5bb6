// What a tracker answers. Input: a byte that says which part of an answer it is, and its bytes.

#include <string>

#include "absl/strings/match.h"
#include "service/deliver/curl_transport.h"
#include "service/deliver/retry.h"
#include "service/deliver/url.h"
#include "service/deliver/wandb/base_url.h"
#include "service/deliver/wandb/graphql.h"
#include "tests/fuzz/fuzz.h"

namespace ranklog::fuzz {
namespace {

using namespace ::ranklog::deliver;

void Upsert(absl::string_view body) {
  const absl::StatusOr<wandb::Upserted> upserted = wandb::ParseUpserted(body);
  if (!upserted.ok()) {
    MUST(absl::IsFailedPrecondition(upserted.status()) || absl::IsInternal(upserted.status()));
    return;
  }
  MUST(!upserted->run_id.empty() && !upserted->entity.empty() && !upserted->project.empty());
  MUST(upserted->history_lines >= 0);
  // What a server names cannot lead its rows to another place.
  const std::string url = wandb::FileStreamUrl("https://tracker.test", upserted->entity,
                                               upserted->project, upserted->run_id);
  const absl::StatusOr<Url> parsed = ParseUrl(url);
  MUST(parsed.ok() && parsed->netloc == "tracker.test");
  MUST(absl::StartsWith(parsed->path, "/files/"));
}

void Standing(absl::string_view body) {
  const absl::StatusOr<wandb::Standing> standing = wandb::ParseStanding(body);
  if (!standing.ok()) return;
  MUST(!standing->storage_id.empty() && !standing->run_id.empty());
  MUST(standing->lines >= 0 && standing->lines <= int64_t{1} << 53);
}

void RetryAfter(absl::string_view value) {
  const absl::optional<absl::Duration> wait = ParseRetryAfter(value, absl::UnixEpoch());
  if (wait.has_value()) MUST(*wait >= absl::ZeroDuration());
  Backoff backoff({.seed = 1});
  const absl::Duration next = backoff.Next(Outcome::kLater, wait);
  MUST(next >= absl::ZeroDuration() && next <= absl::Hours(1));
}

void Explained(absl::string_view body) {
  HttpResponse response;
  response.code = 500;
  response.body = std::string(body);
  const std::string text = Explain(response);
  MUST(text.size() <= 520);
  for (const char c : text) MUST(static_cast<unsigned char>(c) >= ' ' && c != 0x7f);
}

void Urls(absl::string_view text) {
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
}

}  // namespace
}  // namespace ranklog::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ranklog;
  if (size == 0) return 0;
  const absl::string_view text = fuzz::Text(data + 1, size - 1);
  switch (data[0]) {
    case 'U':
      fuzz::Upsert(text);
      break;
    case 'F':
      deliver::wandb::ParseFeatures(text);
      break;
    case 'S':
      fuzz::Standing(text);
      break;
    case 'R':
      fuzz::RetryAfter(text);
      break;
    case 'E':
      fuzz::Explained(text);
      break;
    default:
      fuzz::Urls(text);
  }
  return 0;
}
