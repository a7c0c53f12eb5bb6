#include "service/cli/doctor/examination.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "ranklog/v1/places.h"
#include "service/base/number_text.h"
#include "service/base/printable.h"
#include "service/base/status_macros.h"
#include "service/cli/doctor/delivery_check.h"
#include "service/cli/doctor/node_check.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/disk_outlook.h"
#include "service/cli/node/left_spools.h"
#include "service/cli/node/salvage_report.h"
#include "service/cli/node/spool_dirs.h"
#include "service/cli/output/progress_bar.h"
#include "service/cli/output/terminal.h"
#include "service/query/run_report.h"
#include "service/storage/file_system.h"
#include "service/storage/recovery/damage.h"
#include "service/storage/state_dirs.h"

namespace ranklog::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = 4 << 20;
constexpr size_t kMaxNamesBytes = 200;  // limit for the names of damaged runs
// Larger files are not examined, because a copy could fill the directory for temporary files.
constexpr uint64_t kMaxLookedInto = 256 << 20;

Finding LookAtDirectory(const std::string& dir) {
  struct stat info {};
  if (stat(dir.c_str(), &info) != 0) {
    return {"directory", {{"path", dir}, {"present", false}}, dir + " does not exist yet", ""};
  }
  Finding finding{
      "directory", {{"path", dir}, {"present", true}, {"mode", info.st_mode & 07777}}, dir, ""};
  const absl::Status local = storage::CheckLocal(dir);
  if (!S_ISDIR(info.st_mode)) {
    finding.advice = "not a directory; choose one with --state-dir";
  } else if (!local.ok()) {
    finding.advice = std::string(local.message());
  } else if (info.st_uid != geteuid()) {
    finding.advice = "it belongs to another user; choose a directory of your own with --state-dir";
  } else if ((info.st_mode & 077) != 0) {
    finding.advice = absl::StrCat("it is accessible to other users; run: chmod 700 ", dir);
  }
  return finding;
}

// The candidates before `dir`, and why the store is in none of them.
std::vector<Finding> LookAtSkipped(const std::string& dir) {
  const std::vector<std::string> dirs = storage::DefaultStateDirs();
  std::error_code ignored;
  const auto chosen = std::find_if(dirs.begin(), dirs.end(), [&](const std::string& each) {
    return each == dir || fs::equivalent(each, dir, ignored);
  });
  if (chosen == dirs.end()) return {};  // the user named the directory
  std::vector<Finding> findings;
  for (auto each = dirs.begin(); each != chosen; ++each) {
    const absl::Status usable = storage::CheckUsable(*each);
    std::string why = "it has no store";
    if (!usable.ok()) {
      why = std::string(usable.message());
    } else if (storage::StateLock::Holder(dir) != 0) {
      why =
          "usable now, but the running daemon uses another directory; the next daemon will use it";
    }
    findings.push_back({"skipped",
                        {{"path", *each}, {"reason", why}},
                        absl::StrCat(*each, " is skipped: ", why),
                        ""});
  }
  return findings;
}

Finding LookAtDaemon(const Globals& globals, const std::string& dir) {
  const int64_t pid = storage::StateLock::Holder(dir);
  if (pid == 0) {
    Finding finding{"daemon", {{"running", false}}, "not running", ""};
    if (const auto log = FindDaemonLog(globals.address); log.has_value()) {
      finding.data["log"] = log->path;
      finding.data["last_words"] = log->last_words;
      absl::StrAppend(&finding.text, "; its log is ", log->path);
      if (!log->last_words.empty()) {
        finding.advice = "it could not start: " + Printable(log->last_words);
      }
    }
    return finding;
  }
  Finding finding{"daemon",
                  {{"running", true}, {"pid", pid}},
                  absl::StrCat("pid ", pid, " holds the directory"),
                  ""};
  const auto daemon = FindDaemon(dir, globals.address);
  if (daemon) {
    finding.data["version"] = daemon->version;
    finding.data["started_by"] = daemon->started_by;
    finding.data["address"] = daemon->address;
    absl::StrAppend(&finding.text, ", version ", daemon->version, ", started by ",
                    daemon->started_by, ", answers at ", daemon->address);
    if (const auto log = FindDaemonLog(daemon->address);
        log.has_value() && daemon->started_by == "rank") {
      finding.data["log"] = log->path;
      absl::StrAppend(&finding.text, ", logs to ", log->path);
    }
    if (daemon->version != RANKLOG_VERSION) {
      finding.advice = "this program has version " RANKLOG_VERSION
                       "; restart the daemon, or use the program that came with it";
    }
    if (const std::string trouble = StoreProblem(*daemon); !trouble.empty()) {
      finding.advice = trouble;
    }
  } else if (const std::string silent = TimedOutAddress(pid, globals.address); !silent.empty()) {
    finding.data["address"] = silent;
    finding.advice = TimeoutText(pid, silent);
  } else if (globals.address.empty()) {
    absl::StrAppend(&finding.text,
                    "; it listens at none of the usual addresses; give its address with --address");
  } else {
    finding.advice = absl::StrCat("no answer at ", globals.address,
                                  ": check the address, and whether the daemon is stopped");
  }
  return finding;
}

// A daemon that listens where ranks look for their daemon but keeps another directory, while no
// daemon runs for `dir`. It has the ranks' rows, and this command does not show them.
absl::optional<Finding> LookAtOtherDaemon(const Globals& globals, const std::string& dir) {
  const std::vector<std::string> addresses =
      globals.address.empty() ? UsualAddresses() : std::vector<std::string>{globals.address};
  for (const std::string& address : addresses) {
    const absl::StatusOr<DaemonStatus> daemon = AskDaemon(address);
    if (daemon.ok()) {
      return Finding{"elsewhere",
                     {{"pid", daemon->pid}, {"address", address}, {"state_dir", daemon->state_dir}},
                     absl::StrCat("pid ", daemon->pid, " answers at ", address, " and keeps ",
                                  Printable(daemon->state_dir)),
                     absl::StrCat("ranks send their rows to that daemon, so they are not in ", dir,
                                  "; run: ranklog doctor --address ", address)};
    }
    if (!TimedOut(address)) continue;
    return Finding{"elsewhere",
                   {{"pid", TimedOutPid(address)}, {"address", address}},
                   absl::StrCat("a process listens at ", address),
                   TimeoutText(TimedOutPid(address), address)};
  }
  return absl::nullopt;
}

// The socket of a daemon that would be started here, or of the daemon that the user named.
Finding LookAtSocket(const Globals& globals) {
  std::string address = globals.address;
  if (const char* const named = std::getenv("RANKLOG_ADDRESS");
      address.empty() && named != nullptr) {
    address = named;
  }
  if (address.empty()) {
    const std::vector<v1::PrivateDir> dirs = v1::StandardDirs();
    const auto dir = std::find_if(dirs.begin(), dirs.end(), v1::CanBeUsed);
    if (dir == dirs.end()) {
      return {"socket",
              {{"path", nullptr}},
              "none of the usual directories is usable",
              "set RANKLOG_ADDRESS to unix:PATH, in a private directory of your own"};
    }
    address = absl::StrCat("unix:", dir->path, "/", v1::kSocketFile);
  }
  const fs::path path(std::string(absl::StripPrefix(address, "unix:")));
  const std::string dir = path.parent_path().string();
  Finding finding{"socket", {{"path", path.string()}}, Printable(path.string()), ""};
  struct stat info {};
  const bool there = lstat(dir.c_str(), &info) == 0;
  const bool listens = lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
  finding.data["present"] = listens;
  if (!listens) absl::StrAppend(&finding.text, " does not exist: no daemon listens");
  if (!absl::StartsWith(address, "unix:/")) {
    finding.advice = "not an address; use unix:/PATH";
  } else if (path.string().size() >= sizeof sockaddr_un{}.sun_path) {
    finding.advice = absl::StrCat("its path has more than ", sizeof sockaddr_un{}.sun_path - 1,
                                  " bytes; choose a shorter one for RANKLOG_ADDRESS");
  } else if (!there) {
    const std::vector<v1::PrivateDir> standard = v1::StandardDirs();
    const bool made =
        std::any_of(standard.begin(), standard.end(),
                    [&](const v1::PrivateDir& each) { return each.create && each.path == dir; });
    if (!made) {
      finding.advice = absl::StrCat("its directory does not exist; run: mkdir -m 700 ", dir);
    }
  } else if (!v1::IsOwnDirectory(dir, 0)) {
    finding.advice =
        absl::StrCat(Printable(dir), " is not a directory of your own; choose another one");
  } else if (!v1::IsOwnDirectory(dir, 077)) {
    finding.advice = absl::StrCat(Printable(dir), " is accessible to other users; run: chmod 700 ",
                                  Printable(dir));
  }
  return finding;
}

Finding LookAtRoom(const std::string& dir, const absl::optional<DaemonStatus>& daemon) {
  constexpr int64_t kLittle = 256 << 20;  // enough for minutes of a fast training
  const DiskOutlook disk =
      CheckDisk(dir, daemon ? daemon->growth_per_second : absl::optional<double>());
  const absl::string_view is_volatile = storage::VolatileFileSystemName(dir);
  Finding finding{
      "disk",
      {{"bytes", disk.bytes}, {"free_bytes", disk.free_bytes}, {"volatile", !is_volatile.empty()}},
      DiskText(disk),
      ""};
  if (!is_volatile.empty()) {
    absl::StrAppend(&finding.text, "; on ", is_volatile,
                    ", which ends with this container or machine");
  }
  if (disk.bytes != 0 && disk.free_bytes < kLittle) {
    finding.advice = "free space on it, or use another disk (--state-dir of ranklogd)";
  } else if (disk.lasts && *disk.lasts < absl::Hours(24)) {
    finding.advice = "free space on it, or keep less (--keep-for, --keep-bytes of ranklogd)";
  }
  return finding;
}

// Reads all batches. `batches` returns batches from a position on.
absl::Status ReadAll(
    uint64_t next,
    absl::FunctionRef<absl::StatusOr<std::vector<storage::StoredBatch>>(uint64_t)> batches) {
  while (true) {
    ASSIGN_OR_RETURN(const auto read, batches(next));
    if (read.empty()) return absl::OkStatus();
    next = read.back().batch.last + 1;
  }
}

absl::Status ReadRun(storage::StoreReader& reader, int64_t run) {
  RETURN_IF_ERROR(reader.Updates(run, 0).status());
  RETURN_IF_ERROR(reader.RunShapes(run).status());
  RETURN_IF_ERROR(ReadAll(0, [&](uint64_t at) { return reader.RunBatches(run, at, kReadBytes); }));
  RETURN_IF_ERROR(
      ReadAll(0, [&](uint64_t at) { return reader.ReplayBatches(run, at, kReadBytes); }));
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run));
  for (const model::Stream& stream : streams) {
    RETURN_IF_ERROR(reader.Shapes(stream.id).status());
    RETURN_IF_ERROR(ReadAll(
        1, [&](uint64_t at) { return reader.StreamBatches(stream.id, at - 1, kReadBytes); }));
  }
  return absl::OkStatus();
}

// Finds runs with unreadable data. Reads all rows.
absl::Status FindDamagedRuns(storage::StoreReader& reader, std::vector<std::string>* damaged) {
  ASSIGN_OR_RETURN(const std::vector<model::Run> runs, reader.Runs());
  ProgressBar progress("read the store", /*lines=*/false);
  uint64_t done = 0;
  for (const model::Run& run : runs) {
    const absl::Status status = ReadRun(reader, run.id);
    if (absl::IsNotFound(status)) continue;  // it was delivered and removed in the meantime
    if (!absl::IsDataLoss(status)) RETURN_IF_ERROR(status);
    if (!status.ok()) damaged->push_back(run.run_id);
    progress.Update(++done, runs.size());
  }
  return absl::OkStatus();
}

std::string RecoverAdvice(const std::string& dir, const std::string& path) {
  return absl::StrCat(storage::StateLock::Holder(dir) == 0 ? "" : "stop ranklogd, then ",
                      "save its readable rows; run: ranklog recover ", path);
}

// Runs with rows that are missing from the run or were logged twice. Nothing can be done about
// them.
std::vector<Finding> LookAtRows(const std::vector<query::RunReport>& runs) {
  std::vector<std::string> names;
  model::Json data = model::Json::array();
  for (const query::RunReport& report : runs) {
    const std::pair<uint64_t, const char*> counts[] = {{report.losses.total(), " lost"},
                                                       {report.run.late_rows, " late"},
                                                       {report.run.replayed_rows, " replayed"}};
    std::vector<std::string> texts;
    for (const auto& [rows, what] : counts) {
      if (rows > 0) texts.push_back(absl::StrCat(rows, what));
    }
    if (texts.empty()) continue;
    names.push_back(
        absl::StrCat(Printable(report.run.run_id), " (", absl::StrJoin(texts, ", "), ")"));
    data.push_back({{"run_id", report.run.run_id},
                    {"lost", report.losses.total()},
                    {"late_rows", report.run.late_rows},
                    {"replayed_rows", report.run.replayed_rows}});
  }
  if (names.empty()) return {};
  std::string text = absl::StrJoin(names, ", ");
  if (text.size() > kMaxNamesBytes) text = absl::StrCat(text.substr(0, kMaxNamesBytes), " ...");
  return {
      {"rows", {{"runs", data}}, absl::StrCat("not in their runs, or logged again: ", text), ""}};
}

// Empty if the store cannot be read; the finding for the store reports that.
std::vector<query::RunReport> ReadRuns(const std::string& dir) {
  const auto reader = storage::StoreReader::Open(dir);
  if (!reader.ok()) return {};
  return query::ReportRuns(**reader).value_or(std::vector<query::RunReport>());
}

// The libranklog versions of live ranks. An older version is not a problem.
absl::optional<Finding> LookAtClients(const std::string& dir) {
  const auto reader = storage::StoreReader::Open(dir);
  if (!reader.ok()) return absl::nullopt;
  const auto streams = (*reader)->LiveStreams();
  if (!streams.ok() || streams->empty()) return absl::nullopt;
  std::set<std::string> versions;
  for (const model::Stream& stream : *streams) versions.insert(stream.identity.client_version);
  return Finding{
      "ranks",
      {{"streams", streams->size()}, {"versions", versions}},
      absl::StrCat(Counted(streams->size(), "stream"), " of libranklog ",
                   Printable(absl::StrJoin(versions, ", ")), "; this is ", RANKLOG_VERSION),
      ""};
}

Finding LookAtStore(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", storage::kStoreFile);
  Finding finding{"store", {{"path", path}}, path, ""};
  auto reader = storage::StoreReader::Open(dir);
  absl::Status status = reader.status();
  finding.data["present"] = !absl::IsNotFound(status);
  if (absl::IsNotFound(status)) {
    finding.text = "none yet";
    return finding;
  }
  std::vector<std::string> damaged_runs;
  if (status.ok()) status = (*reader)->Check();
  if (status.ok()) status = FindDamagedRuns(**reader, &damaged_runs);
  finding.data["intact"] = status.ok() && damaged_runs.empty();
  if (absl::IsDataLoss(status)) {
    finding.text = absl::StrCat("damaged: ", absl::string_view(status.message()));
    finding.advice = absl::StrCat("the next ranklogd sets it aside and creates a new store; ",
                                  RecoverAdvice(dir, path));
    return finding;
  }
  if (!status.ok()) {
    finding.advice = std::string(status.message());
    return finding;
  }
  const auto runs = (*reader)->Runs();
  finding.data["damaged_runs"] = damaged_runs;
  absl::StrAppend(&finding.text, ", ", BytesText((*reader)->FileBytes().value_or(0)), ", ",
                  Counted(runs.ok() ? runs->size() : 0, "run"));
  if (damaged_runs.empty()) {
    absl::StrAppend(&finding.text, ", no damage found");
  } else {
    absl::StrAppend(&finding.text, ", ", damaged_runs.size(), " of them with damaged rows: ",
                    Printable(absl::StrJoin(damaged_runs, " ").substr(0, kMaxNamesBytes)));
    finding.advice =
        absl::StrCat("`ranklog verify RUN` lists the rows; ", RecoverAdvice(dir, path));
  }
  return finding;
}

// A store in another standard place, for example because another container held the usual place at
// that time. No daemon delivers its remaining rows.
absl::optional<Finding> LookAtOtherStore(const std::string& dir) {
  const auto reader = storage::StoreReader::Open(dir);
  if (!reader.ok()) return absl::nullopt;
  const auto runs = query::ReportRuns(**reader);
  if (!runs.ok()) return absl::nullopt;
  const auto open = std::count_if(runs->begin(), runs->end(), [](const query::RunReport& run) {
    return run.run.state == model::RunState::kRunning ||
           std::any_of(run.destinations.begin(), run.destinations.end(),
                       [&](const query::DestinationReport& to) { return IsOpen(run, to); });
  });
  Finding finding{"other store",
                  {{"path", dir}, {"runs", runs->size()}, {"waiting_runs", open}},
                  absl::StrCat(dir, ", ", Counted(runs->size(), "run")),
                  ""};
  if (open > 0 && storage::StateLock::Holder(dir) == 0) {
    finding.advice =
        absl::StrCat(Counted(static_cast<uint64_t>(open), "run"), open == 1 ? " waits" : " wait",
                     " there, and no daemon is running; run: ranklog sync --state-dir ", dir);
  }
  return finding;
}

Finding LookAtSetAside(const std::string& path) {
  Finding finding{"set aside", {{"path", path}}, path, ""};
  std::error_code error;
  if (fs::exists(absl::StrCat(path, ".recovered"), error)) {
    finding.data["recovered"] = true;
    absl::StrAppend(&finding.text, ", saved in ", path, ".recovered");
    return finding;
  }
  finding.data["recovered"] = false;
  finding.advice = absl::StrCat("save its readable rows; run: ranklog recover ", path,
                                " (or remove the file if you do not need it)");
  const uint64_t bytes = fs::file_size(path, error);
  absl::StrAppend(&finding.text, ", ", BytesText(static_cast<int64_t>(bytes)));
  if (error || bytes > kMaxLookedInto) return finding;
  const auto salvaged = SalvageInScratch(path, fs::temp_directory_path(error), "");
  if (salvaged.ok()) {
    std::set<std::string> runs;
    for (const auto& stream : salvaged->streams) runs.insert(stream.run_id);
    finding.data.update(ToJson(*salvaged));
    absl::StrAppend(&finding.text, ", ", Counted(salvaged->saved_rows(), "row"), " of ",
                    Counted(runs.size(), "run"), " can be read, ", salvaged->lost_rows(),
                    " cannot");
  } else if (absl::IsDataLoss(salvaged.status())) {
    absl::StrAppend(&finding.text, ", no row can be read");
    finding.advice = "no row can be saved; restore the file from a backup, or remove it";
  } else {
    absl::StrAppend(&finding.text,
                    ", not examined: ", absl::string_view(salvaged.status().message()));
  }
  return finding;
}

absl::optional<Finding> LookAtSpool(const std::string& dir) {
  size_t rings = 0;
  size_t damaged = 0;
  int64_t bytes = 0;
  std::vector<std::string> others;  // rings of other versions
  std::error_code error;
  for (fs::directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!absl::StartsWith(name, "ring-")) continue;
    ++(absl::EndsWith(name, ".damaged") ? damaged : rings);
    if (const std::string version = OtherVersion(entry->path().string()); !version.empty()) {
      others.push_back(absl::StrCat(name, " (", Printable(version), ")"));
    }
    struct stat info {};
    if (stat(entry->path().c_str(), &info) == 0) bytes += info.st_blocks * 512;
  }
  if (rings + damaged == 0) return absl::nullopt;
  Finding finding{"spool",
                  {{"path", dir},
                   {"rings", rings},
                   {"damaged", damaged},
                   {"other_versions", others},
                   {"bytes", bytes}},
                  absl::StrCat(dir, ", ", Counted(rings, "ring"), ", ", damaged, " damaged, ",
                               BytesText(bytes)),
                  ""};
  if (damaged > 0) {
    finding.advice =
        "damaged rings were renamed to *.damaged; remove them when you no longer need them";
  }
  if (!others.empty()) {
    finding.advice =
        absl::StrCat("another version of Ranklog wrote ", absl::StrJoin(others, ", "),
                     "; run the ranklogd of that version to store their rows; until then they stay "
                     "unchanged",
                     finding.advice.empty() ? "" : "; ", finding.advice);
  }
  return finding;
}

// Rows of ranks for which no daemon runs.
absl::optional<Finding> LookAtLeftSpools(const Globals& globals, const std::string& dir) {
  const std::vector<LeftSpool> left = FindUnreadSpools(globals, dir);
  if (left.empty()) return absl::nullopt;
  std::vector<std::string> paths;
  for (const LeftSpool& spool : left) paths.push_back(spool.path);
  return Finding{"spool",
                 {{"left", paths}, {"left_rows", LeftRows(left)}},
                 LeftSpoolsText(left),
                 HowToTake(globals, dir, left)};
}

// Rings that are not files, because no directory had room for them.
std::vector<Finding> LookAtUnnamedSpools(const std::vector<query::RunReport>& runs) {
  std::vector<Finding> findings;
  for (const query::RunReport& run : runs) {
    for (const std::string& unnamed : UnnamedTexts(run)) {
      findings.push_back(
          {"spool",
           {{"unnamed", unnamed}},
           Printable(unnamed),
           "free space there (df -h /dev/shm /var/tmp), or set RANKLOG_SPOOL_DIR to a "
           "local directory of your own, and start these ranks again"});
    }
  }
  return findings;
}

// The directories where our ranks create spools and the daemon its socket.
absl::optional<Finding> LookAtPlace(const v1::PrivateDir& dir) {
  if (!v1::IsTaken(dir)) return absl::nullopt;
  struct stat info {};
  lstat(dir.path.c_str(), &info);
  return Finding{
      "spool",
      {{"path", dir.path}, {"owner", info.st_uid}, {"mode", info.st_mode & 07777}},
      absl::StrCat(dir.path, " is not a private directory of your own: it belongs to user ",
                   info.st_uid),
      "ranks and the daemon ignore it; remove it, or ask its owner to"};
}

}  // namespace

std::vector<Finding> RunChecks(const Globals& globals, const std::string& state_dir, int ranks) {
  std::vector<Finding> findings = {LookAtDirectory(state_dir)};
  const auto add = [&](std::vector<Finding> more) {
    for (Finding& finding : more) findings.push_back(std::move(finding));
  };
  add(LookAtSkipped(state_dir));
  const int64_t pid = storage::StateLock::Holder(state_dir);
  findings.push_back(
      LookAtRoom(state_dir, pid == 0 ? absl::nullopt : FindDaemon(state_dir, globals.address)));
  findings.push_back(LookAtSocket(globals));
  findings.push_back(LookAtDaemon(globals, state_dir));
  if (pid == 0) {
    if (auto other = LookAtOtherDaemon(globals, state_dir)) add({*std::move(other)});
  }
  if (auto ends = CheckSupervision(pid); pid != 0 && ends.has_value()) add({*std::move(ends)});
  if (auto clients = LookAtClients(state_dir); clients.has_value()) add({*std::move(clients)});
  findings.push_back(LookAtStore(state_dir));
  const std::vector<query::RunReport> runs = ReadRuns(state_dir);
  add(LookAtRows(runs));
  add(CheckDeliveries(runs, pid != 0));
  add(CheckServers(state_dir, runs));
  findings.push_back(CheckClock(runs.empty() ? 0 : runs.front().run.started_us));
  findings.push_back(CheckLimits(ranks));
  findings.push_back(CheckSpoolRoom(ranks));
  for (const std::string& dir : storage::DefaultStateDirs()) {
    std::error_code ignored;
    if (fs::equivalent(dir, state_dir, ignored)) continue;
    if (auto other = LookAtOtherStore(dir); other.has_value()) {
      findings.push_back(*std::move(other));
    }
  }
  for (const std::string& path : storage::SetAsideStores(state_dir)) {
    findings.push_back(LookAtSetAside(path));
  }
  add(LookAtUnnamedSpools(runs));
  for (const v1::PrivateDir& dir : v1::StandardDirs()) {
    if (auto taken = LookAtPlace(dir); taken.has_value()) findings.push_back(*std::move(taken));
  }
  if (auto left = LookAtLeftSpools(globals, state_dir); left.has_value()) add({*std::move(left)});
  if (const std::string unmade = UnaggregatedRowsText(state_dir); !unmade.empty()) {
    findings.push_back({"rows", {{"unmade", unmade}}, unmade, kHowToAggregate});
  }
  for (const std::string& dir : SpoolDirs(state_dir)) {
    if (auto spool = LookAtSpool(dir); spool.has_value()) findings.push_back(*std::move(spool));
  }
  return findings;
}

}  // namespace ranklog::cli
