// The part of a W&B server that hands out what was logged: the operations of the public API by
// which a run's history, config and summary are read.

#ifndef TESTS_SUPPORT_WANDB_PUBLIC_API_H_
#define TESTS_SUPPORT_WANDB_PUBLIC_API_H_

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/wandb_server.h"

namespace ranklog::testing {

// The name in a query's text: the SDK's Python part sends it nowhere else.
std::string OperationOf(const std::string& query);

bool IsPublicApi(const std::string& operation);

// HistoryPage hands out lines by their _step, in the order in which they lie; of more than pageSize
// every k-th, as the real server thins them out.
nlohmann::json AnswerPublicApi(const std::string& operation, const nlohmann::json& variables,
                               const std::map<std::string, WandbServer::Run>& runs);

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_WANDB_PUBLIC_API_H_
