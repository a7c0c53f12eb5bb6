#include "service/model/session.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/model/rank_statistics.h"

namespace ranklog::model {

static_assert(sizeof(Losses) == (std::size(kLossCounters) + 1) * sizeof(uint64_t),
              "a counter is missing");

namespace {

// A limit for parts of a path or a URL at trackers; no name that people give is longer.
constexpr size_t kMaxNameBytes = 256;

// Far beyond any training, and far below an overflow of row numbers.
constexpr uint64_t kMaxFirstSeq = uint64_t{1} << 62;

class Problems {
 public:
  void Check(bool good, const std::string& problem) {
    if (!good) problems_.push_back(problem);
  }
  absl::Status ToStatus() const {
    if (problems_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("session: ", absl::StrJoin(problems_, "; ")));
  }

 private:
  std::vector<std::string> problems_;
};

void CheckName(const std::string& value, absl::string_view what, Problems& problems) {
  problems.Check(!value.empty(), absl::StrCat("the ", what, " is empty"));
  problems.Check(value.size() <= kMaxNameBytes, absl::StrCat("the ", what, " has ", value.size(),
                                                             " bytes, more than ", kMaxNameBytes));
}

void CheckRanks(uint32_t rank, const Identity& identity, Problems& problems) {
  problems.Check(rank < identity.world_size,
                 absl::StrCat("rank ", rank, " in a world of ", identity.world_size));
  if (identity.local_world_size == 0) return;
  problems.Check(identity.local_rank < identity.local_world_size,
                 absl::StrCat("local rank ", identity.local_rank, " on a node with ",
                              identity.local_world_size, " ranks"));
  problems.Check(identity.local_world_size <= identity.world_size,
                 absl::StrCat("a node with ", identity.local_world_size, " ranks in a world of ",
                              identity.world_size));
}

}  // namespace

absl::string_view Name(LogStrategy strategy) {
  switch (strategy) {
    case LogStrategy::kMain:
      return "main";
    case LogStrategy::kNode:
      return "node";
    case LogStrategy::kAll:
      return "all";
  }
  return "unknown";
}

const std::string& RunSettings::Of(const std::string& kind, const std::string& name) const {
  static const std::string& unset = *new std::string();
  const auto settings = destination_settings.find(kind);
  if (settings == destination_settings.end()) return unset;
  const auto setting = settings->second.find(name);
  return setting == settings->second.end() ? unset : setting->second;
}

bool IsSameRank(const StreamKey& one, const StreamKey& other) {
  return one.project == other.project && one.job_id == other.job_id && one.rank == other.rank;
}

bool AreOfOneProcess(absl::string_view one, absl::string_view other) {
  return one.substr(0, one.find('@')) == other.substr(0, other.find('@'));
}

absl::Status Validate(const Session& session) {
  Problems problems;
  CheckName(session.stream.project, "project", problems);
  CheckName(session.stream.job_id, "job id", problems);
  problems.Check(session.stream.incarnation != 0, "the incarnation is 0");
  problems.Check(session.first_seq != 0 && session.first_seq <= kMaxFirstSeq,
                 absl::StrCat("rows from ", session.first_seq, " on"));
  problems.Check(session.first_item != 0 && session.first_item <= kMaxFirstSeq,
                 absl::StrCat("items from ", session.first_item, " on"));
  const Launch& launch = session.launch;
  problems.Check(
      std::max({launch.id.size(), launch.batch_job.size(), launch.process.size()}) <= kMaxNameBytes,
      absl::StrCat("a name of the launch has more than ", kMaxNameBytes, " bytes"));
  CheckRanks(session.stream.rank, session.identity, problems);
  for (const std::string& error : RankStatisticsErrors(session.settings.rank_statistics,
                                                       session.settings.rank_statistic_rules)) {
    problems.Check(false, error);
  }
  return problems.ToStatus();
}

}  // namespace ranklog::model
