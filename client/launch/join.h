// How a process joins the run of another one, by a handle.

#ifndef CLIENT_LAUNCH_JOIN_H_
#define CLIENT_LAUNCH_JOIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "ranklog/settings.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

// The handle of a run, from the Hello of its maker or of a process that joined it. Without the texts
// that do not choose a run, so that the handle stays short. The steps are not set.
v1::RunHandle MakeHandle(const v1::Hello& hello);

// Reads a handle for use in this process.
//   kInvalidArgument      it is no handle; Validate() reports that
//   kFailedPrecondition   the maker ran on another node, or before a reboot
absl::StatusOr<v1::RunHandle> UseHandle(const std::string& text);

// `own` with the maker's run and rank.
Settings JoinSettings(const v1::RunHandle& handle, Settings own);

// Turns a Hello of this process, from MakeHello(), into one that joins the maker's run.
void JoinHello(const v1::RunHandle& handle, v1::Hello* hello);

}  // namespace ranklog::internal

#endif  // CLIENT_LAUNCH_JOIN_H_
