#include "service/query/select_run.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"

namespace ranklog::query {
namespace {

constexpr size_t kListed = 10;  // candidates in a message
constexpr char kLatest[] = "latest";

using Runs = std::vector<const model::Run*>;

std::string List(const Runs& runs) {
  std::string list;
  for (size_t i = 0; i < runs.size() && i < kListed; ++i) {
    const model::Run& run = *runs[i];
    absl::StrAppend(&list, "\n  ", Printable(run.project + ":" + run.run_id), "  (",
                    run.name.empty() ? "" : Printable(run.name) + ", ", "started ",
                    TimeText(run.started_us), ")");
  }
  if (runs.size() > kListed) absl::StrAppend(&list, "\n  and ", runs.size() - kListed, " more");
  return list;
}

// Two parts of a `main` run may be in one store. The part with the run's own rows is meant.
void DropLocalParts(Runs* matches) {
  if (matches->size() < 2) return;
  Runs whole;
  for (const model::Run* run : *matches) {
    if (!run->local_only) whole.push_back(run);
  }
  if (!whole.empty()) *matches = whole;
}

template <typename Field>
Runs Matching(const Runs& runs, const std::string& text, Field field) {
  Runs matches;
  for (const model::Run* run : runs) {
    if (run->*field == text) matches.push_back(run);
  }
  DropLocalParts(&matches);
  return matches;
}

Runs Candidates(const Runs& runs, const std::string& text) {
  if (text == kLatest) return runs.empty() ? Runs() : Runs{runs.front()};
  if (Runs by_id = Matching(runs, text, &model::Run::run_id); !by_id.empty()) return by_id;
  if (Runs by_name = Matching(runs, text, &model::Run::name); !by_name.empty()) return by_name;
  Runs of_job;
  for (const model::Run* run : runs) {
    if (run->run_id == absl::StrCat(text, "-", run->primary_rank)) of_job.push_back(run);
  }
  DropLocalParts(&of_job);
  if (!of_job.empty()) return of_job;
  Runs by_prefix;
  for (const model::Run* run : runs) {
    if (absl::StartsWith(run->run_id, text)) by_prefix.push_back(run);
  }
  DropLocalParts(&by_prefix);
  return by_prefix;
}

Runs OfProject(const std::vector<model::Run>& runs, const std::string& project) {
  Runs chosen;
  for (const model::Run& run : runs) {
    if (project.empty() || run.project == project) chosen.push_back(&run);
  }
  return chosen;
}

// "latest" matches in every project, so it is not searched.
Runs InOtherProjects(const std::vector<model::Run>& runs, const std::string& text,
                     const std::string& project) {
  const std::string name = project.empty() ? text.substr(text.find(':') + 1) : text;
  if (name.empty() || name == kLatest) return {};
  return Candidates(OfProject(runs, ""), name);
}

bool IsWhole(const model::Run& run, const std::string& text) {
  return text == kLatest || text == run.run_id || text == run.name;
}

}  // namespace

std::string RunForCommand(const std::vector<std::string>& ids) {
  return ids.size() == 1 ? Printable(ids.front()) : "RUN";
}

bool NamesWholeRun(const model::Run& run, const std::string& text) {
  const size_t colon = text.find(':');
  return IsWhole(run, text) ||
         (colon != std::string::npos && text.substr(0, colon) == run.project &&
          IsWhole(run, text.substr(colon + 1)));
}

absl::StatusOr<model::Run> SelectRun(const std::vector<model::Run>& runs, const std::string& text,
                                     const std::string& project) {
  if (text.empty()) {
    return absl::InvalidArgumentError("RUN is empty; `ranklog runs` lists the runs");
  }
  const Runs all = OfProject(runs, project);
  Runs matches = Candidates(all, text);
  // Checked second, because a name may contain a colon.
  const size_t colon = text.find(':');
  if (matches.empty() && colon != std::string::npos && colon > 0 && project.empty()) {
    matches = Candidates(OfProject(runs, text.substr(0, colon)), text.substr(colon + 1));
  }
  if (matches.size() == 1) return *matches.front();
  if (matches.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("several runs match '", Printable(text),
                     "'; choose one by its id, or by project:id:", List(matches)));
  }
  const std::string place = project.empty() ? "" : " in project '" + Printable(project) + "'";
  if (const Runs elsewhere = InOtherProjects(runs, text, project); !elsewhere.empty()) {
    return absl::NotFoundError(absl::StrCat("no run", place, " is called '", Printable(text),
                                            "'; in another project there is:", List(elsewhere)));
  }
  if (all.empty()) {
    return absl::NotFoundError(absl::StrCat("there are no runs", place, " yet"));
  }
  return absl::NotFoundError(absl::StrCat("no run", place, " is called '", Printable(text),
                                          "'; the newest are:", List(all)));
}

}  // namespace ranklog::query
