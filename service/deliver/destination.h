// What the program knows of a destination. README.md beside this tells how to add one.

#ifndef SERVICE_DELIVER_DESTINATION_H_
#define SERVICE_DELIVER_DESTINATION_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/deliver/credentials.h"
#include "service/deliver/download.h"
#include "service/deliver/http/circuit_breaker.h"
#include "service/deliver/http/machine/netrc.h"
#include "service/deliver/http/transport.h"
#include "service/deliver/read_back.h"
#include "service/deliver/run_delivery.h"
#include "service/model/run.h"
#include "service/model/session.h"

namespace ranklog::deliver {

// What the deliveries of all runs share. The pointers must outlive the deliveries.
struct DeliveryParts {
  Transport* transport;
  CircuitBreakers* breakers;
  const CredentialStore* credentials;
  // How long rows of a live run are collected before they are posted.
  absl::Duration transmit_interval = absl::Seconds(15);
  // The daemon's restart loses the keys of the ranks. Until this time of a steady clock, the ranks
  // of a live run may still send them again.
  absl::Time ranks_return_by = absl::InfinitePast();
  std::string content_dir{};  // of the files that ranks staged
};

// A kind of tracker. Has no state; thread-safe.
class Destination {
 public:
  // Its names, and its texts for messages and help. Texts are plain; lines are indented as shown.
  struct Words {
    // The value of --to and of RANKLOG_DESTINATIONS, and of Delivery.kind. Lower case. In upper
    // case and with an underscore, it begins its variables.
    std::string kind;
    std::string name;  // "Weights & Biases"
    // The setting with the server's URL, such as base_url: the variable is KIND_BASE_URL.
    std::string url_setting;
    std::string public_url;  // without that setting; empty: the setting is required
    std::vector<std::string> other_settings{};
    // The variables of its credential: KIND_API_KEY; the second one may be empty. Both are empty if
    // it needs no credential.
    std::string key_variable;
    std::string user_variable;
    // Its server may need no credential: if none is found, requests are sent without one. A run that
    // names no destination goes there if it has the server's URL.
    bool key_is_optional = false;
    // It gets what all ranks logged: also the part of a run whose rank 0 is on another node, which
    // others do not get (Run::local_only).
    bool takes_all_ranks = false;
    // Further variables that a job sends. Those of the daemon do not count for the runs of a job.
    std::vector<std::string> other_variables{};
    // What to check if the server does not know the place of a run.
    std::string check_place = "check the project";
    // Another way to store its credential, "log in with ..."; empty: none.
    std::string other_login;
    // For `ranklog verify --help`: what is read back and compared. Lines of at most 120 columns
    // that begin with 9 spaces, the first one with two spaces and the kind.
    std::string verify;
  };

  virtual ~Destination() = default;

  const Words& words() const { return words_; }
  const std::string& kind() const { return words_.kind; }
  bool NeedsKey() const { return !words_.key_variable.empty(); }
  // Whether its server's address is an absolute path.
  virtual bool IsDirectory() const { return false; }
  // The variable of a setting: base_url of wandb is WANDB_BASE_URL.
  std::string VariableOf(absl::string_view setting) const;

  // Its settings from those that a rank sent: by name, or by variable, which counts if the name is
  // not there. Leaves out users and passwords in the URL. Adds to `mistakes`.
  std::map<std::string, std::string> SettingsOf(const std::map<std::string, std::string>& given,
                                                std::vector<std::string>* mistakes) const;
  // kInvalidArgument if the setting, which is not the URL, cannot be used. It is then ignored.
  virtual absl::Status CheckSetting(absl::string_view /*name*/, absl::string_view /*value*/) const {
    return absl::OkStatus();
  }
  // The mistake of such a URL.
  std::string UserInUrl() const;
  // What the user of a run that goes there must know at its start; empty: nothing.
  virtual std::string WarningOf(const model::RunSettings& /*settings*/) const { return ""; }
  // The address of the server in these variables; empty: none.
  virtual std::string AddressIn(
      const std::function<std::string(const std::string&)>& variable) const {
    return variable(VariableOf(words_.url_setting));
  }
  // The URL of the run's server as it was given, or the public one. May be empty.
  std::string AddressOf(const model::RunSettings& settings) const;
  // The same, checked; see CheckUrl().
  absl::StatusOr<std::string> ServerOf(const model::RunSettings& settings) const;
  // The URL without trailing slashes; the public one if it is empty.
  //   kInvalidArgument  not a URL of such a server
  virtual absl::StatusOr<std::string> CheckUrl(absl::string_view url) const;

  // kInvalidArgument if the credential cannot be sent. Only the server knows whether it is valid.
  virtual absl::Status CheckCredential(const Credential& credential) const;
  // The credential in these variables, without surrounding white space; its secret is empty if
  // there is none.
  virtual Credential CredentialIn(
      const std::function<std::string(const std::string&)>& variable) const;
  // Adds the credential to a request: by basic authentication, or as a bearer token if it has no
  // user.
  virtual void Authorize(const Credential& credential, HttpRequest* request) const;
  // Whether the server refused the credential of a request, so that another one may be tried.
  virtual bool IsKeyRefused(const HttpResponse& answer) const {
    return answer.code == HttpResponse::kUnauthorized;
  }
  // The credential in an entry of a netrc file.
  virtual Credential CredentialOfLogin(const NetrcEntry& entry) const {
    return {.user = entry.login, .secret = entry.password};
  }
  // The reverse of CredentialIn(). Names every variable of a credential.
  virtual std::map<std::string, std::string> VariablesOf(const Credential& credential) const;

  // The command that stores a credential for the server: "`ranklog login --base-url URL`".
  std::string LoginCommand(absl::string_view server) const;
  // `missing` of CredentialStore::Find(), with this command if it is kNotFound.
  absl::Status WithLoginCommand(const absl::Status& missing, absl::string_view server) const;
  // The page on which the server shows a user's key; empty: none.
  virtual std::string KeyPage(absl::string_view /*server*/) const { return ""; }
  // The page of a run, from its stored delivery; empty: not known yet, or no page.
  virtual std::string RunPage(const model::Run& /*run*/,
                              const model::Delivery& /*delivery*/) const {
    return "";
  }

  // Delivers one run. `run` and `delivery` must be as stored; a new delivery has no cursor.
  virtual std::unique_ptr<RunDelivery> Deliver(model::Run run, model::Delivery delivery,
                                               const DeliveryParts& parts) const = 0;

  // Asks the server for the name of the account that the credential belongs to, by one request. A
  // credential without a secret is not sent; the name is then empty.
  //   kUnauthenticated  the server refuses the credential
  //   kUnknown          the server answered, but not as expected; the message says how
  //   others            those of Transport::Send()
  virtual absl::StatusOr<std::string> AccountOf(Transport& transport, const std::string& server,
                                                const Credential& credential,
                                                absl::Duration timeout) const = 0;

  // Reads a run back from its server and compares it with the store. `run` and `delivery` must be
  // as stored. Makes at most one request at a time.
  //   kNotFound            the server has no such run
  //   kUnavailable         no answer within the timeout
  //   kFailedPrecondition  the server refuses us, or answers with an error
  //   kDataLoss            the store lacks rows that it counts as delivered
  virtual absl::StatusOr<ReadBackReport> ReadBack(
      storage::StoreReader& reader, const model::Run& run, const model::Delivery& delivery,
      Transport& transport, const Credential& credential, const ReadBackOptions& options) const = 0;

  // The last step of the run at its server; -1: the server has no row of it. Errors as of ReadBack(),
  // without kNotFound and kDataLoss.
  virtual absl::StatusOr<int64_t> LastStep(const model::Run& /*run*/, Transport& /*transport*/,
                                           const Credential& /*credential*/,
                                           const ReadBackOptions& /*options*/) const {
    return -1;
  }

  // Downloads a version of an artifact. Each file is written under another name in its directory,
  // checked against the version's list of files, and renamed. Files of the directory that are right
  // already stay as they are, so a second call continues; other files of these names are replaced.
  //   kUnimplemented       the destination has no artifacts
  //   kInvalidArgument     not a name, another type, or a path that leads out of the directory
  //   kNotFound            no such artifact
  //   kUnavailable         no answer within the timeout
  //   kFailedPrecondition  the server refuses us, or answers with an error
  //   kAborted             a file is not what the list says
  //   others               a file cannot be written
  virtual absl::StatusOr<DownloadReport> Download(Transport& transport, const std::string& server,
                                                  const Credential& credential,
                                                  const DownloadOptions& options) const;

 protected:
  explicit Destination(Words words) : words_(std::move(words)) {}

 private:
  const Words words_;
};

// Corrects a wrong address, which a daemon keeps. RUN stands for the run: see advice.h.
inline constexpr char kCorrectAddress[] = "run: ranklog stop && ranklog sync RUN --base-url URL";

// The destinations of this program; each has one line in known/destinations.cc.
std::vector<std::unique_ptr<const Destination>> KnownDestinations();

// These and the registered ones, without `local`, in the order in which a run without a destination
// tries them.
const std::vector<std::unique_ptr<const Destination>>& AllDestinations();
// Adds one, for a test. Call it before any other thread runs.
void Register(std::unique_ptr<const Destination> destination);

// The first one, which commands use if none is named.
inline const Destination& UsualDestination() { return *AllDestinations().front(); }

// Null: there is no such kind.
const Destination* FindDestination(absl::string_view kind);
// Of these kinds, those that get the part of a run whose rank 0 is on another node; `local` if there
// are none.
std::vector<std::string> DestinationsOfPart(const std::vector<std::string>& kinds);
// Whether a destination of this kind gets such a part.
bool TakesParts(absl::string_view kind);
// The kinds, for messages: "wandb", "offline"; with `local`, "wandb, offline or local".
std::vector<std::string> DestinationKinds();
std::string KindsText();

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_DESTINATION_H_
