#include "service/deliver/wandb/file_stream.h"

#include "absl/strings/str_cat.h"
#include "service/deliver/json_writer.h"

namespace ranklog::deliver::wandb {

std::string StreamBody(const StreamPost& post) {
  std::string body;
  body.reserve(post.history.size() + (post.summary.has_value() ? 2 * post.summary->size() : 0) +
               256);
  body += '{';
  if (!post.history.empty() || post.summary.has_value()) {
    body += "\"files\":{";
    if (!post.history.empty()) {
      absl::StrAppend(&body, "\"wandb-history.jsonl\":{\"offset\":", post.history_offset,
                      ",\"content\":[", post.history, "]}");
    }
    if (post.summary.has_value()) {
      absl::StrAppend(&body, post.history.empty() ? "" : ",",
                      "\"wandb-summary.json\":{\"offset\":0,\"content\":[");
      AppendString(*post.summary, &body);
      body += "]}";
    }
    body += '}';
  }
  if (post.exit_code.has_value()) {
    absl::StrAppend(&body, body.size() > 1 ? "," : "",
                    "\"complete\":true,\"exitcode\":", *post.exit_code);
  }
  body += '}';
  return body;
}

}  // namespace ranklog::deliver::wandb
