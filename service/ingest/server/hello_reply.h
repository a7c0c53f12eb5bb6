// The messages to a stream once it is attached.

#ifndef SERVICE_INGEST_SERVER_HELLO_REPLY_H_
#define SERVICE_INGEST_SERVER_HELLO_REPLY_H_

#include <string>
#include <vector>

#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/ring/content_dir.h"
#include "service/model/run.h"

namespace ranklog::ingest {

// `destinations` are the resolved ones of the stream's session. `send_descriptor` asks the rank to
// pass its ring as a descriptor.
v1::HelloReply ReplyTo(const model::Stream& stream, const std::vector<std::string>& destinations,
                       const std::string& state_dir, const ContentDir* content,
                       bool send_descriptor);

// Reports how the daemon classified the start that the stream belongs to; `stream.notice` has it.
v1::Notice StartNotice(const model::Stream& stream);
// Reports the mistakes of a session.
v1::Notice SettingsNotice(const std::vector<std::string>& mistakes);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_SERVER_HELLO_REPLY_H_
