// Converts the messages of a rank's stream and calls. Input: a byte for the kind of message, and
// the serialized message.

#include <string>

#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/convert.h"
#include "service/storage/batch_codec.h"
#include "service/storage/documents.h"
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

void Update(const v1::Update& message) {
  const absl::StatusOr<model::Update> update = ingest::ToUpdate(message);
  if (!update.ok()) return;
  const std::string blob = storage::EncodeUpdate(*update);
  const absl::StatusOr<model::Update> decoded =
      storage::DecodeUpdate(static_cast<int64_t>(update->kind), blob);
  MUST(decoded.ok());
  MUST(storage::EncodeUpdate(*decoded) == blob);
}

}  // namespace
}  // namespace ranklog::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ranklog;
  if (size == 0) return 0;
  const int bytes = static_cast<int>(size - 1);
  if (data[0] % 2 == 0) {
    v1::ClientMessage message;
    if (!message.ParseFromArray(data + 1, bytes)) return 0;
    if (message.has_batch()) fuzz::Rows(message.batch());
    if (message.has_hello()) fuzz::Hello(message.hello());
    if (message.has_losses()) ingest::ToLosses(message.losses()).total();
  } else {
    v1::UpdateRequest request;
    if (!request.ParseFromArray(data + 1, bytes)) return 0;
    fuzz::Update(request.update());
    ingest::ToStreamKey(request.stream());
  }
  return 0;
}
