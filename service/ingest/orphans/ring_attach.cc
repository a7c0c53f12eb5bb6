#include "service/ingest/orphans/ring_attach.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_replace.h"
#include "service/base/status_macros.h"
#include "service/ingest/ring/convert.h"

namespace ranklog::ingest {

absl::StatusOr<model::Session> SessionOf(const SpoolReader& ring) {
  v1::Hello hello;
  if (!hello.ParseFromString(ring.hello())) {
    return absl::DataLossError("its Hello is unreadable");
  }
  ASSIGN_OR_RETURN(model::Session session, ToSession(hello));
  if (session.stream.incarnation != ring.incarnation()) {
    return absl::DataLossError("its Hello is of another ring");
  }
  return session;
}

absl::StatusOr<model::Stream> AttachRing(const IngestContext& context, model::Session session,
                                         const SpoolReader& ring,
                                         const std::shared_ptr<const RingFile>& file) {
  session.first_seq = ring.FirstSeq(!session.left);
  ResolveDestinations(context.credentials, &session);
  model::Stream stream;
  context.registry->BeginAttaching(
      {.key = session.stream, .process = session.launch.process, .ring = file, .peer = nullptr});
  const absl::Status status = context.store->SubmitAndWait([&](storage::Store& store) {
    ASSIGN_OR_RETURN(stream, context.attacher->Attach(session, store));
    return absl::OkStatus();
  });
  // The stream stays known until it is ended, which may need several attempts.
  if (status.ok()) context.registry->AddKnown(stream, file);
  context.registry->EndAttaching(session.stream);
  RETURN_IF_ERROR(status);
  context.run_attached(stream.run);
  for (const std::string& mistake : session.mistakes) {
    spdlog::warn("run {}: {}", stream.run_id,
                 absl::StrReplaceAll(mistake, {{"{run}", stream.run_id}}));
  }
  return stream;
}

}  // namespace ranklog::ingest
