// The proxy of a request, from the same variables that curl reads.

#ifndef SERVICE_DELIVER_HTTP_MACHINE_PROXIES_H_
#define SERVICE_DELIVER_HTTP_MACHINE_PROXIES_H_

#include <map>
#include <string>

namespace ranklog::deliver {

using ProxyVariables = std::map<std::string, std::string>;

// The proxy for URLs of `scheme`; empty: none.
std::string ProxyOf(const std::string& scheme, const ProxyVariables& variables);
// The hosts that are reached without it, as no_proxy lists them.
std::string NoProxyOf(const ProxyVariables& variables);

// The variables of this process.
ProxyVariables OwnProxies();

// A rank sends all variables, a command only those that it sets.
bool NameProxies(const ProxyVariables& variables);

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_HTTP_MACHINE_PROXIES_H_
