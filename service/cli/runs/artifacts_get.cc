#include "service/cli/runs/artifacts_get.h"

#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/clock.h"
#include "service/base/environment.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/output/progress_bar.h"
#include "service/deliver/credentials.h"
#include "service/deliver/destination.h"
#include "service/deliver/http/curl_transport.h"

namespace ranklog::cli {

absl::Status GetArtifact(const Globals& globals, const ArtifactsGetFlags& flags,
                         const std::string& project) {
  const deliver::Destination& destination = deliver::UsualDestination();
  const auto given = [&destination](const std::string& flag, absl::string_view setting) {
    return flag.empty() ? EnvironmentVariable(destination.VariableOf(setting).c_str()) : flag;
  };
  ASSIGN_OR_RETURN(const std::string server,
                   destination.CheckUrl(given(flags.base_url, destination.words().url_setting)));
  deliver::DownloadOptions options;
  options.name = flags.name;
  options.entity = given("", "entity");
  options.project = given(project, "project");
  options.type = flags.type;
  options.root = flags.root;
  // The keys of a daemon count too, if there is one.
  const deliver::CredentialStore credentials(
      deliver::CredentialStore::Options::FromEnvironment(globals.StateDir().value_or("")));
  const absl::StatusOr<deliver::Credential> key = credentials.Find(
      "", {.destination = destination, .server = server, .project = options.project});
  if (!key.ok()) return destination.WithLoginCommand(key.status(), server);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<deliver::CurlTransport> transport,
      deliver::CurlTransport::Create(deliver::CurlTransport::Options::FromEnvironment()));
  ProgressBar progress("download", /*lines=*/true);
  // Cannot fail: the flag's check accepted it.
  absl::ParseDuration(flags.timeout, &options.asking.timeout);
  options.asking.now = SteadyNow;
  options.asking.sleep = absl::SleepFor;
  options.asking.progress = [&progress](uint64_t done, uint64_t total) {
    progress.Update(done, total,
                    absl::StrCat(BytesText(static_cast<int64_t>(done)), " of ",
                                 BytesText(static_cast<int64_t>(total))));
  };
  const absl::StatusOr<deliver::DownloadReport> report =
      destination.Download(*transport, server, *key, options);
  progress.Clear();
  if (!report.ok()) {
    return absl::Status(report.status().code(),
                        absl::StrCat("download ", Printable(flags.name), " from ", server, ": ",
                                     Printable(report.status().message())));
  }
  std::cout << Printable(report->version) << "  " << Counted(report->files, "file") << ", "
            << BytesText(static_cast<int64_t>(report->bytes)) << " in " << flags.root;
  if (report->present > 0) std::cout << " (" << report->present << " were there)";
  std::cout << "\n";
  for (const std::string& reference : report->references) {
    std::cerr << "not downloaded, because it is a reference: " << Printable(reference) << "\n";
  }
  return absl::OkStatus();
}

}  // namespace ranklog::cli
