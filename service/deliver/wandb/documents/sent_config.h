// The config of a run: what it is now, and what the server has of it.

#ifndef SERVICE_DELIVER_WANDB_DOCUMENTS_SENT_CONFIG_H_
#define SERVICE_DELIVER_WANDB_DOCUMENTS_SENT_CONFIG_H_

#include <string>

#include "absl/types/optional.h"

namespace ranklog::deliver::wandb {

// If the server refuses a run, its config may be at fault. It is at fault only if the server
// accepts the run without it. Then it becomes a dead letter, and is not sent again until it
// changes. Rows do not wait for this.
class SentConfig {
 public:
  // `bare`: the config without the user's part.
  void Set(std::string config, std::string bare);
  // Whether the server accepted the current config, or the run without it.
  bool IsSent() const;
  const std::string& text() const { return config_; }
  // The server's run may lack the config: it must be sent again.
  void Forget() { sent_.clear(); }

  // The config to send with the run; empty: an existing run keeps its config. `created`: the run
  // exists at the server.
  std::string ToSend(bool created) const;

  struct Refused {
    std::string answer;
    std::string config;
  };
  // The server accepted what ToSend() returned. Returns a config that is known to be at fault now.
  absl::optional<Refused> OnAccepted();
  // The server refused it with this answer. False: the config was not the cause.
  bool OnRefused(std::string answer);

 private:
  std::string config_;
  std::string bare_;
  std::string sent_;
  std::string refused_;  // not sent again until it changes
  std::string answer_;   // answer to refused_; not yet returned
};

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_DOCUMENTS_SENT_CONFIG_H_
