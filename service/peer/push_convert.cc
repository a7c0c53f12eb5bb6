#include "service/peer/push_convert.h"

#include "ranklog/v1/spool_layout.h"

namespace ranklog::peer {

v1::StreamId ToMessage(const model::StreamKey& key) {
  v1::StreamId id;
  id.set_project(key.project);
  id.set_job_id(key.job_id);
  id.set_rank(key.rank);
  id.set_incarnation(key.incarnation);
  return id;
}

v1::Hello ToHello(const model::Run& run, const model::Stream& stream) {
  v1::Hello hello;
  hello.set_protocol(v1::kProtocolVersion);
  *hello.mutable_stream() = ToMessage(stream.key);
  hello.mutable_settings()->set_strategy(v1::LOG_STRATEGY_MAIN);
  hello.mutable_settings()->set_resume(run.settings.resume);
  hello.mutable_settings()->set_start_time_us(stream.init_us);
  v1::Identity& identity = *hello.mutable_identity();
  identity.set_local_rank(stream.identity.local_rank);
  identity.set_world_size(stream.identity.world_size);
  identity.set_local_world_size(stream.identity.local_world_size);
  identity.set_node_rank(stream.identity.node_rank);
  identity.set_node(stream.identity.node);
  identity.set_pid(stream.identity.pid);
  identity.set_thread(stream.identity.thread);
  identity.set_client_version(stream.identity.client_version);
  identity.set_began_us(static_cast<uint64_t>(stream.identity.began_us));
  identity.set_boot_id(stream.identity.boot_id);
  const model::Launch& from = stream.launch;
  v1::Launch& launch = *hello.mutable_launch();
  launch.set_id(from.id);
  launch.set_id_given(from.id_given);
  launch.set_restarts_ranks(from.restarts_ranks);
  launch.set_restart(from.restart);
  launch.set_whole_node(from.whole_node);
  launch.set_batch_job(from.batch_job);
  launch.set_requeue(from.requeue);
  launch.set_process(from.process);
  launch.set_unseen(from.unseen);
  return hello;
}

v1::Batch ToMessage(const model::Batch& batch) {
  v1::Batch message;
  message.set_first_seq(batch.first);
  message.set_last_seq(batch.last);
  for (const model::Block& from : batch.blocks) {
    v1::Block& block = *message.add_block();
    block.set_shape(from.shape);
    block.set_commits(from.commits);
    block.set_counted(from.counted);
    block.mutable_seq_offset()->Add(from.offsets.begin(), from.offsets.end());
    int64_t step = 0;
    int64_t time_us = 0;
    for (size_t row = 0; row < from.rows(); ++row) {
      block.add_step_delta(from.steps[row] - step);
      block.add_time_delta_us(from.times_us[row] - time_us);
      step = from.steps[row];
      time_us = from.times_us[row];
    }
    block.mutable_value()->Add(from.values.begin(), from.values.end());
  }
  return message;
}

v1::StreamEnd EndOf(const model::Stream& stream) {
  v1::StreamEnd end;
  end.set_crashed(stream.state == model::StreamState::kCrashed);
  end.set_exit_code(stream.exit_code);
  end.set_reason(stream.reason);
  end.set_last_seq(stream.durable_seq);
  return end;
}

v1::Losses ToMessage(const model::Losses& losses) {
  v1::Losses message;
  message.set_ring_full(losses.ring_full);
  message.set_invalid(losses.invalid);
  message.set_step_behind(losses.step_behind);
  message.set_too_large(losses.too_large);
  message.set_after_finish(losses.after_finish);
  message.set_values(losses.values);
  return message;
}

}  // namespace ranklog::peer
