#include "service/ingest/server/hello_reply.h"

#include "absl/strings/str_join.h"
#include "service/base/text/utf8.h"

namespace ranklog::ingest {

v1::HelloReply ReplyTo(const model::Stream& stream, const std::vector<std::string>& destinations,
                       const std::string& state_dir, const ContentDir* content,
                       bool send_descriptor) {
  v1::HelloReply reply;
  reply.set_durable_seq(stream.durable_seq);
  reply.set_durable_item(stream.durable_item);
  reply.set_send_descriptor(send_descriptor);
  reply.set_daemon_version(RANKLOG_VERSION);
  reply.set_run_id(stream.run_id);
  reply.set_state_dir(ToUtf8(state_dir));
  if (content != nullptr) *reply.mutable_content() = content->Place();
  if (stream.refused) {
    reply.add_destinations("local");
  } else {
    reply.mutable_destinations()->Assign(destinations.begin(), destinations.end());
  }
  return reply;
}

v1::Notice SettingsNotice(const std::vector<std::string>& mistakes) {
  v1::Notice notice;
  notice.set_key("settings");
  notice.set_severity(v1::Notice::WARNING);
  notice.set_text(ToUtf8(absl::StrJoin(mistakes, "; ")));
  return notice;
}

v1::Notice StartNotice(const model::Stream& stream) {
  v1::Notice notice;
  notice.set_key("start");
  notice.set_severity(stream.warns ? v1::Notice::WARNING : v1::Notice::INFO);
  notice.set_text(ToUtf8(stream.notice));
  return notice;
}

}  // namespace ranklog::ingest
