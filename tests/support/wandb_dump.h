// What a WandbServer holds, as JSON.

#ifndef TESTS_SUPPORT_WANDB_DUMP_H_
#define TESTS_SUPPORT_WANDB_DUMP_H_

#include <nlohmann/json.hpp>

#include "tests/support/wandb_server.h"

namespace ranklog::testing {

// Lines, configs and summaries are parsed. Bytes of files are text, or {"base64": ...} if they are
// not UTF-8.
nlohmann::json DumpOf(const WandbServer& server);

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_WANDB_DUMP_H_
