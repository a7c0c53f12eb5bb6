#include "service/deliver/http/retry.h"

#include <algorithm>

#include "absl/random/random.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/base/text/utf8.h"

namespace ranklog::deliver {

Outcome Classify(const absl::StatusOr<HttpResponse>& answer) {
  if (!answer.ok()) {
    const bool person =
        absl::IsFailedPrecondition(answer.status()) || absl::IsDataLoss(answer.status());
    return person ? Outcome::kBlocked : Outcome::kLater;
  }
  const int code = answer->code;
  if (code >= 200 && code <= 300) return Outcome::kAccepted;
  if (code > 300 && code < 400) return Outcome::kBlocked;
  switch (code) {
    case 400:
    case 422:
      return Outcome::kRefused;
    case 413:
      return Outcome::kTooLarge;
    case 401:
    case 403:
    case 404:
    case 409:
    case 410:
    case 501:
      return Outcome::kBlocked;
    default:
      return Outcome::kLater;
  }
}

bool IsRefusal(Outcome outcome) {
  return outcome == Outcome::kRefused || outcome == Outcome::kTooLarge;
}

Outcome OfQuestion(Outcome outcome) { return IsRefusal(outcome) ? Outcome::kBlocked : outcome; }

std::string Excerpt(absl::string_view text) {
  constexpr size_t kShown = 500;
  std::string shown = ToUtf8(text.substr(0, kShown + 3));  // so that the last character is complete
  shown = std::string(CutUtf8(shown, kShown));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  }
  // Only our own advice may look like it.
  absl::StrReplaceAll({{kToContinue, ", to continue, "}}, &shown);
  absl::StripAsciiWhitespace(&shown);
  return shown;
}

namespace {

// The title of a web page; empty if there is no title.
std::string TitleOf(absl::string_view page) {
  const std::string lower = absl::AsciiStrToLower(page);
  const size_t begin = lower.find("<title>");
  const size_t end = lower.find("</title>");
  constexpr size_t kTag = 7;
  if (begin == std::string::npos || end == std::string::npos || end < begin + kTag) return "";
  return Excerpt(page.substr(begin + kTag, end - begin - kTag));
}

}  // namespace

std::string Explain(const absl::StatusOr<HttpResponse>& answer) {
  if (!answer.ok()) return std::string(answer.status().message());
  if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(answer->body), "<")) {
    const std::string title = TitleOf(answer->body);
    return absl::StrCat("HTTP ", answer->code, " with a web page", title.empty() ? "" : ", \"",
                        title, title.empty() ? "" : "\"",
                        ": the answer is from a proxy or from another server");
  }
  const std::string text = Excerpt(answer->body);
  if (text.empty() && Classify(answer) == Outcome::kAccepted) {
    return absl::StrCat("HTTP ", answer->code, " with an empty body");
  }
  return absl::StrCat("HTTP ", answer->code, text.empty() ? "" : ": ", text);
}

bool AwaitsPerson(absl::string_view error) { return absl::StrContains(error, kToContinue); }

Backoff::Backoff(const Options& options)
    : options_(options),
      random_(static_cast<std::minstd_rand::result_type>(
          options.seed != 0 ? options.seed : absl::Uniform<uint32_t>(absl::InsecureBitGen()))) {}

absl::Duration Backoff::Next(Outcome outcome, absl::optional<absl::Duration> retry_after) {
  const int failure = failures_++;
  // A wait of zero would make us retry without a pause for as long as the server sends it.
  if (retry_after > absl::ZeroDuration()) return std::min(*retry_after, options_.max_retry_after);
  if (outcome == Outcome::kBlocked) return options_.blocked;
  constexpr int kDoublings = 16;  // more than any sensible max / min
  const absl::Duration wait = options_.min * (int64_t{1} << std::min(failure, kDoublings)) *
                              absl::Uniform(random_, 1.0, 1.25);
  return std::min(wait, options_.max);
}

}  // namespace ranklog::deliver
