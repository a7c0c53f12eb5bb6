#include "service/ingest/orphans/drain.h"

#include <spdlog/spdlog.h>

#include <utility>
#include <vector>

#include "service/base/status_macros.h"
#include "service/ingest/ring/convert.h"

namespace ranklog::ingest {
namespace {

constexpr size_t kPartBytes = 4 << 20;  // per commit; limits the memory that a drain needs

}  // namespace

absl::Status StorePart(const SpoolReader::Part& part, int64_t stream, storage::Store& store) {
  for (const SpoolReader::Part::Shape& shape : part.shapes) {
    RETURN_IF_ERROR(store.DefineShape(stream, shape.id, shape.keys));
  }
  if (part.has_rows()) RETURN_IF_ERROR(store.Append(stream, part.batch).status());
  if (part.items.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(store.SkipItemsTo(stream, part.items.front().seq - 1));  // as for rows
  return store.AppendItems(stream, part.items).status();
}

absl::StatusOr<Drained> DrainRing(SpoolReader& ring, int64_t stream, pipeline::StoreLoop& store,
                                  const ContentDir* content) {
  // An older copy of the store lacks rows that the rank has freed. Store::Attach() counts them, but
  // nobody attaches this stream again.
  const uint64_t first = ring.FirstSeq(/*lives=*/false);
  const auto skip_freed_rows = [&](storage::Store& open) { return open.SkipTo(stream, first - 1); };
  Drained drained;
  while (drained.damage.ok()) {
    absl::StatusOr<SpoolReader::Part> part = ring.Next(kPartBytes, content);
    if (!part.ok()) {
      drained.damage = part.status();
      break;
    }
    if (part->empty()) break;
    if (part->has_rows()) drained.damage = model::Validate(part->batch);
    if (!drained.damage.ok()) break;
    absl::Status stored = store.SubmitAndWait([&](storage::Store& open) -> absl::Status {
      RETURN_IF_ERROR(skip_freed_rows(open));
      return StorePart(*part, stream, open);
    });
    // kInvalidArgument means that the ring is damaged. Any other error is an error of the store,
    // and the ring is read again later.
    if (!stored.ok() && !absl::IsInvalidArgument(stored)) return stored;
    if (stored.ok() && part->has_rows()) drained.rows += part->batch.rows();
    if (stored.ok() && !part->files.empty()) content->Remove(part->files);
    drained.damage = std::move(stored);
  }
  RETURN_IF_ERROR(store.SubmitAndWait([&](storage::Store& open) -> absl::Status {
    RETURN_IF_ERROR(skip_freed_rows(open));
    return open.SetLosses(stream, ring.losses());
  }));
  return drained;
}

}  // namespace ranklog::ingest
