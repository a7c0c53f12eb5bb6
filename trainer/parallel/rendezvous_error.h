#ifndef TRAINER_PARALLEL_RENDEZVOUS_ERROR_H_
#define TRAINER_PARALLEL_RENDEZVOUS_ERROR_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "trainer/parallel/rendezvous.h"

namespace ranklog::trainer {

// Whether another socket of this machine uses `port`, so that rank 0 cannot serve its store on it.
bool PortIsTaken(uint16_t port);

// "port 29500 is taken, ..."
std::string PortTakenError(uint16_t port);

// Explains why `at.rank` has no connection to the store at `at` after `timeout`, with advice: a
// sentence without its subject. `reason` is LibTorch's. Checks the host name and this machine's
// addresses.
std::string ExplainNoStore(const Rendezvous& at, absl::Duration timeout, const std::string& reason);

}  // namespace ranklog::trainer

#endif  // TRAINER_PARALLEL_RENDEZVOUS_ERROR_H_
