// Makes the messages by which a daemon sends its ranks' streams to the daemon of rank 0's node.

#ifndef SERVICE_PEER_PUSH_CONVERT_H_
#define SERVICE_PEER_PUSH_CONVERT_H_

#include "ranklog/v1/ranklog.pb.h"
#include "service/model/batch.h"
#include "service/model/run.h"

namespace ranklog::peer {

v1::StreamId ToMessage(const model::StreamKey& key);
// What ingest::ToSession() needs for the attach of a stream of another node.
v1::Hello ToHello(const model::Run& run, const model::Stream& stream);
// Without the texts: only numbers have statistics over ranks.
v1::Batch ToMessage(const model::Batch& batch);
v1::StreamEnd EndOf(const model::Stream& stream);
v1::Losses ToMessage(const model::Losses& losses);

}  // namespace ranklog::peer

#endif  // SERVICE_PEER_PUSH_CONVERT_H_
