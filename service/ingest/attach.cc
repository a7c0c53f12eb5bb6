#include "service/ingest/attach.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_replace.h"
#include "service/aggregate/start.h"
#include "service/aggregate/strategy.h"
#include "service/base/status_macros.h"
#include "service/deliver/destination.h"

namespace ranklog::ingest {

void ResolveDestinations(const Credentials& credentials, model::Session* session) {
  if (session->settings.destinations.empty()) {
    session->settings.destinations = {credentials.usual_destination(*session)};
  }
  for (const std::string& kind : session->settings.destinations) {
    const deliver::Destination* const destination = deliver::FindDestination(kind);
    if (destination == nullptr) continue;  // local
    std::string warning = destination->WarningOf(session->settings);
    if (!warning.empty()) session->mistakes.push_back(std::move(warning));
  }
}

absl::StatusOr<model::JobChoice> Attacher::Choose(const model::Session& session,
                                                  storage::Store& store) {
  if (session.launch.given_id.empty()) return model::JobChoice{.job_id = session.stream.job_id};
  ASSIGN_OR_RETURN(const std::vector<model::JobStart> starts, store.StartsOf(session));
  model::JobChoice choice = aggregate::ChooseJob(session, starts);
  if (choice.job_id.empty()) {
    ASSIGN_OR_RETURN(choice.job_id, store.FreeJobId(session));
    absl::StrReplaceAll({{"{run}", choice.job_id}}, &choice.notice);
  }
  return choice;
}

absl::StatusOr<model::Stream> Attacher::Attach(const model::Session& given, storage::Store& store) {
  ASSIGN_OR_RETURN(const model::JobChoice choice, Choose(given, store));
  model::Session session = given;
  session.stream.job_id = choice.job_id;
  // If the user set no group, the group is the job id. Some users also pass the id as the name.
  for (std::string* const text : {&session.settings.group, &session.settings.name}) {
    if (*text == given.stream.job_id) *text = choice.job_id;
  }
  if (choice.refused) session.settings.destinations = {"local"};
  std::vector<model::JobRun> runs;
  // A rank that is alone in its run needs no list of the other runs.
  const bool alone =
      session.settings.strategy == model::LogStrategy::kAll || session.identity.world_size == 1;
  if (!alone) {
    ASSIGN_OR_RETURN(runs, store.RunsOfJob(session));
  }
  model::RunAssignment assignment = aggregate::Assign(session, runs);
  assignment.refused = choice.refused;
  assignment.notice = choice.notice;
  assignment.warns = choice.warns;
  ASSIGN_OR_RETURN(model::Stream stream,
                   store.Attach(session, assignment, absl::ToUnixMicros(wall_clock_())));
  if (session.no_rows) RETURN_IF_ERROR(store.SetProgress(stream.id, model::Stream::kAllSteps));
  stream.warns |=
      model::AddNumberNotice(stream.job_id, stream.run_id, assignment.primary_rank, &stream.notice);
  if (const uint64_t gone = stream.losses.with_store;
      gone > 0 && stream.durable_seq + 1 == session.first_seq) {
    spdlog::warn("rank {} of {} continues at row {}; {} rows were lost with an earlier store",
                 session.stream.rank, session.stream.job_id, session.first_seq, gone);
  }
  // The choice of the primary rank adds the deliveries later.
  if (!assignment.primary_chosen) return stream;
  std::vector<std::string> wanted = session.settings.destinations;
  if (assignment.local_only) wanted = deliver::DestinationsOfPart(wanted);
  // The reader does not see this transaction. If it sees no delivery of that kind, nothing was
  // delivered yet, so a new delivery loses nothing.
  ASSIGN_OR_RETURN(std::vector<model::Delivery> there, reader_->Deliveries(stream.run));
  for (const std::string& kind : wanted) {
    auto known = std::find_if(there.begin(), there.end(),
                              [&](const model::Delivery& d) { return d.kind == kind; });
    model::Delivery delivery;
    delivery.run = stream.run;
    delivery.kind = kind;
    if (known != there.end()) {
      if (!known->complete) continue;
      delivery = *known;  // the run continues, so its delivery continues from its cursor
      delivery.complete = false;
    }
    RETURN_IF_ERROR(store.PutDelivery(delivery));
  }
  return stream;
}

absl::StatusOr<model::Stream> Attacher::AttachPeer(const model::Session& given,
                                                   storage::Store& store) {
  absl::StatusOr<model::Stream> known = store.StreamOfRing(given.stream);
  if (known.ok() && known->peer.empty()) {
    return absl::AlreadyExistsError("its rank has attached to this daemon");
  }
  if (!absl::IsNotFound(known.status())) return known;
  model::Session session = given;
  if (!session.launch.given_id.empty()) {
    ASSIGN_OR_RETURN(const std::vector<model::JobStart> starts, store.StartsOf(session));
    session.stream.job_id = aggregate::ChooseJobOfPeer(session, starts);
    if (session.stream.job_id.empty()) {
      return absl::NotFoundError("rank 0 of this start has not attached");
    }
  }
  ASSIGN_OR_RETURN(const storage::Store::HomeRun home,
                   store.HomeRunOf(session.stream.project, session.stream.job_id));
  if (!home.running) return absl::FailedPreconditionError("the run has ended");
  const absl::StatusOr<model::Run> run = reader_->GetRun(home.id);
  if (run.ok() && run->settings.strategy != model::LogStrategy::kMain) {
    return absl::InvalidArgumentError("rank 0 has another strategy than main");
  }
  model::RunAssignment assignment;
  assignment.run = home.id;
  assignment.run_id = home.run_id;
  return store.Attach(session, assignment, absl::ToUnixMicros(wall_clock_()));
}

std::string Attacher::RunId(int64_t run) const {
  const absl::StatusOr<model::Run> found = reader_->GetRun(run);
  return found.ok() && found->primary_chosen ? found->run_id : "";
}

}  // namespace ranklog::ingest
