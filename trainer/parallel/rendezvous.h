#ifndef TRAINER_PARALLEL_RENDEZVOUS_H_
#define TRAINER_PARALLEL_RENDEZVOUS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace ranklog::trainer {

// The address where the ranks of a job connect, from torchrun's variables.
struct Rendezvous {
  int rank = 0;
  int world_size = 1;
  std::string address = {};  // MASTER_ADDR
  uint16_t port = 0;         // MASTER_PORT
  bool hosted = false;  // TORCHELASTIC_USE_AGENT_STORE: the launcher serves the store, not rank 0
  std::string attempt = "0";  // TORCHELASTIC_RESTART_COUNT: a restarted job uses new keys in a
                              // hosted store

  // kInvalidArgument: world_size is above 1, and MASTER_ADDR is missing, or MASTER_PORT is missing
  // or is not a port number.
  static absl::StatusOr<Rendezvous> FromEnvironment(int rank, int world_size);
};

// The rendezvous store for the ranks of one machine. Their launcher serves it, as torchrun does. It
// binds a free port itself, so that no other program can take the port in between.
//
// It listens on 127.0.0.1. LibTorch 1.13 binds it to all interfaces, as torchrun does: a peer that
// reaches the port can join or disturb the training, but not run code.
class HostedStore {
 public:
  static absl::StatusOr<HostedStore> Serve();
  HostedStore(HostedStore&&) noexcept;
  HostedStore& operator=(HostedStore&&) noexcept;
  ~HostedStore();
  uint16_t port() const;
  // Whether `rank` of the first attempt has reported a failure of its own, not one that another
  // rank caused. Does not throw.
  bool HasFailed(int rank) const;

 private:
  struct Impl;
  explicit HostedStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ranklog::trainer

#endif  // TRAINER_PARALLEL_RENDEZVOUS_H_
