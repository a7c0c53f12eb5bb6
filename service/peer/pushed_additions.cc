#include "service/peer/pushed_additions.h"

#include "service/base/status_macros.h"
#include "service/ingest/ring/convert.h"

namespace ranklog::peer {
namespace {

// The numbers of rows are stored as signed integers. As for the first row of a rank.
constexpr uint64_t kMaxSeq = uint64_t{1} << 62;

}  // namespace

absl::StatusOr<Additions> ToAdditions(const v1::PushedStream& pushed) {
  Additions additions;
  for (const v1::DefineShape& shape : pushed.shape()) {
    additions.shapes.emplace_back(
        shape.id(), std::vector<std::string>(shape.keys().begin(), shape.keys().end()));
  }
  for (const v1::Batch& batch : pushed.batch()) {
    ASSIGN_OR_RETURN(model::Batch converted, ingest::ToBatch(batch));
    if (converted.last > kMaxSeq) return absl::InvalidArgumentError("a row's number is too large");
    additions.rows += converted.rows();
    additions.batches.push_back(std::move(converted));
  }
  if (pushed.has_passed_step()) additions.passed_step = pushed.passed_step();
  if (pushed.has_end()) {
    additions.end = pushed.end();
    if (pushed.end().last_seq() > kMaxSeq) {
      return absl::InvalidArgumentError("a row's number is too large");
    }
    if (pushed.end().reason().size() > kMaxText) {
      additions.end->set_reason(pushed.end().reason().substr(0, kMaxText));
    }
  }
  additions.losses = ingest::ToLosses(pushed.losses());
  return additions;
}

absl::StatusOr<uint64_t> StoreAdditions(int64_t stream, const Additions& additions, int64_t now_us,
                                        storage::Store& store) {
  for (const auto& [id, keys] : additions.shapes) {
    RETURN_IF_ERROR(store.DefineShape(stream, id, keys));
  }
  uint64_t durable = 0;
  for (const model::Batch& batch : additions.batches) {
    RETURN_IF_ERROR(store.SkipTo(stream, batch.first - 1));
    ASSIGN_OR_RETURN(durable, store.Append(stream, batch));
  }
  if (additions.passed_step) {
    RETURN_IF_ERROR(store.SetProgress(stream, *additions.passed_step));
  }
  if (!additions.end) return durable;
  const v1::StreamEnd& end = *additions.end;
  RETURN_IF_ERROR(store.SkipTo(stream, end.last_seq()));
  RETURN_IF_ERROR(store.SetLosses(stream, additions.losses));
  RETURN_IF_ERROR(store.EndStream(
      stream, end.crashed() ? model::StreamState::kCrashed : model::StreamState::kFinished,
      end.exit_code(), end.reason(), now_us));
  return end.last_seq();
}

}  // namespace ranklog::peer
