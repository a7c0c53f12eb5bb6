#ifndef TRAINER_PROCESS_GROUP_H_
#define TRAINER_PROCESS_GROUP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace c10d {
class ProcessGroup;
}

namespace ranklog::trainer {

// Where the ranks of a job meet, from torchrun's variables.
struct Rendezvous {
  int rank = 0;
  int world_size = 1;
  std::string address = {};  // MASTER_ADDR
  uint16_t port = 0;         // MASTER_PORT
  bool hosted =
      false;  // TORCHELASTIC_USE_AGENT_STORE: the launcher serves the store, rank 0 need not
  std::string attempt = "0";  // TORCHELASTIC_RESTART_COUNT: keeps a restarted job off its old keys

  // kInvalidArgument: there are several ranks, and MASTER_ADDR or MASTER_PORT is missing or no
  // port.
  static absl::StatusOr<Rendezvous> FromEnvironment(int rank, int world_size);
};

// The store that the ranks of one machine meet at, served by their launcher as torchrun does. Bound
// to a free port of the loopback interface, so that no other program can take the port in between.
class HostedStore {
 public:
  static absl::StatusOr<HostedStore> Serve();
  HostedStore(HostedStore&&) noexcept;
  HostedStore& operator=(HostedStore&&) noexcept;
  ~HostedStore();
  uint16_t port() const;

 private:
  struct Impl;
  explicit HostedStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The ranks of a job, able to talk to each other over Gloo. A group of one rank talks to nobody.
//
// Collective calls must come in the same order on all ranks, from one thread. What LibTorch throws
// passes through: a rank that dies makes the others' calls throw within a second, one that hangs
// after kTimeout.
class ProcessGroup {
 public:
  static constexpr int kTimeoutMinutes = 10;  // longer than any step, shorter than a wasted night

  // Waits for the other ranks, at most kTimeoutMinutes.
  //   kUnavailable  they did not all come
  static absl::StatusOr<ProcessGroup> Join(const Rendezvous& rendezvous);
  static ProcessGroup Alone();
  ProcessGroup(ProcessGroup&&) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) noexcept;
  // Does not wait for the others: see Leave().
  ~ProcessGroup();

  int rank() const;
  int world_size() const;

  // In place. `values` is a dense CPU tensor of the same shape on all ranks.
  void Sum(at::Tensor& values);
  void Max(at::Tensor& values);

  // Rank 0 makes the text, all get it. By the store: no collective, so ranks may be minutes apart.
  std::string FromRankZero(const std::string& key, const std::function<std::string()>& make);

  // Waits until all ranks are here, so that rank 0, which may serve the store, does not leave
  // first. Call it last, and only if all went well.
  void Leave();

  // Null in a group of one.
  c10d::ProcessGroup* c10d_group() const;

 private:
  struct Impl;
  explicit ProcessGroup(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ranklog::trainer

#endif  // TRAINER_PROCESS_GROUP_H_
