#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/json_text.h"
#include "service/cli/salvage_report.h"
#include "service/cli/sync_pipeline.h"
#include "service/cli/table.h"

namespace ranklog::cli {
namespace {

constexpr char kFooter[] = R"(
The damaged file is only read. The runs are saved into a store of their own, as FILE.recovered or where --to
says, to be looked at by every command with --state-dir. Rows whose checksums do not hold are left out and
counted as lost; the rows of runs are made anew from those that the ranks sent.

Examples:
  ranklog doctor
  ranklog recover ~/.local/state/ranklog/ranklog.db.damaged-20260704T120000Z
  ranklog runs --state-dir ~/.local/state/ranklog/ranklog.db.damaged-20260704T120000Z.recovered)";

constexpr absl::Duration kLook = absl::Milliseconds(20);
constexpr absl::Duration kPatience = absl::Minutes(1);  // without a row that is made

struct Flags {
  std::string file;
  std::string to;
  bool json = false;
};

// Makes the rows of the runs from those of the ranks.
absl::Status MakeRunRows(const std::string& dir, storage::StateLock lock) {
  ASSIGN_OR_RETURN(const auto pipeline, SyncPipeline::Open(dir, std::move(lock)));
  RETURN_IF_ERROR(pipeline->Start({}));
  ASSIGN_OR_RETURN(const auto reader, storage::StoreReader::Open(dir));
  uint64_t made = 0;
  absl::Time changed = absl::Now();
  while (absl::Now() - changed < kPatience) {
    ASSIGN_OR_RETURN(const auto live, reader->LiveStreams());
    if (live.empty()) return absl::OkStatus();
    uint64_t sum = live.size();
    for (const model::Stream& stream : live) sum += stream.aggregated_seq;
    if (std::exchange(made, sum) != sum) changed = absl::Now();
    absl::SleepFor(kLook);
  }
  return absl::UnavailableError(
      absl::StrCat("the ranks' rows are saved in ", dir, ", but not all rows of runs are made"));
}

absl::Status Recover(const Flags& flags) {
  const std::string to = flags.to.empty() ? flags.file + ".recovered" : flags.to;
  if (!std::filesystem::is_regular_file(flags.file)) {
    return absl::NotFoundError(absl::StrCat("there is no file ", flags.file));
  }
  ASSIGN_OR_RETURN(storage::StateLock lock, storage::StateLock::Acquire(to));
  ASSIGN_OR_RETURN(const storage::Salvaged salvaged, SalvageInScratch(flags.file, to, to));
  RETURN_IF_ERROR(MakeRunRows(to, std::move(lock)));
  if (flags.json) {
    model::Json json = ToJson(salvaged);
    json["file"] = flags.file;
    json["saved_to"] = to;
    std::cout << PrettyJson(json);
    return absl::OkStatus();
  }
  Table table({"RUN", "PROJECT", "RANK", "SAVED", "LOST"});
  for (const storage::Salvaged::Stream& stream : salvaged.streams) {
    table.AddRow({stream.run_id, stream.key.project, absl::StrCat(stream.key.rank),
                  absl::StrCat(stream.saved_rows), absl::StrCat(stream.lost_rows)});
  }
  std::cout << table.ToString(Terminal::Of(STDOUT_FILENO)) << salvaged.saved_rows()
            << " rows saved in " << to << ", " << salvaged.lost_rows() << " lost";
  if (salvaged.lost_batches > 0) {
    std::cout << "; " << salvaged.lost_batches << " damaged records left out";
  }
  std::cout << "\nLook at them: ranklog runs --state-dir " << to << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddRecover(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("recover", "save what can be read of a damaged store");
  const auto flags = std::make_shared<Flags>();
  command->footer(kFooter);
  command->add_option("FILE", flags->file, "the damaged store, e.g. ranklog.db.damaged-TIME")
      ->required();
  command->add_option("--to", flags->to, "the directory of the new store; else FILE.recovered")
      ->type_name("DIR");
  command->add_flag("--json", flags->json, "an object, for programs");
  command->callback([&action, flags] { action = [flags] { return Recover(*flags); }; });
}

}  // namespace ranklog::cli
