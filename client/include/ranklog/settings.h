#ifndef RANKLOG_SETTINGS_H_
#define RANKLOG_SETTINGS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ranklog/export.h"

namespace ranklog {

// Which runs the tracker shows for a job of many ranks.
enum class LogStrategy {
  kMain,  // one: rank 0's rows, joined by statistics over the ranks
  kNode,  // one per node: its first rank's rows, joined by statistics over the node's ranks
  kAll,   // one per rank
};

// How bad what a message says is.
enum class Severity {
  kInfo,
  kWarning,  // something waits, or was refused
  kError,    // a person has to do something
};

// What a run is, who this process is in its job, and how the log leaves it.
//
// Precedence: what the program sets > RANKLOG_* > WANDB_* > the launcher's variables. An unset
// optional means "decide in Init": FromEnvironment() has by then looked everywhere.
struct RANKLOG_EXPORT Settings {
  // Reads the environment of this process; never fails. What cannot be parsed is kept for
  // Validate() to report.
  static Settings FromEnvironment();

  // Everything that is wrong with these settings, a sentence each that says what to do; empty if
  // nothing is. Init() tells them in the terminal, takes something usable instead, and keeps the
  // rows.
  std::vector<std::string> Validate() const;

  // ---- The run ----
  std::string project;  // RANKLOG_PROJECT, WANDB_PROJECT; else "uncategorized"
  std::string entity;   // RANKLOG_ENTITY, WANDB_ENTITY; empty: the server's default
  // RANKLOG_RUN_ID, WANDB_RUN_ID; else derived from the launcher so that all ranks of a job agree,
  // else random. [A-Za-z0-9_.-], 1 to 128 characters
  std::string run_id;
  std::string name;               // RANKLOG_NAME, WANDB_NAME
  std::string group;              // RANKLOG_RUN_GROUP, WANDB_RUN_GROUP; else the run id
  std::string job_type;           // RANKLOG_JOB_TYPE, WANDB_JOB_TYPE
  std::string notes;              // RANKLOG_NOTES, WANDB_NOTES
  std::vector<std::string> tags;  // RANKLOG_TAGS, WANDB_TAGS: comma-separated
  std::string resume;             // RANKLOG_RESUME, WANDB_RESUME: allow, must, never, auto
  std::string program;            // RANKLOG_PROGRAM, WANDB_PROGRAM; else the executable's path
  std::string host;               // RANKLOG_HOST, WANDB_HOST; else the host name
  LogStrategy log_strategy = LogStrategy::kMain;  // RANKLOG_LOG_STRATEGY: main, node, all
  std::vector<std::string> rank_statistics;  // RANKLOG_RANK_STATISTICS: of mean min max std argmin
                                             // argmax; "none"; default mean,min,max,std,argmax

  // ---- Where it goes ----
  // RANKLOG_DESTINATIONS: wandb, local; empty: wandb if there are credentials, else local.
  // WANDB_MODE=offline: local; disabled: see `disabled`
  std::vector<std::string> destinations;
  std::string base_url;                            // WANDB_BASE_URL; empty: W&B's public server
  std::map<std::string, std::string> credentials;  // WANDB_API_KEY; sent at attach, never stored
  bool disabled = false;  // WANDB_MODE=disabled: Log() does nothing and returns true

  // ---- This process in its job: RANKLOG_RANK and so on; torchrun RANK LOCAL_RANK WORLD_SIZE
  // LOCAL_WORLD_SIZE GROUP_RANK; Slurm SLURM_PROCID SLURM_LOCALID SLURM_STEP_NUM_TASKS SLURM_NODEID
  // (only with SLURM_STEP_ID: a batch script has them too, and is no rank); Open MPI
  // OMPI_COMM_WORLD_*; PMI_RANK PMI_SIZE. All or none. ----
  std::optional<int> rank;        // 0 .. world_size-1; default 0
  std::optional<int> local_rank;  // default: rank on one node, else 0
  std::optional<int> world_size;  // default 1
  std::optional<int> local_world_size;
  std::optional<int> node_rank;  // default rank / local_world_size
  std::string node;              // RANKLOG_NODE, SLURMD_NODENAME; else the host name

  // ---- How it leaves this process ----
  // RANKLOG_ADDRESS: unix:PATH, of at most 107 bytes; empty: ranklogd.sock in /run/ranklog/UID,
  // $XDG_RUNTIME_DIR/ranklog, /dev/shm/ranklog-UID or /var/tmp/ranklog-UID, the first that is ours
  std::string address;
  std::string state_dir;  // RANKLOG_STATE_DIR: only for a daemon that this process starts
  std::string spool_dir;  // RANKLOG_SPOOL_DIR: tried before the same directories
  // RANKLOG_SPOOL_BYTES: of the first thread that logs; 64 KiB to 64 MiB, rounded up to pages.
  // A row takes at most half of it. Other threads have a sixteenth (at least 512 KiB), and as much
  // as the first one from their first row on that does not fit.
  size_t spool_bytes = 8 << 20;
  std::chrono::milliseconds flush_interval{
      100};  // RANKLOG_FLUSH_INTERVAL_MS: 1 to 60000; 1 s costs a third of 100 ms
  std::chrono::milliseconds finish_timeout{10000};  // RANKLOG_FINISH_TIMEOUT_MS: 0 to 3600000
  // RANKLOG_FINISH=delivered[:TIMEOUT], such as delivered:10m. Not 0: the end of the run also waits
  // until its tracker has all of it, for at most so long; up to 24 h. For a container, which takes
  // the daemon with it. 0, or RANKLOG_FINISH=durable: it does not.
  std::chrono::milliseconds delivery_timeout{0};
  // Of RANKLOG_FINISH=delivered. A run that was delivered while it went on has at most 15 s of rows
  // left. Five minutes outlast the restart of a tracker, and hold GPUs for no longer.
  static constexpr std::chrono::milliseconds kDeliveryTimeout{300000};
  bool start_daemon = true;  // RANKLOG_START_DAEMON: start `daemon` detached when none answers
  std::string daemon;  // RANKLOG_DAEMON: path of ranklogd; empty: beside the program, beside this
                       // library, then PATH

  // ---- What its user is told: the run and where it goes, each trouble and its end, the run's end.
  // Rank 0 tells of the run, the first rank of each node of its troubles; a forked child is silent.
  // ----
  bool quiet = false;  // RANKLOG_QUIET: 1: nothing is told
  // Takes each line instead of stderr, without "ranklog: " before it. Called on the library's
  // background thread, which sends nothing meanwhile; it may call Log() and stats(), nothing else
  // of a run. What it throws is dropped.
  std::function<void(Severity severity, const std::string& text)> on_message;

  std::vector<std::string>
      environment_errors;  // what FromEnvironment() could not parse; for Validate()
};

}  // namespace ranklog

#endif  // RANKLOG_SETTINGS_H_
