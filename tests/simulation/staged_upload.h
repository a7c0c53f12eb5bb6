// What a rank uploads: small artifacts and files of the run, whose contents are often equal.

#ifndef TESTS_SIMULATION_STAGED_UPLOAD_H_
#define TESTS_SIMULATION_STAGED_UPLOAD_H_

#include "absl/time/time.h"
#include "ranklog/v1/ranklog.pb.h"
#include "tests/simulation/oracle.h"
#include "tests/simulation/world.h"

namespace ranklog::simulation {

struct StagedUpload {
  v1::Item item;
  LoggedUpload logged;
};

// Makes and stages one, as the client's stager does. Sometimes damages a staged file at once. `now`
// is the node's wall clock, by which the files get their times.
StagedUpload StageUpload(World* world, const v1::ContentPlace& place, absl::Time now,
                         const RingRecord& ring);

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_STAGED_UPLOAD_H_
