// Decodes the blobs of the store. Input: a byte for the kind of blob, and its bytes without the
// checksum. The target adds the checksum, because a blob without a valid one is never decoded.

#include <string>

#include "service/storage/rows/batch_codec.h"
#include "service/storage/rows/documents.h"
#include "tests/fuzz/fuzz.h"

namespace ranklog::fuzz {
namespace {

// The blocks of a run that repeat rows of a stream get the fields that their source would give.
absl::Status Complete(model::Block& block) {
  block.steps.resize(block.rows());
  block.times_us.resize(block.rows());
  return absl::OkStatus();
}

void Batch(const std::string& blob) {
  const absl::StatusOr<model::Batch> of_run = storage::DecodeBatch(blob, "", Complete);
  if (of_run.ok()) MUST(model::Validate(*of_run).ok());
  const absl::StatusOr<model::Batch> batch = storage::DecodeBatch(blob);
  if (!batch.ok()) return;
  MUST(model::Validate(*batch).ok());
  std::string once, twice;
  storage::EncodeBatch(*batch, once);
  const absl::StatusOr<model::Batch> again = storage::DecodeBatch(once);
  MUST(again.ok());
  storage::EncodeBatch(*again, twice);
  MUST(once == twice);
}

void Keys(const std::string& blob) {
  const absl::StatusOr<std::vector<std::string>> keys = storage::DecodeKeys(blob);
  if (!keys.ok()) return;
  const auto again = storage::DecodeKeys(storage::EncodeKeys(*keys));
  MUST(again.ok() && *again == *keys);
}

void Document(const std::string& blob) {
  const absl::StatusOr<model::Json> document = storage::DecodeDocument(blob);
  if (!document.ok()) return;
  const std::string once = storage::EncodeDocument(*document);
  const absl::StatusOr<model::Json> again = storage::DecodeDocument(once);
  MUST(again.ok());
  MUST(storage::EncodeDocument(*again) == once);
}

void Settings(const std::string& blob) {
  const absl::StatusOr<model::RunSettings> settings = storage::DecodeSettings(blob);
  if (!settings.ok()) return;
  MUST(!model::Name(settings->strategy).empty());
  const std::string once = storage::EncodeSettings(*settings);
  const absl::StatusOr<model::RunSettings> again = storage::DecodeSettings(once);
  MUST(again.ok());
  MUST(storage::EncodeSettings(*again) == once);
}

void Item(const std::string& blob, int64_t kind) {
  const absl::StatusOr<model::Item> item = storage::DecodeItem(kind, blob);
  if (!item.ok()) return;
  MUST(kind >= 1 && kind <= static_cast<int64_t>(model::Item::Kind::kRunFile));
  if (item->kind != model::Item::Kind::kMetric) MUST(item->object.is_object());
  const std::string once = storage::EncodeItem(*item);
  const absl::StatusOr<model::Item> again =
      storage::DecodeItem(static_cast<int64_t>(item->kind), once);
  MUST(again.ok());
  MUST(storage::EncodeItem(*again) == once);
}

}  // namespace
}  // namespace ranklog::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ranklog;
  if (size == 0) return 0;
  const std::string raw(fuzz::Text(data + 1, size - 1));
  const std::string blob = storage::Sealed(raw);
  switch (data[0] % 5) {
    case 0:
      fuzz::Batch(blob);
      break;
    case 1:
      fuzz::Keys(blob);
      break;
    case 2:
      fuzz::Document(blob);
      break;
    case 3:
      fuzz::Settings(blob);
      break;
    default:
      fuzz::Item(blob, data[0] / 5 % 6);
  }
  return 0;
}
