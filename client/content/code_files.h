// The source files of a program, for Run::LogCode().

#ifndef CLIENT_CONTENT_CODE_FILES_H_
#define CLIENT_CONTENT_CODE_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/content/staged_files.h"

namespace ranklog::internal {

// The files below a directory whose names end in one of `suffixes`, or in a usual one if there are
// none; sorted, with their paths in it. Without hidden directories, links to directories, build trees
// of CMake, and W&B's own directories.
//   kNotFound           there is no such directory, or no such file in it
//   kResourceExhausted  more than 10,000 files: a mistake, such as the root of a file system
absl::StatusOr<std::vector<FileToStage>> CodeIn(const std::string& root,
                                                const std::vector<std::string>& suffixes);

// As the official client names it: source-PROJECT-PROGRAM, with _ for what a name cannot have, and
// .. in the middle of one above 128 characters.
std::string CodeArtifactName(const std::string& project, const std::string& program);

}  // namespace ranklog::internal

#endif  // CLIENT_CONTENT_CODE_FILES_H_
