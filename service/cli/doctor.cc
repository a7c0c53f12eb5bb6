#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "service/base/text/number_text.h"
#include "service/cli/command.h"
#include "service/cli/doctor/daemon_check.h"
#include "service/cli/doctor/examination.h"
#include "service/cli/doctor/peer_check.h"
#include "service/cli/output/json_text.h"
#include "service/cli/output/terminal.h"

namespace ranklog::cli {
namespace {

constexpr char kDoctorFooter[] = R"(
Checks the state directory and its disk, the socket, the daemon and how it was started, the store with every row in
it, waiting deliveries, damaged stores that were set aside, the spools of this user and the room for more, limits,
the clock, and the keys, also the one that the daemons of several nodes share. Checks each key at its server, through the configured proxy: at the servers for which rows
wait, and at the public server if there is a key for it. Shows only the last four letters of a key. Changes nothing.

Exit code 0: no problems. 1: problems; each has a line with advice.

Examples:
  ranklog doctor
  ranklog doctor --state-dir /data/ranklog
  srun -N1 --gpus 4 ranklog doctor --ranks 4       # on the node, as a job sees it
  ranklog doctor --peer node01                     # does the daemon of that node have the same key?
  ranklog doctor --json | jq '.problems')";

struct DoctorFlags {
  bool json = false;
  std::string peer;  // HOST or HOST:PORT
  int ranks = 8;     // typical for a node with 8 GPUs
};

constexpr size_t kNameColumns = 12;  // width of "other store"

void PrintFindings(const std::vector<Finding>& findings) {
  const Terminal terminal = Terminal::Of(STDOUT_FILENO);
  for (const Finding& finding : findings) {
    std::string name = finding.part;
    name.resize(kNameColumns, ' ');
    std::cout << name << finding.text << "\n";
    if (finding.advice.empty()) continue;
    std::cout << std::string(kNameColumns, ' ') << terminal.Red(finding.advice) << "\n";
  }
}

model::Json FindingsJson(const std::vector<Finding>& findings) {
  model::Json parts = model::Json::array();
  model::Json problems = model::Json::array();
  for (const Finding& finding : findings) {
    model::Json part = {{"part", finding.part}, {"well", finding.advice.empty()}};
    part.update(finding.data);
    parts.push_back(std::move(part));
    if (!finding.advice.empty()) {
      problems.push_back(absl::StrCat(finding.part, ": ", finding.advice));
    }
  }
  return {{"parts", parts}, {"problems", problems}};
}

absl::Status Doctor(const Globals& globals, const DoctorFlags& flags) {
  const absl::StatusOr<std::string> dir = globals.StateDir();
  std::vector<Finding> findings;
  if (dir.ok()) {
    findings = RunChecks(globals, *dir, flags.ranks);
  } else {
    findings = {CheckSocket(globals)};
    if (!globals.address.empty()) {
      findings.push_back(ReportNoDaemon(globals.address, dir.status()));
    }
  }
  if (!flags.peer.empty()) {
    findings.push_back(CheckPeer(
        flags.peer, dir.ok() ? FindDaemon(*dir, globals.address) : absl::optional<DaemonStatus>()));
  }
  if (flags.json) {
    std::cout << PrettyJson(FindingsJson(findings));
  } else {
    PrintFindings(findings);
  }
  const auto problems = static_cast<uint64_t>(std::count_if(
      findings.begin(), findings.end(), [](const Finding& f) { return !f.advice.empty(); }));
  if (problems == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("found ", Counted(problems, "problem")));
}

}  // namespace

void AddDoctor(Program& program) {
  auto [options, flags] = program.Add("doctor", "find problems on this node and show what to do",
                                      kDoctorFooter, Doctor);
  options.Add("--ranks", &flags.ranks, "number of ranks that will run on this node; default 8",
              {.type = "N", .least = 1, .most = 4096});
  options.Add(
      "--peer", &flags.peer,
      "connect to the daemon of another node, too; without PORT, at the port of this node's "
      "daemon",
      {.type = "HOST[:PORT]", .check = CheckPeerAddress});
  options.Add("--json", &flags.json, "print an object, for programs");
}

}  // namespace ranklog::cli
