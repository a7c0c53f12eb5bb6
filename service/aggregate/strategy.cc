#include "service/aggregate/strategy.h"

#include "absl/strings/str_cat.h"

namespace ranklog::aggregate {

model::RunAssignment Assign(const model::Session& session) {
  const uint32_t rank = session.stream.rank;
  const uint32_t local_rank = session.identity.local_rank;
  const uint32_t first_of_node = local_rank <= rank ? rank - local_rank : rank;
  const std::string& job = session.stream.job_id;

  model::RunAssignment assignment;
  if (session.settings.strategy == model::LogStrategy::kAll) {
    assignment.primary_rank = rank;
    assignment.primary = true;
    assignment.run_id = absl::StrCat(job, "-", rank);
    assignment.name = absl::StrCat("rank-", rank);
    return assignment;
  }
  assignment.primary_rank = first_of_node;
  assignment.primary = rank == first_of_node;
  if (session.settings.strategy == model::LogStrategy::kNode) {
    assignment.run_id = absl::StrCat(job, "-", first_of_node);
    assignment.name = absl::StrCat("rank-", first_of_node);
    return assignment;
  }
  assignment.local_only = first_of_node != 0;
  assignment.run_id = assignment.local_only ? absl::StrCat(job, "-", first_of_node) : job;
  assignment.name = session.settings.name;
  return assignment;
}

}  // namespace ranklog::aggregate
