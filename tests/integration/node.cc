#include "tests/integration/node.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/support/fake_wandb.h"
#include "tests/support/file_content.h"

namespace ranklog::testing {
namespace {

bool Accepts(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const bool connected = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return connected;
}

}  // namespace

Node::Node(std::vector<std::string> daemon_flags,
           std::map<std::string, std::string> daemon_environment, std::vector<std::string> launcher)
    : daemon_flags_(std::move(daemon_flags)),
      daemon_environment_(std::move(daemon_environment)),
      launcher_(std::move(launcher)) {}

Node::~Node() {
  daemon_.reset();
  if (::testing::Test::HasFailure()) {
    fprintf(stderr, "---- log of ranklogd on %s\n%s----\n", state_dir().c_str(), Log().c_str());
  }
}

std::string Node::Log() const { return FileContent(dir_.File("log")); }

uint64_t Node::LogCount(const std::string& text) const {
  const std::string log = Log();
  uint64_t times = 0;
  for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++times;
  return times;
}

uint64_t Node::Counter(const std::string& name) const {
  ChildProcess::Options options;
  options.environment = {{"RANKLOG_ADDRESS", address()}};
  const Finished status =
      RunToEnd({RANKLOG_CLI, "status", "--json", "--state-dir", state_dir()}, options);
  const auto json = nlohmann::json::parse(status.output, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return 0;
  return json.value(nlohmann::json::json_pointer("/daemon/counters/" + name), uint64_t{0});
}

void Node::StartWith(const std::map<std::string, std::string>& environment) {
  std::vector<std::string> args = launcher_;
  args.insert(args.end(), {RANKLOGD, "--state-dir", state_dir(), "--listen", address(),
                           "--spool-dir", spool_dir()});
  args.insert(args.end(), daemon_flags_.begin(), daemon_flags_.end());
  ChildProcess::Options options;
  options.environment = daemon_environment_;
  options.unset = {"WANDB_API_KEY"};
  for (const auto& [name, value] : environment) options.environment[name] = value;
  options.output = dir_.File("log");
  daemon_ = std::make_unique<ChildProcess>(args, options);
  // A daemon that is told to die may do so before this check.
  ASSERT_TRUE(WaitFor([this] {
    return Accepts(socket()) || daemon_->Wait(absl::ZeroDuration()).value_or(0) < 0;
  })) << "ranklogd does not accept connections";
}

int Node::Terminate() {
  daemon_->Signal(SIGTERM);
  const absl::optional<int> code = daemon_->Wait();
  daemon_.reset();
  return code.value_or(-SIGKILL);
}

void Node::EditStore(const std::string& sql) const {
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open((state_dir() + "/ranklog.db").c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(database);
  sqlite3_close(database);
}

std::unique_ptr<storage::StoreReader> Node::Reader() const {
  auto reader = storage::StoreReader::Open(state_dir());
  if (!reader.ok()) {
    ADD_FAILURE() << reader.status();
    return nullptr;
  }
  return *std::move(reader);
}

model::Run Node::GetRun(const std::string& run_id) const {
  auto reader = storage::StoreReader::Open(state_dir());
  if (!reader.ok()) return {};
  const auto runs = (*reader)->Runs();
  if (!runs.ok()) return {};
  for (const model::Run& run : *runs) {
    if (run.run_id == run_id) return run;
  }
  return {};
}

bool Node::RunHasEnded(const std::string& run_id) const {
  const model::Run run = GetRun(run_id);
  return run.id != 0 && run.state != model::RunState::kRunning;
}

std::map<std::string, std::string> Node::RankEnvironment(const std::string& job, int rank,
                                                         int local_rank, int world_size,
                                                         int local_world_size) const {
  return {{"RANK", std::to_string(rank)},
          {"LOCAL_RANK", std::to_string(local_rank)},
          {"WORLD_SIZE", std::to_string(world_size)},
          {"LOCAL_WORLD_SIZE", std::to_string(local_world_size)},
          {"GROUP_RANK", std::to_string(rank / local_world_size)},
          {"RANKLOG_RUN_ID", job},
          {"RANKLOG_PROJECT", "test"},
          {"RANKLOG_ADDRESS", address()},
          {"RANKLOG_SPOOL_DIR", spool_dir()},
          {"RANKLOG_START_DAEMON", "false"},
          {"RANKLOG_QUIET", "1"}};
}

ChildProcess Node::StartRank(const std::string& job, int rank, int local_rank, int world_size,
                             int local_world_size, std::vector<std::string> args,
                             std::map<std::string, std::string> extra) const {
  ChildProcess::Options options;
  options.environment = RankEnvironment(job, rank, local_rank, world_size, local_world_size);
  options.unset = {"WANDB_API_KEY"};
  for (auto& [name, value] : extra) options.environment[name] = value;
  args.insert(args.begin(), LOGGING_RANK);
  return ChildProcess(args, options);
}

void KillBetweenRequests(const FakeWandb& server, Node* node) {
  for (int i = 0; i < 5; ++i) {
    const size_t requests = server.requests().size();
    EXPECT_TRUE(WaitFor([&] { return server.requests().size() > requests + 1; }));
    node->Kill();
    node->Start();
  }
}

std::map<std::string, std::string> WandbAt(const std::string& url) {
  return {{"WANDB_BASE_URL", url}, {"WANDB_API_KEY", std::string(40, 'k')}};
}

Finished RunRanklogd(std::vector<std::string> args) {
  args.insert(args.begin(), RANKLOGD);
  return RunToEnd(args);
}

}  // namespace ranklog::testing
