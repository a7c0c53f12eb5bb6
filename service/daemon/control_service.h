// Answers tools that ask the daemon about itself.

#ifndef SERVICE_DAEMON_CONTROL_SERVICE_H_
#define SERVICE_DAEMON_CONTROL_SERVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "ranklog/v1/ranklog.grpc.pb.h"

namespace ranklog::daemon {

class ControlService final : public v1::Control::CallbackService {
 public:
  struct About {
    std::string state_dir;
    std::string started_by;  // systemd, slurm, rank, user
    int64_t start_time_us = 0;
    std::function<uint32_t()> live_streams;                     // thread-safe
    std::function<std::map<std::string, uint64_t>()> counters;  // thread-safe
  };
  explicit ControlService(About about) : about_(std::move(about)) {}

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* call,
                                   const v1::StatusRequest* request,
                                   v1::StatusReply* reply) override;

 private:
  const About about_;
};

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_CONTROL_SERVICE_H_
