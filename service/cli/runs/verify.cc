#include <unistd.h>

#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/base/text/printable.h"
#include "service/cli/command.h"
#include "service/cli/node/sync_pipeline.h"
#include "service/cli/output/json_text.h"
#include "service/cli/output/progress_bar.h"
#include "service/cli/runs/verify_output.h"
#include "service/cli/runs/verify_report.h"
#include "service/deliver/credentials.h"
#include "service/deliver/destination.h"
#include "service/deliver/http/curl_transport.h"

namespace ranklog::cli {
namespace {

constexpr char kVerifyHeader[] = R"(
Checks the store: the file by SQLite's own check, the checksum of every batch of the run, and the row numbers.
Then reads the run back from each destination and compares it with the store, value by value:

)";

constexpr char kVerifyFooter[] = R"(  local  is the store.

For each rank, it counts the rows that Log() accepted and that the daemon has. They are the sum of:

  there     have a row of the run; for ranks that only give statistics: stored without damage
  merged    share the row of their step with another row of their rank, or have no metrics
  replayed  logged again after a restart from a checkpoint; they replace earlier rows, which trackers keep
  late      came after their step was closed; kept on this node only
  waiting   their step is open
  missing   damaged, or not in the store

Rows that are only in a spool are not in this sum. A daemon takes those of an ended process within seconds, for which
this command waits.

Rows that were lost before the daemon had them are counted separately. Rows that Log() refused are shown as lost.
They do not change the exit code, because Log() returned false for them.

Exit code 0: the sum is correct, and all rows are there. 1: rows are missing, late, damaged, refused, only in a
spool, or not delivered yet, or a destination does not answer.

Examples:
  ranklog verify latest
  ranklog verify gpt:abc123 --timeout 5m
  ranklog verify latest --json | jq '.destinations[0].missing')";

struct VerifyFlags {
  RunArgument run;
  bool json = false;
  std::string timeout = "30s";
};

class Verify {
 public:
  Verify(const Globals& globals, const VerifyFlags& flags) : globals_(globals), flags_(flags) {
    report_.globals = globals;
  }

  absl::Status Run() {
    ASSIGN_OR_RETURN(reader_, globals_.OpenStore());
    ASSIGN_OR_RETURN(const model::Run run, flags_.run.Find(globals_, *reader_));
    ASSIGN_OR_RETURN(report_.run, query::ReportRun(*reader_, run));
    ASSIGN_OR_RETURN(const std::string state_dir, globals_.StateDir());
    // Before the store is read: rows that leave a spool later are found in the store.
    ASSIGN_OR_RETURN(report_.spools, SpoolsOfRun(FindAllSpools(state_dir), *reader_, run));
    ASSIGN_OR_RETURN(const auto audit, storage::StoreAudit::Open(state_dir));
    {
      ProgressBar progress("check the store", /*lines=*/false);
      ASSIGN_OR_RETURN(report_.store,
                       query::CheckStore(*reader_, *audit, run, [&](uint64_t done, uint64_t total) {
                         progress.Update(done, total);
                       }));
    }
    for (const query::DestinationReport& destination : report_.run.destinations) {
      DestinationCheck& check = report_.destinations.emplace_back();
      check.report = destination;
      const deliver::Destination* const known = deliver::FindDestination(destination.kind);
      if (known == nullptr || !known->NeedsKey()) continue;  // no server to ask
      if (const absl::Status status = ReadBack(run, &check); !status.ok()) {
        check.error = absl::StrCat("not read back: ", absl::string_view(status.message()));
      }
    }
    if (flags_.json) {
      std::cout << PrettyJson(ToJson(report_));
    } else {
      std::cout << ToText(report_, Terminal::Of(STDOUT_FILENO));
    }
    if (report_.ok()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("run ", Printable(run.project + ":" + run.run_id), " did not pass the check"));
  }

 private:
  // A run that was not created at the tracker yet has nothing to read back.
  absl::Status ReadBack(const model::Run& run, DestinationCheck* check) {
    ASSIGN_OR_RETURN(const std::vector<model::Delivery> deliveries, reader_->Deliveries(run.id));
    for (const model::Delivery& delivery : deliveries) {
      if (delivery.kind != check->report.kind) continue;
      if (delivery.cursor.empty()) return absl::OkStatus();
      ASSIGN_OR_RETURN(check->read_back, ReadBack(run, delivery));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<deliver::ReadBackReport> ReadBack(const model::Run& run,
                                                   const model::Delivery& delivery) {
    ASSIGN_OR_RETURN(const std::string state_dir, globals_.StateDir());
    const deliver::CredentialStore credentials(
        deliver::CredentialStore::Options::FromEnvironment(state_dir));
    ASSIGN_OR_RETURN(const deliver::Credential key,
                     FindKey(credentials, state_dir, run, delivery.kind));
    ASSIGN_OR_RETURN(
        const std::unique_ptr<deliver::CurlTransport> transport,
        deliver::CurlTransport::Create(deliver::CurlTransport::Options::FromEnvironment()));
    ProgressBar progress("read back", /*lines=*/false);
    deliver::ReadBackOptions options;
    // Cannot fail: the flag's check accepted it.
    absl::ParseDuration(flags_.timeout, &options.timeout);
    options.now = SteadyNow;
    options.sleep = absl::SleepFor;
    options.progress = [&](uint64_t done, uint64_t total) { progress.Update(done, total); };
    return deliver::FindDestination(delivery.kind)
        ->ReadBack(*reader_, run, delivery, *transport, key, options);
  }

  const Globals& globals_;
  const VerifyFlags& flags_;
  std::unique_ptr<storage::StoreReader> reader_;
  VerifyReport report_;
};

// The whole footer. It must outlive the program's command line.
const char* Footer() {
  static std::string& footer = *new std::string();
  footer = kVerifyHeader;
  for (const auto& destination : deliver::AllDestinations()) {
    footer += destination->words().verify;
  }
  footer += kVerifyFooter;
  return footer.c_str();
}

absl::Status RunVerify(const Globals& globals, const VerifyFlags& flags) {
  return Verify(globals, flags).Run();
}

}  // namespace

void AddVerify(Program& program) {
  auto [options, flags] =
      program.Add("verify", "read a run back from its destinations and compare it with the store",
                  Footer(), RunVerify);
  flags.run.AddTo(options);
  options.Add("--json", &flags.json, "print an object, for programs");
  options.Add("--timeout", &flags.timeout,
              "how long to retry if a destination does not answer; default 30s",
              {.type = "DURATION", .check = CheckDuration});
}

}  // namespace ranklog::cli
