#include "service/deliver/clickhouse/format/blocks.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/http/gzip.h"

namespace ranklog::deliver::clickhouse {
namespace {

constexpr size_t kReadBytes = 4 << 20;  // of a stream's rows, in memory

// Appends the points of the rows [from, end) of a block: some rows of each column at a time, so that
// their steps, times and numbers repeat within the 32 KiB in which gzip finds repetitions.
void AddPoints(const model::Stream& stream, const model::Batch& batch, const model::Block& block,
               size_t from, size_t end, const std::vector<std::string>& keys,
               BlockColumns* columns) {
  constexpr size_t kRows = 1024;  // 8 KiB
  const size_t width = block.width();
  const size_t size = columns->rows() + (end - from) * width;
  const auto of_stream = static_cast<uint32_t>(columns->ranks.size() - 1);
  size_t at = columns->rows();
  columns->metrics.resize(size);
  columns->of_stream.resize(size, of_stream);
  columns->steps.resize(size);
  columns->times_us.resize(size);
  columns->seqs.resize(size);
  columns->values.resize(size);
  std::vector<uint32_t> metrics;
  metrics.reserve(width);
  for (const std::string& key : keys) metrics.push_back(columns->keys.IndexOf(key));
  for (; from < end; from += std::min(kRows, end - from)) {
    const size_t some = std::min(kRows, end - from);
    for (size_t column = 0; column < width; ++column) {
      for (size_t row = from; row < from + some; ++row, ++at) {
        columns->metrics[at] = metrics[column];
        columns->steps[at] = StepOf(stream, block, row);
        columns->times_us[at] = block.times_us[row];
        columns->seqs[at] = batch.first + block.offsets[row];
        columns->values[at] = block.values[row * width + column];
      }
    }
  }
}

void AddTexts(const model::Stream& stream, const model::Batch& batch, const model::Block& block,
              size_t from, size_t end, BlockColumns* columns) {
  for (const model::Text& text : block.texts) {
    if (text.row < from || text.row >= end) continue;
    columns->metrics.push_back(columns->keys.IndexOf(text.key));
    columns->of_stream.push_back(static_cast<uint32_t>(columns->ranks.size() - 1));
    columns->steps.push_back(StepOf(stream, block, text.row));
    columns->times_us.push_back(block.times_us[text.row]);
    columns->texts.push_back(text.value);
    columns->are_json.push_back(text.json ? 1 : 0);
    columns->seqs.push_back(batch.first + block.offsets[text.row]);
  }
}

// The first row of the block after `seq`.
size_t FirstAfter(const model::Batch& batch, const model::Block& block, uint64_t seq) {
  if (seq < batch.first) return 0;
  const uint64_t offset = seq - batch.first;
  return static_cast<size_t>(std::upper_bound(block.offsets.begin(), block.offsets.end(), offset) -
                             block.offsets.begin());
}

// The last row after `seq` with which the batch has at most `most` values, but at least one row.
uint64_t LastWithin(const model::Batch& batch, uint64_t seq, size_t most) {
  size_t values = 0;
  uint64_t last = std::max(seq, batch.first - 1);
  bool fits = true;
  model::ForEachRow(batch, [&](const model::Block& block, size_t row, uint64_t position) {
    if (position <= seq || !fits) return;
    values += block.width() + model::TextsOf(block, row).size();
    fits = values <= most || last <= std::max(seq, batch.first - 1);
    if (fits) last = position;
  });
  return last;
}

}  // namespace

std::string RunName(const model::Run& run, absl::Span<const model::Stream> streams) {
  if (streams.empty()) return run.run_id;
  const model::Stream& first = streams.front();
  return first.job_id.empty() ? first.key.job_id : first.job_id;
}

uint64_t PartOf(absl::Span<const model::Stream> streams) {
  const auto key = [](const model::Stream& stream) {
    return std::make_tuple(stream.started_us, stream.key.incarnation);
  };
  const auto first =
      std::min_element(streams.begin(), streams.end(),
                       [&](const auto& one, const auto& other) { return key(one) < key(other); });
  return first == streams.end() ? 0 : first->key.incarnation;
}

void BlockColumns::Begin(const model::Stream& stream) {
  ranks.push_back(stream.key.rank);
  attempts.push_back(stream.attempt);
  streams.push_back(stream.key.incarnation);
}

void BlockColumns::AddCommon(NativeBlock* block) const {
  block->Add("metric", keys, metrics);
  block->AddFew("rank", absl::MakeConstSpan(ranks), of_stream);
  block->AddFew("attempt", absl::MakeConstSpan(attempts), of_stream);
  block->AddFew("stream", absl::MakeConstSpan(streams), of_stream);
  block->Add("step", absl::MakeConstSpan(steps));
  block->AddTimes("ts", times_us);
  block->Add("seq", absl::MakeConstSpan(seqs));
}

absl::StatusOr<std::string> BlockColumns::Points(const std::string& project,
                                                 const std::string& run) const {
  GzipWriter gzip;
  {
    NativeBlock block(10, rows(), [&](absl::string_view piece) { gzip.Add(piece); });
    block.AddConstant("project", project);
    block.AddConstant("run", run);
    AddCommon(&block);
    block.Add("value", absl::MakeConstSpan(values));
  }
  return gzip.Finish();
}

absl::StatusOr<std::string> BlockColumns::Texts(const std::string& project,
                                                const std::string& run) const {
  GzipWriter gzip;
  {
    NativeBlock block(11, rows(), [&](absl::string_view piece) { gzip.Add(piece); });
    block.AddConstant("project", project);
    block.AddConstant("run", run);
    AddCommon(&block);
    block.Add("value", absl::MakeConstSpan(texts));
    block.Add("is_json", absl::MakeConstSpan(are_json));
  }
  return gzip.Finish();
}

absl::StatusOr<const std::vector<std::vector<std::string>>*> RowReader::ShapesOf(
    storage::StoreReader& reader, const model::Stream& stream, const model::Batch& batch) {
  std::vector<std::vector<std::string>>& shapes = shapes_[stream.id];
  const bool known =
      std::all_of(batch.blocks.begin(), batch.blocks.end(), [&](const model::Block& block) {
        return block.shape < shapes.size() && shapes[block.shape].size() == block.width();
      });
  if (!known) {
    ASSIGN_OR_RETURN(shapes, reader.Shapes(stream.id));
    for (const model::Block& block : batch.blocks) {
      if (block.shape < shapes.size() && shapes[block.shape].size() == block.width()) continue;
      return absl::DataLossError(
          absl::StrCat("the keys of shape ", block.shape, " are not in the store"));
    }
  }
  return &shapes;
}

absl::StatusOr<Blocks> RowReader::Read(storage::StoreReader& reader,
                                       absl::Span<const model::Stream> streams,
                                       const std::map<int64_t, Place>& places,
                                       const absl::optional<Cut>& cut, size_t most) {
  Blocks blocks;
  size_t streams_left = streams.size();
  for (const model::Stream& stream : streams) {
    // Every stream gets its share, so that the ranks' values of a step come together: then the view
    // has few rows of each step to join.
    const size_t used = blocks.rows();
    const size_t share = (most - std::min(most, used)) / streams_left--;
    const auto known = places.find(stream.id);
    const Place place = known == places.end() ? Place() : known->second;
    uint64_t end = stream.durable_seq;
    if (cut) {
      const auto to = cut->to.find(stream.id);
      if (to == cut->to.end()) continue;
      end = to->second;
    }
    const uint64_t begin = std::min(place.points, place.texts);
    uint64_t read = begin;
    const size_t points_before = blocks.points.rows();
    const size_t texts_before = blocks.texts.rows();
    blocks.points.Begin(stream);
    blocks.texts.Begin(stream);
    bool waits = false;
    while (read < end && !waits) {
      const size_t added = blocks.rows() - used;
      if (!cut && added >= share) break;
      const size_t room =
          cut ? kReadBytes : std::clamp<size_t>((share - added) * sizeof(double), 4096, kReadBytes);
      ASSIGN_OR_RETURN(const std::vector<storage::StoredBatch> batches,
                       reader.StreamBatches(stream.id, read, room));
      const uint64_t before = read;
      for (const storage::StoredBatch& stored : batches) {
        const model::Batch& batch = stored.batch;
        if (read >= end) break;
        const auto unknown = [&](const model::Block& block) { return !HasStep(stream, block); };
        waits = std::any_of(batch.blocks.begin(), batch.blocks.end(), unknown);
        if (waits) break;
        ASSIGN_OR_RETURN(const auto* shapes, ShapesOf(reader, stream, batch));
        uint64_t through = std::min(end, batch.last);
        if (!cut) {
          const size_t now = blocks.rows() - used;
          if (now >= share && now > 0) break;
          through = std::min(through, LastWithin(batch, read, share - now));
        }
        for (const model::Block& block : batch.blocks) {
          const size_t last = FirstAfter(batch, block, through);
          if (const size_t from = FirstAfter(batch, block, place.points); from < last) {
            AddPoints(stream, batch, block, from, last, (*shapes)[block.shape], &blocks.points);
          }
          if (const size_t from = FirstAfter(batch, block, place.texts); from < last) {
            AddTexts(stream, batch, block, from, last, &blocks.texts);
          }
        }
        read = through;
      }
      if (read == before && !waits) read = end;  // what is missing was lost with an earlier store
    }
    if (read == begin) continue;
    blocks.to[stream.id] = read;
    blocks.more |= read < end && !waits;
    const auto range = [&](uint64_t after) {
      return absl::StrCat(absl::Hex(stream.key.incarnation), ":", after + 1, "-", read, " ");
    };
    if (blocks.points.rows() > points_before) blocks.point_range += range(place.points);
    if (blocks.texts.rows() > texts_before) blocks.text_range += range(place.texts);
  }
  return blocks;
}

absl::Status RowReader::Visit(storage::StoreReader& reader, const model::Stream& stream,
                              uint64_t after, uint64_t to, Visitor visit) {
  uint64_t read = after;
  while (read < to) {
    ASSIGN_OR_RETURN(const std::vector<storage::StoredBatch> batches,
                     reader.StreamBatches(stream.id, read, kReadBytes));
    const uint64_t before = read;
    for (const storage::StoredBatch& stored : batches) {
      ASSIGN_OR_RETURN(const auto* shapes, ShapesOf(reader, stream, stored.batch));
      bool goes_on = true;
      model::ForEachRow(stored.batch, [&](const model::Block& block, size_t row, uint64_t seq) {
        if (!goes_on || seq <= after || seq > to) return;
        goes_on = visit(block, row, seq, (*shapes)[block.shape]);
      });
      if (!goes_on) return absl::OkStatus();
      read = stored.batch.last;
    }
    if (read == before) break;  // what is missing was lost with an earlier store
  }
  return absl::OkStatus();
}

}  // namespace ranklog::deliver::clickhouse
