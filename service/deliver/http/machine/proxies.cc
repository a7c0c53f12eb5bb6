#include "service/deliver/http/machine/proxies.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/match.h"
#include "service/base/environment.h"

namespace ranklog::deliver {
namespace {

std::string FirstOf(const ProxyVariables& variables, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = variables.find(name);
    if (found != variables.end() && !found->second.empty()) return found->second;
  }
  return "";
}

}  // namespace

// HTTP_PROXY does not count, because CGI uses that name for a request header.
std::string ProxyOf(const std::string& scheme, const ProxyVariables& variables) {
  if (scheme == "http") return FirstOf(variables, {"http_proxy", "all_proxy", "ALL_PROXY"});
  return FirstOf(variables, {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"});
}

std::string NoProxyOf(const ProxyVariables& variables) {
  return FirstOf(variables, {"no_proxy", "NO_PROXY"});
}

// curl itself would keep the white space around them.
ProxyVariables OwnProxies() {
  ProxyVariables variables;
  for (const char* name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
                           "no_proxy", "NO_PROXY"}) {
    variables[name] = EnvironmentVariable(name);
  }
  return variables;
}

bool NameProxies(const ProxyVariables& variables) {
  return std::any_of(variables.begin(), variables.end(), [](const auto& variable) {
    return absl::EndsWithIgnoreCase(variable.first, "_proxy");
  });
}

}  // namespace ranklog::deliver
