#include "tests/client/fake_ingest.h"

#include <algorithm>
#include <chrono>

#include "ranklog/v1/spool_layout.h"

namespace ranklog::testing {

void FakeIngest::Start() {
  stopping_ = false;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + path_, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(v1::kMaxMessageBytes);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

void FakeIngest::Stop() {
  if (server_ == nullptr) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    acks_.notify_all();
  }
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

std::vector<ReceivedStream> FakeIngest::Streams() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<ReceivedStream> streams;
  for (const auto& [incarnation, stream] : streams_) streams.push_back(stream);
  return streams;
}

std::vector<ReceivedRow> FakeIngest::Rows() {
  std::vector<ReceivedRow> rows;
  for (ReceivedStream& stream : Streams()) {
    rows.insert(rows.end(), stream.rows.begin(), stream.rows.end());
  }
  return rows;
}

size_t FakeIngest::row_count() {
  std::lock_guard<std::mutex> lock(mutex_);
  size_t count = 0;
  for (const auto& [incarnation, stream] : streams_) count += stream.rows.size();
  return count;
}

int FakeIngest::attaches() {
  std::lock_guard<std::mutex> lock(mutex_);
  return attaches_;
}

size_t FakeIngest::duplicates() {
  std::lock_guard<std::mutex> lock(mutex_);
  return duplicates_;
}

std::string FakeIngest::error() {
  std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

void FakeIngest::SetContent(const v1::ContentPlace& place) {
  const std::lock_guard<std::mutex> lock(mutex_);
  content_ = place;
}

void FakeIngest::Post(const v1::Notice& notice) {
  std::lock_guard<std::mutex> lock(mutex_);
  notices_.push_back(notice);
}

void FakeIngest::HoldAcks(bool hold) {
  std::lock_guard<std::mutex> lock(mutex_);
  hold_acks_ = hold;
  acks_.notify_all();
}

void FakeIngest::HoldHellos(bool hold) {
  std::lock_guard<std::mutex> lock(mutex_);
  hold_hellos_ = hold;
  acks_.notify_all();
}

void FakeIngest::AskForDescriptor(bool ask) {
  std::lock_guard<std::mutex> lock(mutex_);
  ask_for_descriptor_ = ask;
}

void FakeIngest::BreakAfter(int batches) {
  std::lock_guard<std::mutex> lock(mutex_);
  break_after_ = batches;
}

void FakeIngest::ReportError(const std::string& error) {
  if (error_.empty()) error_ = error;
}

void FakeIngest::Store(const v1::Batch& batch, const Shapes& shapes, ReceivedStream* stream) {
  if (batch.first_seq() > stream->rows.size() + 1) return ReportError("a gap before a batch");
  std::map<uint64_t, ReceivedRow> rows;
  for (const v1::Block& block : batch.block()) {
    const auto shape = shapes.find(block.shape());
    if (block.shape() != 0 && shape == shapes.end()) return ReportError("a shape is not defined");
    const std::vector<std::string> keys =
        block.shape() == 0 ? std::vector<std::string>() : shape->second;
    const int count = block.seq_offset_size();
    if (block.value_size() != count * static_cast<int>(keys.size()) ||
        block.step_delta_size() != count || block.time_delta_us_size() != count) {
      return ReportError("a block's lengths do not agree");
    }
    int64_t step = 0, time_us = 0;
    for (int i = 0; i < count; ++i) {
      ReceivedRow row;
      row.seq = batch.first_seq() + block.seq_offset(i);
      row.step = step += block.step_delta(i);
      row.time_us = time_us += block.time_delta_us(i);
      row.commits = block.commits();
      for (size_t k = 0; k < keys.size(); ++k) {
        row.values[keys[k]] = block.value(i * static_cast<int>(keys.size()) + static_cast<int>(k));
      }
      for (const v1::Text& text : block.text()) {
        if (text.row() != static_cast<uint32_t>(i)) continue;
        (text.json() ? row.json : row.texts)[text.key()] = text.value();
      }
      if (!rows.emplace(row.seq, row).second) ReportError("a row is in two blocks");
    }
  }
  if (rows.size() != batch.last_seq() - batch.first_seq() + 1) ReportError("a row is missing");
  for (auto& [seq, row] : rows) {
    if (seq <= stream->rows.size()) {
      ++duplicates_;
    } else {
      stream->rows.push_back(std::move(row));
    }
  }
}

void FakeIngest::Store(const v1::Items& items, ReceivedStream* stream) {
  for (const v1::Item& item : items.item()) {
    if (item.seq() > stream->items.size() + 1) ReportError("a gap before an item");
    if (item.after_row() > stream->rows.size()) ReportError("an item before its rows");
    if (item.seq() <= stream->items.size()) {
      ++duplicates_;
    } else {
      stream->items.push_back(item);
    }
  }
}

grpc::Status FakeIngest::Attach(
    grpc::ServerContext*, grpc::ServerReaderWriter<v1::ServerMessage, v1::ClientMessage>* stream) {
  v1::ClientMessage message;
  if (!stream->Read(&message) || !message.has_hello()) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "no hello"};
  }
  std::unique_lock<std::mutex> lock(mutex_);
  ++attaches_;
  ReceivedStream& received = streams_[message.hello().stream().incarnation()];
  received.hello = message.hello();
  v1::ServerMessage reply;
  reply.mutable_hello()->set_durable_seq(received.rows.size());
  reply.mutable_hello()->set_durable_item(received.items.size());
  reply.mutable_hello()->set_send_descriptor(ask_for_descriptor_);
  *reply.mutable_hello()->mutable_content() = content_;
  acks_.wait(lock, [this] { return !hold_hellos_ || stopping_; });
  for (const v1::Notice& notice : notices_) *reply.add_notices() = notice;
  lock.unlock();
  stream->Write(reply);

  Shapes shapes;
  while (stream->Read(&message)) {
    lock.lock();
    if (message.has_shape()) {
      const auto& keys = message.shape().keys();
      shapes[message.shape().id()].assign(keys.begin(), keys.end());
      received.shapes[message.shape().id()].assign(keys.begin(), keys.end());
    } else if (message.has_progress()) {
      received.passed_step = message.progress().passed_step();
    } else if (message.has_losses()) {
      received.losses = message.losses();
    } else if (message.has_batch() || message.has_items()) {
      if (message.has_batch()) Store(message.batch(), shapes, &received);
      if (message.has_items()) Store(message.items(), &received);
      if (break_after_ > 0 && --break_after_ == 0) {
        break_after_ = -1;
        return {grpc::StatusCode::UNAVAILABLE, "broken as told"};
      }
      acks_.wait(lock, [&] { return !hold_acks_ || stopping_ || !message.has_batch(); });
      if (stopping_) break;
      v1::ServerMessage ack;
      ack.mutable_ack()->set_durable_seq(received.rows.size());
      ack.mutable_ack()->set_durable_item(received.items.size());
      for (const v1::Notice& notice : notices_) *ack.add_notices() = notice;
      lock.unlock();
      stream->Write(ack);
      continue;
    }
    lock.unlock();
  }
  return grpc::Status::OK;
}

grpc::Status FakeIngest::Finish(grpc::ServerContext*, const v1::FinishRequest* request,
                                v1::FinishReply*) {
  std::lock_guard<std::mutex> lock(mutex_);
  ReceivedStream& stream = streams_[request->stream().incarnation()];
  if (request->last_seq() != stream.rows.size()) ReportError("finish before all rows are here");
  if (request->last_item() != stream.items.size()) ReportError("finish before all items are here");
  stream.finished = true;
  stream.exit_code = request->exit_code();
  stream.losses = request->losses();
  stream.last_seq = request->last_seq();
  stream.last_item = request->last_item();
  return grpc::Status::OK;
}

}  // namespace ranklog::testing
