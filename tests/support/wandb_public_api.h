// The read side of a W&B server: the operations of the public API that return what a run holds.

#ifndef TESTS_SUPPORT_WANDB_PUBLIC_API_H_
#define TESTS_SUPPORT_WANDB_PUBLIC_API_H_

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/wandb_server.h"

namespace ranklog::testing {

// Returns the operation's name from the query text. The Python part of the SDK sends it nowhere
// else.
std::string OperationOf(const std::string& query);

bool IsPublicApi(const std::string& operation);

// HistoryPage returns lines by their _step, in stored order. If there are more than pageSize, it
// returns every k-th line, as the real server samples them. `url` returns the URL of a run's file.
nlohmann::json AnswerPublicApi(
    const std::string& operation, const nlohmann::json& variables,
    const std::map<std::string, WandbServer::Run>& runs,
    const std::function<std::string(const std::string& run, const std::string& file)>& url);

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_WANDB_PUBLIC_API_H_
