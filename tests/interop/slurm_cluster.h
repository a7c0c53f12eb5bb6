// A real Slurm with two nodes, n1 and n2, that uses the scripts of deploy/slurm.

#ifndef TESTS_INTEROP_SLURM_CLUSTER_H_
#define TESTS_INTEROP_SLURM_CLUSTER_H_

#include <sys/types.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {

// Both nodes are this machine. Each has its own mounts of /run, /dev/shm, /etc and /var/lib, so
// prolog, daemons and ranks use the same paths as on a real node, and never meet a daemon of the
// machine. If `HasCgroups()`, Slurm tracks the processes of a job by cgroup, and kills those that
// are left.
//
// bin/ in the directory is the first entry of every PATH. It has ranklogd, ranklog, and the
// programs of AddProgram().
class SlurmCluster {
 public:
  struct Options {
    std::vector<std::string> conf{};  // more lines of slurm.conf
    bool private_tmp = false;         // jobs have their own /tmp and /dev/shm (job_container/tmpfs)
    std::map<std::string, std::string> environment{};  // of Slurm's daemons
    std::string ranklogd{};  // a script instead of the program; "-": no program
  };

  static bool Installed();   // and we are root
  static bool HasCgroups();  // version 1: freezer and memory

  SlurmCluster();
  ~SlurmCluster();  // stops everything, and ends daemons that are left on the nodes

  // Fails the test if the nodes are not idle in the end.
  void Start(const Options& options);

  // Runs a client of Slurm, such as srun. `uid` may be another user.
  Finished Run(std::vector<std::string> args, std::map<std::string, std::string> environment = {},
               uid_t uid = 0);
  // Submits a batch job, whose output goes to File("JOB.out"). Returns its id.
  std::string Submit(std::vector<std::string> args,
                     std::map<std::string, std::string> environment = {});
  std::string JobField(const std::string& job, const std::string& field);
  std::string NodeStates();  // "n1 idle\nn2 idle\n"
  // Starts a requeued job when nothing of its first start is left; Slurm itself waits for two
  // minutes. False if that takes too long.
  bool StartAgain(const std::string& job);

  // Runs a program on a node, outside of any job.
  Finished On(const std::string& node, std::vector<std::string> args, uid_t uid = 0);
  // Returns `ranklog runs --json` of the node; empty before the user has a store.
  nlohmann::json RunsOn(const std::string& node, uid_t uid = 0);

  // Puts a copy of a program, or a script with this text, into bin/.
  void AddProgram(const std::string& path);
  void AddScript(const std::string& name, const std::string& text);

  std::string File(const std::string& name) const { return dir_.File(name); }
  // Returns the log files of Slurm's daemons.
  std::string Logs() const;

 private:
  std::vector<std::string> Nodes(std::vector<std::string> args) const;

  TempDir dir_{"/var/tmp"};       // visible also in jobs with their own /tmp
  std::set<std::string> mounts_;  // of the nodes, as in /proc/PID/ns/mnt
  // Descriptors of them: another process would get the name of a mount namespace that has ended.
  std::vector<int> held_mounts_;
  int lock_ = -1;
  bool started_ = false;
};

}  // namespace ranklog::testing

#endif  // TESTS_INTEROP_SLURM_CLUSTER_H_
