#include "tests/interop/lan.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>
#include <utility>

#include "tests/support/child_process.h"

namespace ranklog::testing {

// A network namespace. It exists as long as this object or a process in it.
struct Lan::Namespace {
  // The namespace of this thread.
  Namespace() : fd(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {}
  ~Namespace() { close(fd); }
  Namespace(const Namespace&) = delete;

  // A path to the namespace for other processes.
  std::string path() const {
    return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd);
  }
  void Enter() const { EXPECT_EQ(setns(fd, CLONE_NEWNET), 0) << "no network namespace"; }

  const int fd;
};

struct Lan::Host {
  std::string name;
  std::string address;
  std::string port;  // port of the switch
  std::unique_ptr<Namespace> network;
};

namespace {

void RunIn(const std::string& network, const std::string& script) {
  const Finished run = RunToEnd({"nsenter", "--net=" + network, "sh", "-ec", script});
  EXPECT_EQ(run.code, 0) << script << "\n" << run.output;
}

}  // namespace

bool Lan::Possible() {
  const Finished trial =
      RunToEnd({"unshare", "--net", "--uts", "--mount", "sh", "-ec",
                "ip link add switch type bridge; ip link add port1 type veth peer name eth0; "
                "ip link set port1 master switch; "
                "ip link set port1 type bridge_slave isolated on"});
  if (trial.code != 0) {
    std::cerr << "no network of its own: code " << trial.code << ", " << trial.output;
  }
  return trial.code == 0;
}

Lan::Lan(const std::vector<std::string>& hosts) : own_(std::make_unique<Namespace>()) {
  const auto add = [] {
    EXPECT_EQ(unshare(CLONE_NEWNET), 0);
    return std::make_unique<Namespace>();
  };
  switch_ = add();
  RunIn(switch_->path(), "ip link add switch type bridge; ip link set switch up");
  std::ofstream names(dir_.File("hosts"));
  names << "127.0.0.1 localhost\n";
  for (const std::string& name : hosts) {
    const std::string number = std::to_string(hosts_.size() + 1);
    hosts_.push_back({name, "10.0.0." + number, "port" + number, add()});
    const Host& host = hosts_.back();
    names << host.address << " " << name << "\n";
    RunIn(switch_->path(), "ip link add " + host.port + " type veth peer name eth0 netns " +
                               host.network->path() + "; ip link set " + host.port +
                               " master switch up");
    RunIn(host.network->path(), "ip link set lo up; ip link set eth0 up; ip address add " +
                                    host.address + "/24 dev eth0");
  }
  own_->Enter();
}

Lan::~Lan() {
  own_->Enter();
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = atoi(entry.path().filename().c_str());
    for (const Host& host : hosts_) {
      std::error_code gone;
      if (pid > 0 && pid != getpid() &&
          std::filesystem::equivalent(entry.path() / "ns/net", host.network->path(), gone)) {
        kill(pid, SIGKILL);
      }
    }
  }
}

const Lan::Host& Lan::Find(const std::string& name) const {
  for (const Host& host : hosts_) {
    if (host.name == name) return host;
  }
  ADD_FAILURE() << "no host " << name;
  return hosts_.front();
}

std::string Lan::Address(const std::string& host) const { return Find(host).address; }

void Lan::MoveTo(const std::string& host) { Find(host).network->Enter(); }

std::vector<std::string> Lan::On(const std::string& host,
                                 const std::vector<std::string>& command) const {
  std::vector<std::string> line = {
      "nsenter", "--net=" + Find(host).network->path(),
      "unshare", "--uts",
      "--mount", "sh",
      "-ec",     "hostname $0; mount --bind " + dir_.File("hosts") + " /etc/hosts; exec \"$@\"",
      host};
  line.insert(line.end(), command.begin(), command.end());
  return line;
}

void Lan::SetIsolated(const std::string& a, const std::string& b, bool isolated) {
  for (const std::string& host : {a, b}) {
    RunIn(switch_->path(), "ip link set " + Find(host).port + " type bridge_slave isolated " +
                               (isolated ? "on" : "off"));
  }
}

}  // namespace ranklog::testing
