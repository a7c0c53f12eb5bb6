#include "service/deliver/wandb/documents/document_diff.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/deliver/wandb/api/server_json.h"

namespace ranklog::deliver::wandb {
namespace {

using nlohmann::json;

// The members that the delivery or the server makes.
constexpr absl::string_view kNotCompared[] = {"_step", "_timestamp", "_runtime", "_wandb"};

// The keys to compare; empty if the document is not an object.
json Members(absl::string_view text, const DocumentOptions& options) {
  const json document = ParseServerJson(text);
  json members = json::object();
  if (!document.is_object()) return members;
  for (const auto& [key, value] : document.items()) {
    const bool own = std::count(std::begin(kNotCompared), std::end(kNotCompared), key) > 0;
    if (own || options.free.count(key) != 0) continue;
    const bool unwrap = options.wrapped && value.is_object() && value.contains("value");
    members[key] = unwrap ? value["value"] : value;
  }
  return members;
}

void Tell(std::string problem, uint64_t* count, DocumentDiff* diff) {
  ++*count;
  if (diff->problems.size() < DocumentDiff::kKept) diff->problems.push_back(std::move(problem));
}

}  // namespace

DocumentDiff CompareDocuments(absl::string_view want, absl::string_view got,
                              const DocumentOptions& options) {
  DocumentDiff diff;
  diff.compared = true;
  const json sent = Members(want, options);
  const json found = Members(got, options);
  for (const auto& [key, value] : sent.items()) {
    const auto actual = found.find(key);
    if (actual == found.end()) {
      Tell(absl::StrCat(ShownValue(key), " is missing"), &diff.missing, &diff);
    } else if (!SameValue(*actual, value)) {
      Tell(absl::StrCat(ShownValue(key), " is ", ShownValue(*actual), ", not ", ShownValue(value)),
           &diff.differing, &diff);
    } else {
      ++diff.matching;
    }
  }
  if (options.shared) return diff;
  for (const auto& [key, value] : found.items()) {
    if (sent.contains(key) || key.rfind('_', 0) == 0) continue;
    Tell(absl::StrCat(ShownValue(key), " is ", ShownValue(value), ", but was not sent"),
         &diff.unexpected, &diff);
  }
  return diff;
}

}  // namespace ranklog::deliver::wandb
