// The part of ClickhouseDelivery that sends rows and system metrics, exactly once:
//
//   1. A cut is fixed: the last row of each stream. It is stored.
//   2. Its rows are sent with a token that names them. The server drops a repetition.
//   3. After the answer, the places move, and the next cut is fixed. Both are stored at once.
//
// If the token may be forgotten, the server is asked what it has before the cut is sent again.

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/clickhouse/clickhouse_delivery.h"
#include "service/deliver/http/gzip.h"

namespace ranklog::deliver::clickhouse {
namespace {

constexpr uint64_t kMaxSamples = 1000;

}  // namespace

uint64_t ClickhouseDelivery::WaitingRows() const {
  uint64_t rows = 0;
  for (const model::Stream& stream : streams_) {
    const auto place = cursor_.places.find(stream.id);
    const uint64_t sent =
        place == cursor_.places.end() ? 0 : std::min(place->second.points, place->second.texts);
    rows += stream.durable_seq - std::min(stream.durable_seq, sent);
  }
  return rows;
}

bool ClickhouseDelivery::MaySend(absl::Time now, bool draining) const {
  return draining || ended() || more_ || now >= last_insert_ + interval_;
}

// Whether the server still has the token of the cut, or said a moment ago what it has.
bool ClickhouseDelivery::IsSure(absl::Time now) const {
  if (now < asked_ + options_.token_life) return true;
  if (!cursor_.cut) return asked_ != absl::InfinitePast();
  const int64_t age = options_.boot_clock_us() - cursor_.cut->boot_us;
  return cursor_.cut->boot == options_.boot && age >= 0 &&
         age < absl::ToInt64Microseconds(options_.token_life);
}

absl::StatusOr<ClickhouseDelivery::Wait> ClickhouseDelivery::SendRows(storage::StoreReader& reader,
                                                                      absl::Time now,
                                                                      bool draining) {
  if (!IsSure(now)) return AskPlaces(now);
  if (!cursor_.cut) {
    CountDelivered();
    if (WaitingRows() == 0 || !MaySend(now, draining)) return absl::nullopt;
    RETURN_IF_ERROR(FixCut(reader));
    // The cut is stored before it is sent.
    if (cursor_.cut) return absl::ZeroDuration();
    return absl::nullopt;
  }
  if (!prepared_) {
    ASSIGN_OR_RETURN(prepared_, Prepare(reader, cursor_.places, cursor_.cut));
  }
  for (const bool texts : {false, true}) {
    std::string& body = texts ? prepared_->texts : prepared_->points;
    if (body.empty()) continue;
    if (const Wait failed = SendBlock(reader, texts, now)) return *failed;
    body.clear();
    if (!texts && !prepared_->texts.empty()) return absl::ZeroDuration();
  }
  CutDelivered();
  last_insert_ = now;
  delivery_.last_error.clear();
  if (more_) RETURN_IF_ERROR(FixCut(reader));
  CountDelivered();
  return absl::ZeroDuration();
}

absl::StatusOr<ClickhouseDelivery::Prepared> ClickhouseDelivery::Prepare(
    storage::StoreReader& reader, const std::map<int64_t, Place>& places,
    const absl::optional<Cut>& cut) {
  Prepared prepared;
  ASSIGN_OR_RETURN(Blocks blocks, rows_.Read(reader, streams_, places, cut, options_.cut_values));
  prepared.places = places;
  prepared.to = blocks.to;
  prepared.more = blocks.more || blocks.rows() >= options_.full_values;
  if (blocks.points.rows() > 0) {
    prepared.points_token = "ranklog-" + Digest("points " + blocks.point_range);
    ASSIGN_OR_RETURN(prepared.points, blocks.points.Points(run_.project, RunOf()));
  }
  if (blocks.texts.rows() > 0) {
    prepared.texts_token = "ranklog-" + Digest("texts " + blocks.text_range);
    ASSIGN_OR_RETURN(prepared.texts, blocks.texts.Texts(run_.project, RunOf()));
  }
  return prepared;
}

// Nullopt: it was sent. If more rows wait, the next cut is made meanwhile: by this thread, whose
// crash would be known as one of this delivery.
absl::optional<absl::Duration> ClickhouseDelivery::SendBlock(storage::StoreReader& reader,
                                                             bool texts, absl::Time now) {
  const char* const table = texts ? "texts" : "points";
  HttpRequest request = InsertGzip(at(), table, texts ? kTextColumns : kPointColumns, "Native",
                                   texts ? prepared_->texts_token : prepared_->points_token,
                                   texts ? prepared_->texts : prepared_->points);
  absl::StatusOr<HttpResponse> answer;
  if (more_ && !next_) {
    const auto send = [&] { answer = SendRequest(std::move(request), /*is_insert=*/true); };
    std::thread sender;
    try {
      sender = std::thread(send);
    } catch (const std::system_error&) {
      send();  // no threads left
    }
    std::map<int64_t, Place> places = cursor_.places;
    Move(cursor_.cut->to, &places);
    absl::StatusOr<Prepared> next = Prepare(reader, places, absl::nullopt);
    if (sender.joinable()) sender.join();
    // An error is found again when its turn comes.
    if (next.ok()) next_ = *std::move(next);
  } else {
    answer = SendRequest(std::move(request), /*is_insert=*/true);
  }
  if (OutcomeOf(answer) != Outcome::kAccepted) {
    return NotAccepted(absl::StrCat("insert into ", table), answer, now);
  }
  OnSuccess();
  if (interval_ > options_.insert_interval) {
    interval_ = std::max(options_.insert_interval, interval_ * 0.9);
  }
  return absl::nullopt;
}

absl::Status ClickhouseDelivery::FixCut(storage::StoreReader& reader) {
  if (next_ && next_->places != cursor_.places) next_.reset();
  if (!next_) {
    ASSIGN_OR_RETURN(next_, Prepare(reader, cursor_.places, absl::nullopt));
  }
  more_ = next_->more;
  if (!next_->to.empty()) {
    cursor_.cut = Cut{.to = next_->to, .boot = options_.boot, .boot_us = options_.boot_clock_us()};
    prepared_ = std::move(next_);
  }
  next_.reset();
  return absl::OkStatus();
}

void ClickhouseDelivery::Move(const std::map<int64_t, uint64_t>& to,
                              std::map<int64_t, Place>* places) {
  for (const auto& [stream, seq] : to) {
    Place& place = (*places)[stream];
    place.points = std::max(place.points, seq);
    place.texts = std::max(place.texts, seq);
  }
}

void ClickhouseDelivery::CutDelivered() {
  Move(cursor_.cut->to, &cursor_.places);
  cursor_.cut.reset();
  prepared_.reset();
}

// The run's rows are made from the streams' rows, which are what is sent. While some of these wait,
// the share is an estimate.
void ClickhouseDelivery::CountDelivered() {
  const uint64_t waiting = WaitingRows();
  if (waiting == 0) {
    delivery_.delivered_rows = run_.rows;
    return;
  }
  uint64_t all = 0;
  for (const model::Stream& stream : streams_) all += stream.durable_seq;
  const double share = static_cast<double>(all - std::min(all, waiting)) / static_cast<double>(all);
  const auto rows = static_cast<uint64_t>(static_cast<double>(run_.rows) * share);
  const uint64_t most = run_.rows == 0 ? 0 : run_.rows - 1;
  delivery_.delivered_rows =
      std::max(std::min(delivery_.delivered_rows, run_.rows), std::min(rows, most));
}

absl::StatusOr<ClickhouseDelivery::Wait> ClickhouseDelivery::SendSamples(
    storage::StoreReader& reader, absl::Time now, bool draining) {
  if (cursor_.samples >= run_.samples) return absl::nullopt;
  if (cursor_.samples_to <= cursor_.samples) {
    const bool due = ended() || draining || now >= last_samples_ + options_.sample_interval;
    if (!due) return absl::nullopt;
    cursor_.samples_to = std::min(run_.samples, cursor_.samples + kMaxSamples);
    return absl::ZeroDuration();  // the cut is stored before it is sent
  }
  ASSIGN_OR_RETURN(const std::vector<model::Sample> samples,
                   reader.Samples(run_.id, cursor_.samples, cursor_.samples_to - cursor_.samples));
  if (samples.empty()) {
    return absl::DataLossError(
        absl::StrCat("system metrics of run ", run_.run_id, " are not in the store"));
  }
  Dictionary names;
  std::vector<uint32_t> indexes;
  std::vector<int64_t> times_us;
  std::vector<double> values;
  std::vector<uint64_t> numbers;
  for (const model::Sample& sample : samples) {
    for (const auto& [name, value] : sample.values) {
      indexes.push_back(names.IndexOf(name));
      times_us.push_back(sample.time_us);
      values.push_back(value);
      numbers.push_back(sample.number);
    }
  }
  if (!values.empty()) {
    const uint64_t part = PartOf(streams_);
    GzipWriter gzip;
    {
      NativeBlock block(8, values.size(), [&](absl::string_view piece) { gzip.Add(piece); });
      block.AddConstant("project", run_.project);
      block.AddConstant("run", RunOf());
      block.AddConstant("node", streams_.front().identity.node);
      block.Add("name", names, indexes);
      block.AddTimes("ts", times_us);
      block.Add("value", absl::MakeConstSpan(values));
      block.AddFew("part", std::vector<uint64_t>{part}, std::vector<uint32_t>(values.size(), 0));
      block.Add("number", absl::MakeConstSpan(numbers));
    }
    ASSIGN_OR_RETURN(std::string body, gzip.Finish());
    const std::string token = absl::StrCat(
        "ranklog-",
        Digest(absl::StrCat("samples ", part, " ", cursor_.samples, "-", cursor_.samples_to)));
    const absl::StatusOr<HttpResponse> answer = SendRequest(
        InsertGzip(at(), "system_samples", "project, run, node, name, ts, value, part, number",
                   "Native", token, std::move(body)),
        /*is_insert=*/true);
    if (OutcomeOf(answer) != Outcome::kAccepted) {
      return NotAccepted("insert into system_samples", answer, now);
    }
    OnSuccess();
  }
  cursor_.samples = cursor_.samples_to;
  if (cursor_.samples >= run_.samples) last_samples_ = now;
  delivery_.last_error.clear();
  return absl::ZeroDuration();
}

}  // namespace ranklog::deliver::clickhouse
