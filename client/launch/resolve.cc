#include "client/launch/resolve.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/base/process.h"
#include "client/base/text/keys.h"
#include "client/base/text/short_name.h"
#include "client/base/version.h"
#include "client/launch/home.h"
#include "client/launch/launch.h"
#include "client/settings/destination_variables.h"
#include "client/settings/environment.h"
#include "client/settings/rank_statistics.h"
#include "client/settings/socket_address.h"
#include "client/settings/validate.h"

namespace ranklog::internal {
namespace {

std::string DeriveRunId(const Settings& settings) {
  const bool alone = settings.world_size == 1;
  const auto job = Variable("SLURM_JOB_ID");
  const auto step = Variable("SLURM_STEP_ID");
  // If several tasks of a step have a world size of 1, each one is a job of its own.
  const bool is_step = !alone || Variable("SLURM_STEP_NUM_TASKS") == "1";
  if (job && step && is_step && IsRunId(*job + *step)) {
    return absl::StrCat("slurm-", *job, "-", *step);
  }
  const auto elastic_id = Variable("TORCHELASTIC_RUN_ID");
  // No other process must get the same id. So torchrun's id is not used, which a user may give
  // twice.
  if (alone) return elastic_id ? HashName(FindLauncher().id) : RandomName();
  const std::string elastic = elastic_id.value_or("none");
  if (elastic != "none") return IsRunId(elastic) ? elastic : HashName(elastic);
  if (const auto job_namespace = Variable("PMIX_NAMESPACE")) return HashName(*job_namespace);
  const auto host = Variable("MASTER_ADDR");
  const bool one_node = settings.local_world_size ? settings.local_world_size == settings.world_size
                                                  : !host.has_value();
  if (one_node) return HashName(FindLauncher().id);
  return HashName(
      absl::StrCat(host.value_or(""), "/", Variable("MASTER_PORT").value_or(""), "/", elastic));
}

// The tasks of a Slurm job array are one group, because each is a job of its own.
std::string DeriveGroup(const std::string& run_id) {
  const auto array = Variable("SLURM_ARRAY_JOB_ID");
  return array && IsRunId(*array) ? absl::StrCat("slurm-", *array) : run_id;
}

void ResolveRanks(Settings* settings) {
  const int rank = settings->rank.value_or(0);
  const int world_size = settings->world_size.value_or(1);
  settings->rank = rank;
  settings->world_size = world_size;
  if (world_size == 1 && !settings->local_world_size) settings->local_world_size = 1;
  const bool one_node = settings->local_world_size == world_size;
  if (!settings->local_rank) settings->local_rank = one_node ? rank : 0;
  if (!settings->node_rank)
    settings->node_rank = rank / settings->local_world_size.value_or(world_size);
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

// The daemon reads the path in another working directory, and this program may change its own.
void MakeAbsolute(std::string* path) {
  if (path->empty() || path->front() == '/') return;
  // Not std::filesystem, which the self-contained library cannot use on older systems.
  char here[PATH_MAX];
  if (getcwd(here, sizeof here) != nullptr) *path = absl::StrCat(here, "/", *path);
}

std::string ProgramPath() {
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : "";
}

bool HasKey(const Settings& settings, const std::string& destination) {
  const auto key = settings.credentials.find(VariablePrefix(destination) + "API_KEY");
  return key != settings.credentials.end() && !key->second.empty();
}

void AddDestinations(const Settings& settings, v1::RunSettings* run) {
  std::set<std::string> chosen(settings.destinations.begin(), settings.destinations.end());
  std::vector<std::string> names = settings.destinations;
  for (const char* usual : kUsualDestinations) {
    // A daemon that finds only the ring never gets the key.
    if (!chosen.empty() || !HasKey(settings, usual)) continue;
    chosen.insert(usual);
    names.emplace_back(usual);
  }
  for (const auto& [name, members] : settings.destination_settings) {
    if (chosen.count(name) == 0 && !members.empty()) names.push_back(name);
  }
  for (const std::string& name : names) {
    v1::Destination* const destination = run->add_destinations();
    destination->set_kind(name);
    destination->set_chosen(chosen.count(name) != 0);
    const auto found = settings.destination_settings.find(name);
    if (found == settings.destination_settings.end()) continue;
    destination->mutable_settings()->insert(found->second.begin(), found->second.end());
  }
}

}  // namespace

Settings Resolve(Settings settings) {
  const bool has_local_rank = settings.local_rank.has_value();
  for (auto& [name, value] : settings.credentials)
    value = Trimmed(value);  // secrets' files end with \n
  std::set<std::string> seen;
  std::erase_if(settings.destinations,
                [&](const std::string& item) { return !seen.insert(item).second; });
  // Those that only the program named; FromEnvironment() reads those of the usual ones.
  for (const std::string& name : settings.destinations) {
    const bool is_usual = std::find(std::begin(kUsualDestinations), std::end(kUsualDestinations),
                                    name) != std::end(kUsualDestinations);
    if (!is_usual) ReadVariablesOf(name, &settings);
  }
  SeparateSecrets(&settings);
  ResolveRanks(&settings);
  if (settings.run_id.empty()) settings.run_id = DeriveRunId(settings);
  // If several ranks do not know their local rank, the daemon must not take each for the first one.
  if (!has_local_rank && settings.local_world_size != settings.world_size) {
    settings.local_world_size.reset();
  }
  if (settings.group.empty()) settings.group = DeriveGroup(settings.run_id);
  if (settings.project.empty()) settings.project = "uncategorized";
  if (settings.host.empty()) settings.host = HostName();
  if (settings.node.empty()) settings.node = settings.host;
  if (settings.program.empty()) settings.program = ProgramPath();
  MakeAbsolute(&settings.spool_dir);
  MakeAbsolute(&settings.state_dir);
  return settings;
}

v1::Hello MakeHello(const Settings& settings) {
  v1::Hello hello;
  v1::StreamId* stream = hello.mutable_stream();
  stream->set_project(settings.project);
  stream->set_job_id(settings.run_id);
  stream->set_rank(static_cast<uint32_t>(*settings.rank));

  v1::RunSettings* run = hello.mutable_settings();
  run->set_entity(settings.entity);
  run->set_name(settings.name);
  run->set_group(settings.group);
  run->set_job_type(settings.job_type);
  run->set_notes(settings.notes);
  for (const std::string& tag : settings.tags) run->add_tags(tag);
  run->set_strategy(static_cast<v1::LogStrategy>(static_cast<int>(settings.log_strategy) + 1));
  AddDestinations(settings, run);
  // Without white space, which the daemon does not accept.
  for (const std::string& item : RepairRankStatistics(settings.rank_statistics)) {
    const bool is_rule = item.find('=') != std::string::npos;
    is_rule ? run->add_rank_statistic_rules(item) : run->add_rank_statistics(item);
  }
  run->set_host(settings.host);
  run->set_program(settings.program);
  run->set_start_time_us(std::chrono::duration_cast<std::chrono::microseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count());
  run->set_resume(settings.resume);
  run->set_no_metadata(!settings.metadata);
  run->set_no_system_metrics(!settings.system_metrics);
  run->set_name_pattern(settings.run_name_pattern);
  run->set_home(FindHome(settings));

  // The address may be written in several ways. The address of a place has only one form.
  const std::string address = settings.address.empty()
                                  ? v1::kDefaultAddress
                                  : absl::StrCat("unix:", SocketPlaces(settings.address)[0].path);
  hello.mutable_ring()->set_address(IsUtf8(address) ? address : "");  // empty: any daemon

  v1::Identity* identity = hello.mutable_identity();
  identity->set_local_rank(static_cast<uint32_t>(*settings.local_rank));
  identity->set_world_size(static_cast<uint32_t>(*settings.world_size));
  identity->set_local_world_size(static_cast<uint32_t>(settings.local_world_size.value_or(0)));
  identity->set_node_rank(static_cast<uint32_t>(*settings.node_rank));
  identity->set_node(settings.node);
  identity->set_client_version(kVersion);
  identity->set_began_us(MicrosSinceBoot());
  identity->set_boot_id(BootId());
  return hello;
}

}  // namespace ranklog::internal
