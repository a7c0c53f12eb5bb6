// Where the keys for trackers come from. They are held in memory only: never stored, never logged,
// and in no error's message.

#ifndef SERVICE_DELIVER_CREDENTIALS_H_
#define SERVICE_DELIVER_CREDENTIALS_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"

namespace ranklog::deliver {

// Thread-safe. One per daemon, shared by the RPCs that bring keys and the deliveries that use them.
class CredentialStore {
 public:
  struct Options {
    std::string environment_key;  // of WANDB_API_KEY in the daemon's own environment; may be empty
    std::vector<std::string> netrc;  // the first of these files that exists is the netrc
    // Files of our own, in netrc's format, each looked into. One that others may read or write is
    // refused.
    std::vector<std::string> files;
    // The same, that an administrator gave to the service (LoadCredential= of systemd). Their
    // directory is private, so whatever their mode is.
    std::vector<std::string> passed = {};

    // WANDB_API_KEY; $NETRC, else ~/.netrc, else ~/_netrc; STATE_DIR/credentials and
    // $XDG_CONFIG_HOME/ranklog/credentials (~/.config); $CREDENTIALS_DIRECTORY/credentials. Not
    // thread-safe, as getenv is not.
    static Options FromEnvironment(const std::string& state_dir);
  };

  explicit CredentialStore(Options options) : options_(std::move(options)) {}

  // Takes the key that a rank of `job` (JobOf) sent for the server at `base_url`; for this job it
  // goes before all others, and no other job is delivered with it. White space around it is
  // dropped.
  //   kInvalidArgument  it cannot be a key, or the URL is none; Find() will say the same
  absl::Status Set(absl::string_view job, absl::string_view base_url, absl::string_view key)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // A rank of the job has come, and what it had is told.
  void Meet(absl::string_view job) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether one has come since the daemon started.
  bool HasMet(absl::string_view job) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes what came with a rank of the job beside the key, by variable name.
  void SetVariables(absl::string_view job, std::map<std::string, std::string> variables)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Absent: no rank of the job has told since the daemon started.
  absl::optional<std::map<std::string, std::string>> VariablesOf(absl::string_view job) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The key of a job for the server: its ranks', the environment's, netrc's, a file's, one that was
  // passed, the first that there is and that is not among `refused`. Reads the files each time, so
  // that a key that is put right counts at once.
  //   kNotFound          there is none; says where it was looked for
  //   kPermissionDenied  a file that others may read
  //   kInvalidArgument   what was found is no API key
  absl::StatusOr<std::string> Find(absl::string_view job, absl::string_view base_url,
                                   const std::set<std::string>& refused = {}) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const Options options_;
  mutable absl::Mutex mutex_;
  // By job and machine.
  std::map<std::pair<std::string, std::string>, std::string> given_ ABSL_GUARDED_BY(mutex_);
  // By job.
  std::map<std::string, std::map<std::string, std::string>> variables_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> met_ ABSL_GUARDED_BY(mutex_);
};

// The message of Find()'s kNotFound begins so.
inline constexpr char kNoKey[] = "no API key for ";

// Jobs are told apart by their project and id.
std::string JobOf(absl::string_view project, absl::string_view job_id);

// kInvalidArgument unless it can be sent: printable ASCII without blanks. Whether it is a key is
// for the server to say.
absl::Status CheckWandbKey(absl::string_view key);

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_CREDENTIALS_H_
