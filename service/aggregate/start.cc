#include "service/aggregate/start.h"

#include <algorithm>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"

namespace ranklog::aggregate {
namespace {

using model::JobChoice;
using model::JobStart;
using model::Session;

using Starts = absl::Span<const JobStart>;

const JobStart* NewestStart(Starts starts, absl::FunctionRef<bool(const JobStart&)> predicate) {
  const auto found = std::find_if(starts.rbegin(), starts.rend(), predicate);
  return found == starts.rend() ? nullptr : &*found;
}

bool IsRestart(const Session& session, const JobStart& start) {
  if (!start.rank_in_launch) return true;  // the rank begins in a known launch
  if (session.launch.restart > start.rank_restart) return true;
  if (!session.launch.restarts_ranks) return false;
  // When the ring of a dead process is found, a later process of the rank may have attached.
  return session.left || (!start.rank_alive && !start.rank_finished);
}

JobChoice NewJob(const Session& session, const JobStart& former) {
  if (former.rank_alive) {
    return {.job_id = "",
            .notice = absl::StrCat("run '", former.job_id, "' is running, and has rank ",
                                   session.stream.rank, " already (pid ", former.alive_pid,
                                   "): this start is '{run}'"),
            .warns = true};
  }
  if (!session.launch.id_given) return {.job_id = ""};
  if (former.live) {
    return {.job_id = "",
            .notice = absl::StrCat("run '", former.job_id, "' is running: this start is '{run}'"),
            .warns = true};
  }
  return {.job_id = "",
          .notice = absl::StrCat("run '", session.launch.given_id,
                                 "' has ended: this start is '{run}'. Set RANKLOG_RESUME=allow to "
                                 "continue '",
                                 session.launch.given_id, "'")};
}

JobChoice Refused(const std::string& why) {
  return {.job_id = "",
          .refused = true,
          .notice = absl::StrCat(why, ": the rows are kept on this node only, as '{run}'"),
          .warns = true};
}

JobChoice OfAnotherLaunch(const Session& session, Starts starts) {
  const std::string& id = session.launch.given_id;
  const JobStart* const same =
      NewestStart(starts, [&](const JobStart& start) { return start.job_id == id; });
  const bool exists = same != nullptr && same->exists;
  std::string resume = session.launch.id_given ? session.settings.resume : "";
  // The job's first start was at another node.
  if (resume.empty() && session.launch.requeue > 0 &&
      NewestStart(starts, [](const JobStart& has) { return has.has_batch; }) == nullptr) {
    resume = "allow";
  }
  if (resume == "must" && !exists) {
    const auto& to = session.settings.destinations;
    if (std::all_of(to.begin(), to.end(), [](const auto& kind) { return kind == "local"; })) {
      return Refused(absl::StrCat("resume=must, but run '", id, "' does not exist"));
    }
  }
  if (!exists) return {.job_id = id};
  if (resume == "never") {
    return Refused(absl::StrCat("resume=never, but run '", id, "' exists"));
  }
  if (!resume.empty()) {
    const bool twice = same->rank_alive && !session.left;
    return twice ? NewJob(session, *same) : JobChoice{.job_id = id};
  }
  const JobStart& newest =
      *NewestStart(starts, [](const JobStart& start) { return start.exists && !start.refused; });
  const bool joins =
      newest.live && !newest.has_rank && !(session.launch.whole_node && newest.has_node);
  if (joins) return {.job_id = newest.job_id};
  // The job's other ranks finished before this one attached.
  if (session.launch.unseen && newest.may_be_one && !newest.has_rank) {
    return {.job_id = newest.job_id,
            .notice = absl::StrCat("rank ", session.stream.rank, " joins run '", newest.job_id,
                                   "', whose other ranks have already finished; the ranks are in "
                                   "containers, so it is unknown which were started together")};
  }
  return NewJob(session, newest);
}

}  // namespace

JobChoice ChooseJob(const Session& session, Starts starts) {
  const JobStart* start = NewestStart(starts, [](const JobStart& has) { return has.has_ring; });
  if (start == nullptr) {
    start = NewestStart(starts, [](const JobStart& has) { return has.has_process; });
  }
  if (start == nullptr) {
    start = NewestStart(starts, [](const JobStart& has) { return has.has_launch; });
    if (start != nullptr && !IsRestart(session, *start)) {
      if (session.settings.resume.empty() || !session.launch.id_given) {
        return NewJob(session, *start);
      }
      start = nullptr;
    }
  }
  if (start == nullptr && session.launch.requeue > 0) {
    // A requeued batch job begins from the top: its first program continues the first job.
    const auto found = std::find_if(starts.begin(), starts.end(), [&](const JobStart& has) {
      return has.has_batch_job && has.requeue < session.launch.requeue;
    });
    if (found != starts.end()) start = &*found;
  }
  if (start != nullptr) return {.job_id = start->job_id, .refused = start->refused};
  return OfAnotherLaunch(session, starts);
}

std::string ChooseJobOfPeer(const Session& session, Starts starts) {
  const auto newest = [&](absl::FunctionRef<bool(const JobStart&)> predicate) {
    return NewestStart(starts, [&](const JobStart& start) {
      return start.exists && !start.refused && predicate(start);
    });
  };
  const JobStart* start = newest([](const JobStart& has) { return has.has_ring; });
  if (start == nullptr) start = newest([](const JobStart& has) { return has.has_process; });
  if (start == nullptr) {
    start = newest([&](const JobStart& has) { return has.has_launch && IsRestart(session, has); });
  }
  // The launch of another start: of this node, or of all nodes.
  const auto is_other = [&](const JobStart& has) {
    return has.spans_nodes || (session.launch.whole_node && has.has_node);
  };
  if (start == nullptr) {
    start = newest(
        [&](const JobStart& has) { return has.first_alive && !has.has_rank && !is_other(has); });
  }
  const bool goes_on =
      (session.launch.id_given && !session.settings.resume.empty()) || session.launch.requeue > 0;
  if (start == nullptr && goes_on) {
    start = newest([](const JobStart& has) { return !has.rank_alive; });
  }
  if (start == nullptr) {
    start = newest([&](const JobStart& has) { return !has.has_rank && !is_other(has); });
  }
  return start == nullptr ? "" : start->job_id;
}

}  // namespace ranklog::aggregate
