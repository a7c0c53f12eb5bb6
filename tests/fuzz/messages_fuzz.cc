// Converts the messages of a rank's stream and calls. Input: a byte for the kind of message, and
// the serialized message.

#include <string>

#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/ring/convert.h"
#include "service/storage/rows/batch_codec.h"
#include "service/storage/rows/documents.h"
#include "tests/fuzz/fuzz.h"

namespace ranklog::fuzz {
namespace {

void Rows(const v1::Batch& message) {
  const absl::StatusOr<model::Batch> batch = ingest::ToBatch(message);
  if (!batch.ok()) return;
  MUST(model::Validate(*batch).ok());
  uint64_t next = batch->first;
  model::ForEachRow(*batch, [&](const model::Block& block, size_t row, uint64_t position) {
    MUST(position == next++);
    MUST(row < block.rows() && (row + 1) * block.width() <= block.values.size());
  });
  MUST(next == batch->last + 1);
  std::string blob, again;
  storage::EncodeBatch(*batch, blob);
  const absl::StatusOr<model::Batch> decoded = storage::DecodeBatch(blob);
  MUST(decoded.ok());
  storage::EncodeBatch(*decoded, again);
  MUST(blob == again);
  if (batch->first < batch->last) {
    const model::Batch rest = model::DropThrough(*batch, batch->first);
    MUST(model::Validate(rest).ok() && rest.first == batch->first + 1 && rest.last == batch->last);
  }
}

void Hello(const v1::Hello& hello) {
  const absl::StatusOr<model::Session> session = ingest::ToSession(hello);
  if (!session.ok()) return;
  MUST(model::Validate(*session).ok());
  const std::string blob = storage::EncodeSettings(session->settings);
  const absl::StatusOr<model::RunSettings> settings = storage::DecodeSettings(blob);
  MUST(settings.ok());
  MUST(storage::EncodeSettings(*settings) == blob);
}

void Item(const v1::Item& message) {
  const absl::StatusOr<model::Item> item = ingest::ToItem(message);
  if (!item.ok()) return;
  const std::string blob = storage::EncodeItem(*item);
  const absl::StatusOr<model::Item> decoded =
      storage::DecodeItem(static_cast<int64_t>(item->kind), blob);
  MUST(decoded.ok());
  MUST(storage::EncodeItem(*decoded) == blob);
}

}  // namespace
}  // namespace ranklog::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ranklog;
  v1::ClientMessage message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  if (message.has_batch()) fuzz::Rows(message.batch());
  if (message.has_hello()) fuzz::Hello(message.hello());
  if (message.has_losses()) ingest::ToLosses(message.losses()).total();
  for (const v1::Item& item : message.items().item()) fuzz::Item(item);
  return 0;
}
