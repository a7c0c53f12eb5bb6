#include "trainer/parallel/rendezvous_store.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/base/rank_error.h"
#include "trainer/base/torch_compat.h"
#include "trainer/parallel/rendezvous_error.h"

namespace ranklog::trainer {
namespace {

constexpr char kRefused[] = "refused";  // key of the reason why the ranks cannot meet

// "rank 1" or "ranks 1, 2"; of many ranks, only the first few.
std::string Listed(const std::vector<int>& ranks) {
  constexpr size_t kShown = 10;
  const size_t shown = std::min(ranks.size(), kShown);
  return absl::StrCat(
      ranks.size() == 1 ? "rank " : "ranks ",
      absl::StrJoin(ranks.begin(), ranks.begin() + shown, ", "),
      shown < ranks.size() ? absl::StrCat(" and ", ranks.size() - shown, " more") : "");
}

// Claims this rank's number in a job of `at.world_size` ranks.
//   kFailedPrecondition  another process has the number, or another rank has another world size
absl::Status Claim(c10d::Store& store, const Rendezvous& at) {
  if (store.add(absl::StrCat("claimed/", at.rank), 1) > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "another process is rank ", at.rank, " of the job at ", at.address, ":", at.port,
        " already: give each process its own RANK, and each job its own MASTER_PORT; MASTER_ADDR "
        "must be the host of rank 0"));
  }
  const std::string mine = absl::StrCat(at.world_size);
  const std::vector<uint8_t> none, own(mine.begin(), mine.end());
  const std::vector<uint8_t> first = store.compareSet("world_size", none, own);
  const std::string theirs(first.begin(), first.end());
  if (theirs == mine) return absl::OkStatus();
  const std::string error =
      absl::StrCat("WORLD_SIZE is ", mine, " for rank ", at.rank, " and ", theirs,
                   " for the rank that came first: give all ranks of the job at ", at.address, ":",
                   at.port, " the same");
  store.set(kRefused, std::vector<uint8_t>(error.begin(), error.end()));
  return absl::FailedPreconditionError(error);
}

}  // namespace

std::string AttemptPrefix(const std::string& attempt) {
  return absl::StrCat("/worker/attempt_", attempt);
}

StorePtr OpenStore(const Rendezvous& at, absl::Duration timeout, bool serve) {
  c10d::TCPStoreOptions options;
  options.port = at.port;
  options.isServer = serve;
  options.numWorkers = at.world_size;
  options.waitWorkers = false;  // Meet() waits, and reports the missing ranks
  options.multiTenant = serve;
  options.timeout = absl::ToChronoMilliseconds(timeout);
  StorePtr store = compat::OpenStore<c10d::TCPStore>(at.address, options);
  if (!at.hosted) return store;
  return c10::make_intrusive<c10d::PrefixStore>(AttemptPrefix(at.attempt), std::move(store));
}

absl::StatusOr<StorePtr> ReachStore(const Rendezvous& at, absl::Duration timeout) {
  const bool serve = at.rank == 0 && !at.hosted;
  std::string error;
  if (serve && PortIsTaken(at.port)) {
    error = PortTakenError(at.port);
  } else {
    try {
      return OpenStore(at, timeout, serve);
    } catch (const std::exception& failure) {
      error = ExplainNoStore(at, timeout, ReasonOf(failure));
    }
  }
  return absl::UnavailableError(error);
}

absl::StatusOr<std::string> Meet(c10d::Store& store, const Rendezvous& at, const std::string& comm,
                                 absl::Duration timeout) {
  const auto here = [](int rank) { return absl::StrCat("here/", rank); };
  if (absl::Status claimed = Claim(store, at); !claimed.ok()) return claimed;
  store.set(here(at.rank), std::vector<uint8_t>(comm.begin(), comm.end()));
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoMilliseconds(timeout);
  Pauses pauses;
  for (int64_t arrived = store.add("arrived", 1); arrived < at.world_size;
       arrived = store.add("arrived", 0)) {
    if (store.check({kRefused})) {
      const std::vector<uint8_t> error = store.get(kRefused);
      return absl::FailedPreconditionError(std::string(error.begin(), error.end()));
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      std::vector<int> missing;
      for (int rank = 0; rank < at.world_size; ++rank) {
        if (!store.check({here(rank)})) missing.push_back(rank);
      }
      return absl::UnavailableError(
          absl::StrCat(Listed(missing), " of ", at.world_size, " did not connect to ", at.address,
                       ":", at.port, " within ", absl::FormatDuration(timeout),
                       "; check that they run and can reach MASTER_ADDR"));
    }
    pauses.Wait();
  }
  const std::vector<uint8_t> of_rank_0 = store.get(here(0));
  return std::string(of_rank_0.begin(), of_rank_0.end());
}

}  // namespace ranklog::trainer
