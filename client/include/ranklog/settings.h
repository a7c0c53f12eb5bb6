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
  kMain,  // one run: rank 0's rows, with statistics over the ranks
  kNode,  // one run per node: its first rank's rows, with statistics over the node's ranks
  kAll,   // one run per rank
};

// How serious a message is.
enum class Severity {
  kInfo,
  kWarning,  // rows wait, or something was refused
  kError,    // the user must act
};

// Describes the run, the place of this process in its job, and how rows leave the process.
//
// Precedence: values set by the program > RANKLOG_* > WANDB_* > the launcher's variables. If an
// optional is still unset after FromEnvironment(), Init() chooses the value.
struct RANKLOG_EXPORT Settings {
  // Reads the environment of this process. Never fails: Validate() reports what cannot be parsed.
  static Settings FromEnvironment();

  // All mistakes in these settings, one sentence each, with what to do or what Init() uses instead.
  // Empty if there are none. Init() prints them in the terminal, and keeps the rows.
  std::vector<std::string> Validate() const;

  // ---- The run ----
  std::string project;  // RANKLOG_PROJECT, WANDB_PROJECT; else "uncategorized"
  std::string entity;   // RANKLOG_ENTITY, WANDB_ENTITY; empty: the server's default
  // RANKLOG_RUN_ID, WANDB_RUN_ID; else derived from the launcher, so that all ranks of a job agree;
  // else random. [A-Za-z0-9_.-], 1 to 128 characters
  std::string run_id;
  std::string name;  // RANKLOG_NAME, WANDB_NAME
  // RANKLOG_RUN_GROUP, WANDB_RUN_GROUP; else slurm-ARRAYJOB in a Slurm job array; else the run id
  std::string group;
  std::string job_type;           // RANKLOG_JOB_TYPE, WANDB_JOB_TYPE
  std::string notes;              // RANKLOG_NOTES, WANDB_NOTES
  std::vector<std::string> tags;  // RANKLOG_TAGS, WANDB_TAGS: comma-separated
  std::string resume;             // RANKLOG_RESUME, WANDB_RESUME: allow, must, never, auto
  std::string program;            // RANKLOG_PROGRAM, WANDB_PROGRAM; else the executable's path
  std::string host;               // RANKLOG_HOST, WANDB_HOST; else the host name
  LogStrategy log_strategy = LogStrategy::kMain;  // RANKLOG_LOG_STRATEGY: main, node, all
  // RANKLOG_RANK_STATISTICS, such as train/loss=mean,max;perf/*=max,argmax;*=none. Each item is a
  // rule "GLOB=mean,max", or one statistic for the metrics that match no rule. The statistics are
  // mean, min, max, std, argmin, argmax and none. The first rule that matches a metric counts.
  // Default: mean, min, max. A metric has statistics only once its values have differed between
  // ranks
  std::vector<std::string> rank_statistics;

  // ---- Where it goes ----
  // RANKLOG_DESTINATIONS: wandb, local; empty: wandb if there are credentials, else local.
  // WANDB_MODE=offline: local; disabled: see `disabled`. The daemon knows the trackers; it reports a
  // name that it does not know
  std::vector<std::string> destinations;
  // The settings of destinations, such as destination_settings["wandb"]["base_url"]. The daemon
  // checks them and reports unknown ones. FromEnvironment() adds variables of the destinations in
  // RANKLOG_DESTINATIONS and of wandb, such as destination_settings["wandb"]["WANDB_BASE_URL"];
  // Init() those of others that `destinations` names; settings.md tells which. A setting of the
  // program counts first. One that is named like a secret, such as "api_key", is sent as a
  // credential
  std::map<std::string, std::map<std::string, std::string>> destination_settings;
  // Secrets and users of the destinations, by variable, such as WANDB_API_KEY; sent at attach,
  // never stored
  std::map<std::string, std::string> credentials;
  // WANDB_MODE=disabled or WANDB_DISABLED=true: Log() does nothing and returns true
  bool disabled = false;

  // ---- This process in its job ----
  // All values come from the first launcher of this list whose variables set a rank or a world
  // size:
  //   RANKLOG_RANK and so on
  //   torchrun: RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK
  //   Slurm:    SLURM_PROCID SLURM_LOCALID SLURM_STEP_NUM_TASKS SLURM_NODEID, only if
  //             SLURM_STEP_ID is set (a batch script has the others too, but is not a rank)
  //   Open MPI: OMPI_COMM_WORLD_*
  //   PMI:      PMI_RANK PMI_SIZE
  std::optional<int> rank;        // 0 .. world_size-1; default 0
  std::optional<int> local_rank;  // default: rank on one node, else 0
  std::optional<int> world_size;  // default 1
  std::optional<int> local_world_size;
  std::optional<int> node_rank;  // default rank / local_world_size
  std::string node;              // RANKLOG_NODE, SLURMD_NODENAME; else the host name

  // ---- How it leaves this process ----
  // RANKLOG_ADDRESS: unix:PATH, with a path of at most 107 bytes. Empty: ranklogd.sock in the first
  // of these directories that belongs to this user: /run/ranklog/UID, $XDG_RUNTIME_DIR/ranklog,
  // /dev/shm/ranklog-UID, /var/tmp/ranklog-UID
  std::string address;
  // A relative path of these two is from the working directory at Init().
  std::string state_dir;  // RANKLOG_STATE_DIR: used only by a daemon that this process starts
  std::string spool_dir;  // RANKLOG_SPOOL_DIR: tried before the directories above
  // RANKLOG_SPOOL_BYTES: ring size of the first thread that logs; 64 KiB to 64 MiB, rounded up to
  // pages. A row takes at most half of its ring. Other threads start with a sixteenth of this size,
  // but at least 512 KiB. At the first row that does not fit, they get the full size.
  size_t spool_bytes = 8 << 20;
  // RANKLOG_FLUSH_INTERVAL_MS: 1 to 60000. 1 s costs a third of the CPU time of 100 ms.
  std::chrono::milliseconds flush_interval{100};
  std::chrono::milliseconds finish_timeout{10000};  // RANKLOG_FINISH_TIMEOUT_MS: 0 to 3600000
  // RANKLOG_FINISH=delivered[:TIMEOUT], such as delivered:10m. If not 0, the end of the run
  // (Finish(), the destructor, exit()) also waits until the tracker has the whole run. It waits at
  // most this long; the limit is 24 h. Use it in a container, because the daemon ends with the
  // container. 0, or RANKLOG_FINISH=durable: no such wait.
  std::chrono::milliseconds delivery_timeout{0};
  // The timeout of RANKLOG_FINISH=delivered. If delivery worked during the run, at most 15 s of
  // rows remain. Five minutes are enough for a tracker to restart, and a longer wait would waste
  // GPU time.
  static constexpr std::chrono::milliseconds kDeliveryTimeout{300000};
  bool start_daemon = true;  // RANKLOG_START_DAEMON: start `daemon` detached when none answers
  // RANKLOG_DAEMON: path of ranklogd. Empty: beside the program, beside this library, in ../bin of
  // this library's directory, then in PATH
  std::string daemon;

  // ---- Messages for the user ----
  // The library prints one line at the start of the run, with its destination, and one at its end.
  // It also prints a line when a problem begins, and when it is over. Rank 0 reports the run; the
  // first rank of each node reports problems. A forked child is silent.
  bool quiet = false;  // RANKLOG_QUIET, WANDB_SILENT: no messages
  // Receives each line instead of stderr, without the prefix "ranklog: ". Called on the library's
  // background thread, which sends nothing until the call returns. It may call Log() and stats(),
  // but no other function of a run. Exceptions that it throws are dropped.
  std::function<void(Severity severity, const std::string& text)> on_message;

  // Errors of FromEnvironment(), for Validate().
  std::vector<std::string> environment_errors;
};

}  // namespace ranklog

#endif  // RANKLOG_SETTINGS_H_
