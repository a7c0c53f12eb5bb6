#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/base/text/shell_word.h"
#include "service/cli/command.h"
#include "service/cli/node/spools/salvage_report.h"
#include "service/cli/node/sync_pipeline.h"
#include "service/cli/output/json_text.h"
#include "service/cli/output/progress_bar.h"
#include "service/cli/output/table.h"
#include "service/storage/database/store_file.h"
#include "service/storage/directories/state_lock.h"
#include "service/storage/rows/damage.h"

namespace ranklog::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kRecoverFooter[] = R"(
FILE is a damaged store: a store that ranklogd set aside (`ranklog doctor` shows its path), or a state directory's
ranklog.db. Stop its daemon first. FILE is not changed. The runs are saved into a new store, in the directory
FILE.recovered or --to; all commands read it with --state-dir. Rows with a wrong checksum are left out and counted
as lost; rows of runs are aggregated again from the ranks' rows.

Saved runs stay on this node. To send a run that its tracker does not have:
`ranklog sync RUN --to wandb --state-dir DIR`.

Exit code 0: all readable rows are saved, even if other rows were lost. 1: nothing is saved, or only a part.

Examples:
  ranklog doctor
  ranklog recover ~/.local/state/ranklog/ranklog.db.damaged-20260704T120000Z
  ranklog runs --state-dir ~/.local/state/ranklog/ranklog.db.damaged-20260704T120000Z.recovered
  ranklog recover ranklog.db.damaged-20260704T120000Z --to /data/saved --json | jq .lost_rows)";

constexpr absl::Duration kRecoverPoll = absl::Milliseconds(20);
constexpr absl::Duration kRecoverPatience = absl::Minutes(1);  // maximum time without a new row

struct RecoverFlags {
  std::string file;
  std::string to;
  bool json = false;
};

// Aggregates the ranks' rows into runs. The caller must hold the lock of the directory.
absl::Status MakeRunRows(const std::string& dir) {
  ASSIGN_OR_RETURN(const auto pipeline, SyncPipeline::Open(dir));
  RETURN_IF_ERROR(pipeline->Start({}));
  ASSIGN_OR_RETURN(const auto reader, storage::StoreReader::Open(dir));
  ProgressBar progress("aggregate the rows", /*lines=*/false);
  uint64_t made = 0;
  uint64_t total = 0;  // at the first check, because completed streams are no longer live
  absl::Time changed = SteadyNow();
  while (SteadyNow() - changed < kRecoverPatience) {
    ASSIGN_OR_RETURN(const auto live, reader->LiveStreams());
    if (live.empty()) return absl::OkStatus();
    uint64_t left = live.size();
    for (const model::Stream& stream : live) left += stream.durable_seq - stream.aggregated_seq;
    total = std::max(total, left);
    progress.Update(total - left, total);
    if (std::exchange(made, total - left) != total - left) changed = SteadyNow();
    absl::SleepFor(kRecoverPoll);
  }
  return absl::UnavailableError(
      "the ranks' rows are saved, but not all of them can be aggregated into rows of runs");
}

// Whether this command, or the store that it creates, uses this file name.
bool IsOurs(const std::string& name) {
  return name == "lock" || absl::StartsWith(name, storage::kStoreFile) ||
         absl::StartsWith(name, kScratch);
}

// Takes the lock of an empty directory, or of one that an interrupted run of this command left. Any
// other content belongs to somebody else, and so does the target of a symbolic link.
absl::StatusOr<storage::StateLock> TakeEmpty(const std::string& dir) {
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(dir, error))) {
    return absl::PermissionDeniedError(dir + " is a symbolic link; remove it");
  }
  std::vector<fs::path> left;
  for (fs::directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!IsOurs(name)) {
      return absl::AlreadyExistsError(
          absl::StrCat(dir, " contains ", name, "; choose another directory with --to"));
    }
    if (name != "lock") left.push_back(entry->path());
  }
  ASSIGN_OR_RETURN(storage::StateLock lock, storage::StateLock::Acquire(dir));
  for (const fs::path& path : left) fs::remove_all(path, error);
  return lock;
}

void PrintSalvaged(const storage::Salvaged& salvaged, const std::string& to) {
  Table table({"RUN", "PROJECT", "RANK", "SAVED", "LOST"});
  for (const storage::Salvaged::Stream& stream : salvaged.streams) {
    table.AddRow({stream.run_id, stream.key.project, absl::StrCat(stream.key.rank),
                  absl::StrCat(stream.saved_rows), absl::StrCat(stream.lost_rows)});
  }
  std::cout << table.ToString(Terminal::Of(STDOUT_FILENO)) << Counted(salvaged.saved_rows(), "row")
            << " saved in " << to << ", " << salvaged.lost_rows() << " lost";
  if (salvaged.damaged_records > 0) {
    std::cout << "; " << Counted(salvaged.damaged_records, "damaged record") << " left out";
  }
  std::cout << "\nto see the runs: ranklog runs --state-dir " << to << "\n";
}

// A damaged store may have lost its header, but then its name shows what it is.
bool LooksLikeStore(const std::string& path) {
  if (absl::StartsWith(fs::path(path).filename().string(), storage::kStoreFile)) return true;
  constexpr std::streamoff kApplicationIdAt = 68;  // of SQLite's file format
  constexpr char kApplicationId[] = {'R', 'K', 'L', '1'};
  char id[sizeof kApplicationId] = {};
  std::ifstream file(path, std::ios::binary);
  file.seekg(kApplicationIdAt).read(id, sizeof id);
  return std::equal(std::begin(id), std::end(id), std::begin(kApplicationId));
}

// The path without symbolic links, because the lock and the -wal file are beside the store itself.
std::string ResolveLinks(const std::string& file) {
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(file, error);
  return error ? file : resolved.string();
}

// OK: `file` is a store, as far as its name or its header shows, and no process uses it. The path
// has no symbolic links.
absl::Status CheckNamedFile(const std::string& file) {
  std::error_code error;
  if (fs::is_directory(file, error)) {
    std::vector<std::string> stores = storage::SetAsideStores(file);
    const std::string in_use = absl::StrCat(file, "/", storage::kStoreFile);
    if (fs::exists(in_use, error)) stores.push_back(in_use);
    return absl::InvalidArgumentError(
        stores.empty()
            ? file + " is a directory without a store"
            : absl::StrCat(file, " is a directory; name a store in it, such as ", stores.front()));
  }
  if (!fs::is_regular_file(file, error)) {
    return absl::NotFoundError(absl::StrCat("there is no file ", file));
  }
  const uintmax_t names = fs::hard_link_count(file, error);
  if (!error && names > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat(file, " has ", names, " names (hard links), and its newest rows may be in a ",
                     "-wal file beside another one; remove the other names, or recover a copy of ",
                     "the store and its -wal file"));
  }
  if (!LooksLikeStore(file)) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, " is not a store of Ranklog, by its header; if it is one, give it a name such as ",
        storage::kStoreFile));
  }
  const fs::path path(file);
  const std::string dir = path.parent_path().string();
  const int64_t pid = path.filename() == storage::kStoreFile ? storage::StateLock::Holder(dir) : 0;
  if (pid == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("process ", pid, " uses ", file,
                   "; stop the daemon first; run: ranklog stop --state-dir ", dir));
}

absl::Status Recover(const Globals&, const RecoverFlags& flags) {
  const std::string file = ResolveLinks(flags.file);
  RETURN_IF_ERROR(CheckNamedFile(file));
  std::error_code error;
  std::string to = flags.to.empty() ? flags.file + ".recovered" : flags.to;
  while (to.size() > 1 && to.back() == '/') to.pop_back();
  if (fs::exists(to, error) && !fs::is_empty(to, error)) {
    return absl::AlreadyExistsError(
        absl::StrCat(to, " already exists; remove it, or choose another directory with --to"));
  }
  // Uses a temporary name until the store is complete, so that a partial store is not mistaken for
  // it.
  const std::string partial = to + ".partial";
  ASSIGN_OR_RETURN(const storage::StateLock lock, TakeEmpty(partial));
  const absl::StatusOr<storage::Salvaged> salvaged = SalvageInScratch(file, partial, partial);
  if (!salvaged.ok()) {
    fs::remove_all(partial, error);
    // Not kDataLoss, which refers to `ranklog doctor`: it reports the same.
    if (!absl::IsDataLoss(salvaged.status())) return salvaged.status();
    return absl::FailedPreconditionError(
        absl::StrCat(salvaged.status().message(), "; ", kNoRowSaved));
  }
  const absl::Status made = MakeRunRows(partial);
  fs::rename(partial, to, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat(
        "all is saved in ", partial, ", but it cannot be renamed to ", to, ": ", error.message(),
        "; remove ", to, ", then run: mv ", ShellWord(partial), " ", ShellWord(to)));
  }
  if (flags.json) {
    model::Json json = ToJson(*salvaged);
    json["file"] = flags.file;
    json["saved_to"] = to;
    std::cout << PrettyJson(json);
  } else {
    PrintSalvaged(*salvaged, to);
  }
  return made;
}

}  // namespace

void AddRecover(Program& program) {
  auto [options, flags] =
      program.Add("recover", "save the readable rows of a damaged store", kRecoverFooter, Recover);
  options.Add("FILE", &flags.file, "damaged store, e.g. ranklog.db.damaged-TIME",
              {.required = true});
  options.Add("--to", &flags.to, "directory of the new store; default FILE.recovered",
              {.type = "DIR"});
  options.Add("--json", &flags.json, "print an object, for programs");
}

}  // namespace ranklog::cli
