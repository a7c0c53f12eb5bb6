#ifndef SERVICE_CLI_DOCTOR_FINDING_H_
#define SERVICE_CLI_DOCTOR_FINDING_H_

#include <string>

#include "service/model/run.h"

namespace ranklog::cli {

// The result of one check of `ranklog doctor`.
struct Finding {
  // One of: directory, disk, socket, daemon, store, rows, delivery, set aside, spool, peer key, ...
  std::string part;
  model::Json data;  // for programs
  std::string text;
  std::string advice;  // empty: no problem
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_DOCTOR_FINDING_H_
