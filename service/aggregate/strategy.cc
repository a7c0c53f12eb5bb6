#include "service/aggregate/strategy.h"

#include <algorithm>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace ranklog::aggregate {
namespace {

using model::JobRun;
using model::RunAssignment;
using model::Session;

// If their launcher does not count the ranks of a node, all ranks report local rank 0.
bool IsFirstOfNode(const Session& session) {
  return session.stream.rank == 0 ||
         (session.identity.local_world_size > 0 && session.identity.local_rank == 0);
}

const JobRun* Newest(absl::Span<const JobRun> runs,
                     absl::FunctionRef<bool(const JobRun&)> predicate) {
  const auto found = std::find_if(runs.rbegin(), runs.rend(), predicate);
  return found == runs.rend() ? nullptr : &*found;
}

constexpr size_t kMaxName = 1024;  // as for RunSettings::name

std::string NameOfRank(const model::RunSettings& settings, const std::string& job_id, uint32_t rank,
                       const model::Identity& identity) {
  // In one pass, so that braces in a name have no effect.
  std::string name = absl::StrReplaceAll(settings.name_pattern,
                                         {{"{rank}", absl::StrCat(rank)},
                                          {"{local_rank}", absl::StrCat(identity.local_rank)},
                                          {"{node_rank}", absl::StrCat(identity.node_rank)},
                                          {"{node}", identity.node},
                                          {"{id}", job_id},
                                          {"{name}", settings.name}});
  return name.empty() || name.size() > kMaxName ? absl::StrCat("rank-", rank) : name;
}

RunAssignment OfRank(const Session& session) {
  const uint32_t rank = session.stream.rank;
  return {.run_id = model::WithNumber(session.stream.job_id, rank),
          .name = NameOfRank(session.settings, session.stream.job_id, rank, session.identity),
          .primary_rank = rank,
          .primary = true};
}

RunAssignment OfFirstRank(const Session& session, absl::Span<const JobRun> runs) {
  RunAssignment assignment =
      RunOfNode(session.settings, session.stream.job_id, session.stream.rank, session.identity);
  assignment.primary = true;
  // Either the job continues, and the store finds its run; or the node's other ranks came first.
  const bool goes_on = Newest(runs, [&](const JobRun& run) {
                         return run.primary_rank == session.stream.rank &&
                                model::IsNumbered(run.run_id, assignment.run_id);
                       }) != nullptr;
  const JobRun* const waiting =
      Newest(runs, [](const JobRun& run) { return run.live && !run.primary_chosen; });
  if (!goes_on && waiting != nullptr) assignment.run = waiting->id;
  return assignment;
}

// The run that the ranks of a node share until its first rank is known.
RunAssignment NewRun(const Session& session) {
  return {.run_id = absl::StrCat(session.stream.job_id, "-", session.stream.rank, "-pending"),
          .name = session.settings.name,
          .primary_rank = session.stream.rank,
          .local_only = true,
          .primary_chosen = false};
}

RunAssignment Join(const Session& session, const JobRun& run) {
  const uint32_t rank = session.stream.rank;
  const uint32_t expected = session.identity.local_world_size;
  const uint32_t ranks = run.ranks + (run.has_rank ? 0 : 1);
  const auto run_of = [&session](uint32_t first) {
    model::Identity identity = session.identity;
    if (first != session.stream.rank) identity.local_rank = 0;
    return RunOfNode(session.settings, session.stream.job_id, first, identity);
  };
  RunAssignment assignment;
  if (run.primary_chosen) {
    assignment = run_of(run.primary_rank);
    assignment.run_id = run.run_id;
    assignment.local_only = run.local_only;
    assignment.primary = rank == run.primary_rank;
  } else if (expected > 0 && ranks >= expected) {
    const uint32_t first = std::min(run.lowest_rank, rank);
    assignment = run_of(first);
    assignment.primary = rank == first;
  } else {
    assignment = NewRun(session);
    assignment.run_id = run.run_id;
  }
  assignment.run = run.id;
  return assignment;
}

}  // namespace

RunAssignment RunOfNode(const model::RunSettings& settings, const std::string& job_id,
                        uint32_t first_rank, const model::Identity& identity) {
  RunAssignment assignment;
  assignment.primary_rank = first_rank;
  assignment.run_id = model::WithNumber(job_id, first_rank);
  if (settings.strategy == model::LogStrategy::kNode) {
    assignment.name = NameOfRank(settings, job_id, first_rank, identity);
    return assignment;
  }
  assignment.name = settings.name;
  assignment.local_only = first_rank != 0;
  if (!assignment.local_only) assignment.run_id = job_id;
  return assignment;
}

RunAssignment Assign(const Session& session, absl::Span<const JobRun> runs) {
  if (session.settings.strategy == model::LogStrategy::kAll) return OfRank(session);
  const uint32_t rank = session.stream.rank;
  const JobRun* run = Newest(runs, [](const JobRun& has) { return has.has_ring; });
  if (run == nullptr && IsFirstOfNode(session)) return OfFirstRank(session, runs);
  if (run == nullptr) {
    run = Newest(runs, [rank](const JobRun& live) {
      return live.live && live.primary_chosen && live.primary_rank <= rank;
    });
  }
  if (run == nullptr) {
    run = Newest(runs, [](const JobRun& live) { return live.live && !live.primary_chosen; });
  }
  // The other ranks of its start ended before it came.
  if (run == nullptr) {
    run = Newest(runs, [rank](const JobRun& done) {
      return done.of_start && !done.has_rank && done.primary_chosen && done.primary_rank <= rank;
    });
  }
  if (run == nullptr) {
    run = Newest(runs, [&session](const JobRun& before) {
      const std::string& job_id = session.stream.job_id;
      return before.has_place &&
             model::IsNumbered(
                 before.run_id,
                 RunOfNode(session.settings, job_id, before.primary_rank, session.identity).run_id);
    });
  }
  return run == nullptr ? NewRun(session) : Join(session, *run);
}

}  // namespace ranklog::aggregate
