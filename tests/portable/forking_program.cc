// A trainer with its own gRPC server and client, from the distribution's shared libraries. It forks
// while both are up.
//
//   forking_program SOCKET FORKS
//
// Each child logs a row and waits until it is durable. Prints the number of durable rows. Exit code
// 0 if all are durable and its own gRPC still answers.

#include <grpcpp/grpcpp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "ranklog/ranklog.h"
#include "ranklog/v1/ranklog.grpc.pb.h"

namespace {

class OwnService : public ranklog::v1::Control::Service {
  grpc::Status Status(grpc::ServerContext*, const ranklog::v1::StatusRequest*,
                      ranklog::v1::StatusReply* reply) override {
    reply->set_version("own");
    return grpc::Status::OK;
  }
};

bool Answers(ranklog::v1::Control::Stub& stub) {
  grpc::ClientContext context;
  ranklog::v1::StatusReply reply;
  return stub.Status(&context, {}, &reply).ok() && reply.version() == "own";
}

// Runs in the child. Returns whether its row becomes durable.
bool LogsDurably(ranklog::Run& run, int value) {
  return run.Log({{"child", value}}) &&
         run.Flush(std::chrono::seconds(3)) == ranklog::FlushResult::kDurable;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string address = std::string("unix:") + argv[1];
  const int forks = atoi(argv[2]);
  OwnService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub = ranklog::v1::Control::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  if (!Answers(*stub)) return 3;

  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  if (!LogsDurably(run, -1)) return 4;
  int durable = 0;
  for (int i = 0; i < forks; ++i) {
    const pid_t child = fork();
    if (child < 0) return 5;
    if (child == 0) _exit(LogsDurably(run, i) ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    durable += status == 0;
    if (!Answers(*stub)) return 6;
  }
  printf("%d of %d children durable\n", durable, forks);
  const bool finished = run.Finish(0) == ranklog::FlushResult::kDurable;
  return durable == forks && finished ? 0 : 1;
}
