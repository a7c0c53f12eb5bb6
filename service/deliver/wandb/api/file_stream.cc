#include "service/deliver/wandb/api/file_stream.h"

#include "absl/strings/str_cat.h"
#include "service/deliver/json/json_writer.h"

namespace ranklog::deliver::wandb {
namespace {

void AppendStrings(const std::vector<std::string>& texts, std::string* out) {
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) *out += ',';
    AppendString(texts[i], out);
  }
}

}  // namespace

std::string StreamBody(const StreamPost& post) {
  std::string body;
  body.reserve(post.history.size() + (post.summary.has_value() ? 2 * post.summary->size() : 0) +
               256);
  // Starts a member of the object that is written now.
  const auto begin = [&body](absl::string_view key) {
    if (body.back() != '{') body += ',';
    absl::StrAppend(&body, "\"", key, "\":");
  };
  const auto begin_file = [&](absl::string_view name, int64_t offset) {
    begin(name);
    absl::StrAppend(&body, "{\"offset\":", offset, ",\"content\":[");
  };
  body += '{';
  if (!post.history.empty() || !post.events.empty() || !post.console.empty() ||
      post.summary.has_value()) {
    begin("files");
    body += '{';
    if (!post.history.empty()) {
      begin_file("wandb-history.jsonl", post.history_offset);
      absl::StrAppend(&body, post.history, "]}");
    }
    if (!post.events.empty()) {
      begin_file("wandb-events.jsonl", post.events_offset);
      AppendStrings(post.events, &body);
      body += "]}";
    }
    if (!post.console.empty()) {
      begin_file("output.log", post.console_offset);
      AppendStrings(post.console, &body);
      body += "]}";
    }
    if (post.summary.has_value()) {
      begin_file("wandb-summary.json", 0);
      AppendString(*post.summary, &body);
      body += "]}";
    }
    body += '}';
  }
  if (!post.uploaded.empty()) {
    begin("uploaded");
    body += '[';
    AppendStrings(post.uploaded, &body);
    body += ']';
  }
  if (post.preempting) {
    begin("preempting");
    body += "true";
  }
  if (post.exit_code.has_value()) {
    begin("complete");
    absl::StrAppend(&body, "true,\"exitcode\":", *post.exit_code);
  }
  body += '}';
  return body;
}

}  // namespace ranklog::deliver::wandb
