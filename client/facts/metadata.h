// The facts of this process that trackers show beside a run: metadata. metadata.md describes them.

#ifndef CLIENT_FACTS_METADATA_H_
#define CLIENT_FACTS_METADATA_H_

#include <map>
#include <string>

#include "ranklog/settings.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

// What must be read on the thread that calls Init(): another thread must not read the environment,
// which the program may change, and the program may change its working directory.
struct Surroundings {
  std::map<std::string, std::string> variables;  // those that MakeMetadata() uses
  std::string directory;
};

// Takes some microseconds.
Surroundings ReadSurroundings();

// Reads the facts from files; runs no program, and asks no network service. Takes about a
// millisecond, and longer if the working directory is on a slow file system. Any thread.
//
// `settings` are resolved. Secrets are masked (secrets.h). All texts are UTF-8.
v1::Object MakeMetadata(const Settings& settings, const Surroundings& surroundings,
                        int64_t start_time_us);

}  // namespace ranklog::internal

#endif  // CLIENT_FACTS_METADATA_H_
