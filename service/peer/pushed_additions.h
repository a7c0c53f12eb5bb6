// What a request of another node adds to one stream.

#ifndef SERVICE_PEER_PUSHED_ADDITIONS_H_
#define SERVICE_PEER_PUSHED_ADDITIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/model/batch.h"
#include "service/model/session.h"
#include "service/storage/store.h"

namespace ranklog::peer {

inline constexpr size_t kMaxText = 1024;  // of a reason or a node's name, for people

// Everything of one stream in a request, checked before it is stored.
struct Additions {
  std::vector<std::pair<uint32_t, std::vector<std::string>>> shapes;
  std::vector<model::Batch> batches;
  absl::optional<int64_t> passed_step;
  absl::optional<v1::StreamEnd> end;
  model::Losses losses;
  uint64_t rows = 0;
};

// kInvalidArgument: a batch or a number of a row is not valid.
absl::StatusOr<Additions> ToAdditions(const v1::PushedStream& pushed);

// Rows that the sender's store has lost are lost here, too.
// Returns the last durable row.
absl::StatusOr<uint64_t> StoreAdditions(int64_t stream, const Additions& additions, int64_t now_us,
                                        storage::Store& store);

}  // namespace ranklog::peer

#endif  // SERVICE_PEER_PUSHED_ADDITIONS_H_
