#include "client/launch/home.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "client/settings/environment.h"
#include "client/settings/peer_address.h"

namespace ranklog::internal {
namespace {

// A host of a launcher's variable as HOST. Empty if it is only valid on its own node.
std::string HostOf(const std::string& given) {
  if (IsOwnHost(given)) return "";
  const bool is_ipv6 = given.find(':') != std::string::npos;
  std::string host = is_ipv6 ? absl::StrCat("[", given, "]") : given;
  return IsPeerAddress(host) ? host : "";
}

// The first host of the step or the job. nullopt: Slurm started neither.
std::optional<std::string> FirstHostOfSlurm() {
  std::optional<std::string> first;
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    const std::optional<std::string> list = Variable(name);
    if (!list) continue;
    first = "";
    // A list of one host does not tell where rank 0 is: each node may have a step of its own.
    if (list->find_first_of(",[") == std::string::npos) continue;
    return HostOf(FirstHost(*list));
  }
  return first;
}

}  // namespace

std::string FindHome(const Settings& resolved) {
  if (const auto peer = Variable("RANKLOG_PEER"); peer && IsPeerAddress(*peer)) return *peer;
  if (resolved.world_size == resolved.local_world_size) return "";
  // PyTorch's rank 0 listens there, so a wrong address would stop the training. Slurm's list is
  // wrong where torchrun, started on each node, gives rank 0 to another node than the first one.
  if (const auto master = Variable("MASTER_ADDR")) {
    if (std::string host = HostOf(*master); !host.empty()) return host;
  }
  if (const auto first = FirstHostOfSlurm()) return *first;
  const auto launch_node = Variable("SLURM_LAUNCH_NODE_IPADDR");  // of srun, often rank 0's node
  return launch_node ? HostOf(*launch_node) : "";
}

std::string FirstHost(std::string_view list) {
  std::string host;
  bool in_brackets = false;
  bool skips = false;  // the rest of the brackets
  for (const char c : list) {
    if (c == '[') {
      if (in_brackets) return "";
      in_brackets = true;
      skips = false;
    } else if (c == ']') {
      if (!in_brackets) return "";
      in_brackets = false;
    } else if (in_brackets) {
      skips |= c == ',' || c == '-';
      if (!skips) host += c;
    } else if (c == ',') {
      break;
    } else {
      host += c;
    }
  }
  return in_brackets ? "" : host;
}

}  // namespace ranklog::internal
