// Finds the credentials for trackers. They are in memory only: they are never stored, logged, or
// put into an error message.

#ifndef SERVICE_DELIVER_CREDENTIALS_H_
#define SERVICE_DELIVER_CREDENTIALS_H_

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"

namespace ranklog::deliver {

class Destination;

// What proves to a server who we are. Its destination decides how it is sent: as basic or bearer
// authentication, or in headers.
struct Credential {
  std::string user = "";    // empty: the secret needs no user
  std::string secret = "";  // a key, a token or a password

  friend auto operator<=>(const Credential&, const Credential&) = default;
};

// A server, and the project of a run there.
struct Account {
  const Destination& destination;
  std::string server;  // its URL
  std::string project;
};

// Thread-safe. One per daemon, shared by the RPCs that receive keys and the deliveries that use
// them.
class CredentialStore {
 public:
  struct Options {
    // Of the process's environment, by kind of destination. A missing kind has none.
    std::map<std::string, Credential> environment;
    // The URL in the environment, by kind: then its credential counts only for this server.
    std::map<std::string, std::string> environment_url = {};
    std::vector<std::string> netrc;  // candidates for the netrc file; the first that exists counts
    // Our own files in netrc format; all of them are searched. A file that other users may read or
    // write is refused.
    std::vector<std::string> files;
    // The same, but passed to the service by an administrator (LoadCredential= of systemd). Their
    // directory is private, so their mode is not checked.
    std::vector<std::string> passed = {};

    // Reads the variables of all destinations, such as WANDB_API_KEY; $NETRC, else ~/.netrc, else
    // ~/_netrc; STATE_DIR/credentials and $XDG_CONFIG_HOME/ranklog/credentials (~/.config);
    // $CREDENTIALS_DIRECTORY/credentials. Not thread-safe, because getenv is not.
    static Options FromEnvironment(const std::string& state_dir);
  };

  explicit CredentialStore(Options options) : options_(std::move(options)) {}

  // Stores the credential that a rank of `job` (JobOf) sent for the server. For this job it comes
  // before all others, and no other job uses it. Does nothing if it has no secret.
  //   kInvalidArgument  cannot be sent, or not a URL; Find() returns the same error
  absl::Status Set(absl::string_view job, const Account& account, Credential credential)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Records that a rank of the job has attached, and that its credentials are stored.
  void RecordAttach(absl::string_view job) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether a rank of the job has attached since the daemon's start.
  bool HasAttached(absl::string_view job) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Stores the other variables that a rank of the job or a command sent, by name. A name that is
  // absent keeps its value.
  void SetVariables(absl::string_view job, std::map<std::string, std::string> variables)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // nullopt: no rank of the job has sent variables since the daemon's start.
  absl::optional<std::map<std::string, std::string>> VariablesOf(absl::string_view job) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The credential of a job for the server: the first that exists and is not in `refused`. Order:
  // that of the ranks, the environment, netrc, our files, passed files. In a file, an entry for the
  // account's project counts before one for the whole server (NetrcEntryOf). Reads the files on each
  // call, so that a corrected key counts at once. `job` is empty in a command, to which no rank
  // sends a key. An empty credential for a destination that needs none, and for one whose key is
  // optional if none is found and the empty one was not refused.
  //   kNotFound          none; the message lists the places that were searched
  //   kPermissionDenied  none, and a file was refused: other users may read or write it, or it
  //                      belongs to another user
  //   kInvalidArgument   cannot be sent, or not a URL
  absl::StatusOr<Credential> Find(absl::string_view job, const Account& account,
                                  const std::set<Credential>& refused = {}) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether Find() refuses one of our own or passed files. It may have the key that is wanted.
  bool HasRefusedFile() const;

 private:
  const Options options_;
  mutable absl::Mutex mutex_;
  // By job, kind of destination and network location of the server.
  std::map<std::tuple<std::string, std::string, std::string>, Credential> given_
      ABSL_GUARDED_BY(mutex_);
  // By job.
  std::map<std::string, std::map<std::string, std::string>> variables_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> met_ ABSL_GUARDED_BY(mutex_);
};

// Start of the message of Find()'s kNotFound.
inline constexpr char kNoKey[] = "no API key for ";

// Whether a delivery's error is that message.
inline bool LacksKey(absl::string_view error) { return absl::StartsWith(error, kNoKey); }

// The name of a job: distinct for each pair of project and id.
std::string JobOf(absl::string_view project, absl::string_view job_id);

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_CREDENTIALS_H_
