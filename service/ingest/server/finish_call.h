// The work of Finish, independent of the call that carries it.

#ifndef SERVICE_INGEST_SERVER_FINISH_CALL_H_
#define SERVICE_INGEST_SERVER_FINISH_CALL_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/ingest_context.h"

namespace ranklog::ingest {

// Called once: after the commit, on the store loop's thread; or at once, with the error.
using Answer = absl::AnyInvocable<void(absl::Status)>;

// `context` must outlive the store loop's writes. The errors are those of IngestService.
void Finish(const IngestContext* context, const v1::FinishRequest& request, Answer answer);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_SERVER_FINISH_CALL_H_
