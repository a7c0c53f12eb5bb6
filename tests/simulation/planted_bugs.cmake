# Makes a copy of a source with bugs planted in it: cmake -DFROM=a.cc -DTO=b.cc -P planted_bugs.cmake
#
# The sources themselves do not contain the bugs. Planted() decides which bug is active. If a line is no longer found, the
# build of simulation_planted fails: enter the bug's new line.
cmake_minimum_required(VERSION 3.25)

# plant(FILE NAME OLD NEW): in a source whose path ends in FILE, replaces OLD by NEW. @BUG@ in NEW becomes a call that
# returns whether the bug is active.
function(plant file name old new)
  if(FROM MATCHES "${file}$")
    string(FIND "${source}" "${old}" place)
    if(place EQUAL -1)
      message(FATAL_ERROR "planted bug ${name}: '${old}' is not in ${FROM}; see tests/simulation/planted_bugs.cmake")
    endif()
    string(REPLACE "@BUG@" "::ranklog::simulation::Planted(\"${name}\")" bug "${new}")
    string(REPLACE "${old}" "${bug}" planted "${source}")
    set(source "${planted}" PARENT_SCOPE)
  endif()
endfunction()

file(READ "${FROM}" source)

plant(server/attach_session.cc successor_does_not_wait
  "if (context_.registry->Find(key_) || "
  "if (@BUG@ || context_.registry->Find(key_) || ")
plant(store_loop.cc ack_before_commit
  "return store_->Commit();"
  "for (size_t i = 0; @BUG@ && i < writes.size(); ++i) {
    if (writes[i].done) std::exchange(writes[i].done, nullptr)(statuses[i]);
    writes[i].apply = [](auto&) { return absl::OkStatus(); };  // what it refers to may be gone
  }
  return store_->Commit();")
plant(store_loop.cc commit_error_ignored
  "absl::Status committed = TryCommit(unfinished_, statuses);"
  "absl::Status committed = TryCommit(unfinished_, statuses);
  if (@BUG@ && statuses.size() == unfinished_.size()) committed = absl::OkStatus();")
plant(storage/store.cc ack_before_sync
  "RETURN_IF_ERROR(database.Execute(kWriterPragmas));"
  "RETURN_IF_ERROR(database.Execute(kWriterPragmas));
  if (@BUG@) RETURN_IF_ERROR(database.Execute(\"PRAGMA synchronous = OFF\"));")
plant(stream_protocol.cc ring_freed_at_send
  "if (oldest.seq > durable_seq_ ||"
  "if ((!@BUG@ && oldest.seq > durable_seq_) ||")
plant(stream_protocol.cc items_freed_at_send
  "oldest.item > durable_item_) break;"
  "(!@BUG@ && oldest.item > durable_item_)) break;")
plant(store_streams.cc resent_item_applied
  "    if (item.seq <= durable) continue;
    if (item.seq - item.count != last) {"
  "    if (item.seq <= durable && !@BUG@) continue;
    if (item.seq - item.count != last && !@BUG@) {")
plant(store_streams.cc durable_item_not_stored
  "if (last == durable) return durable;"
  "if (last == durable || @BUG@) return last;")
plant(store_streams.cc merged_item_keeps_its_id
  "  return absl::OkStatus();
}

absl::StatusOr<std::vector<Store::ReplacedItem>> Store::TakeReplacedKeys"
  "  if (@BUG@ && merged != 0) {
    return Write(\"UPDATE item SET id = ?1 WHERE id = (SELECT max(id) FROM item)\", {merged});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Store::ReplacedItem>> Store::TakeReplacedKeys")
plant(store_streams.cc replaced_item_loses_other_keys
  "replaced.push_back({earlier.Integer(0), old->object.empty() ? "
  "replaced.push_back({earlier.Integer(0), @BUG@ || old->object.empty() ? ")
plant(store_streams.cc item_merged_across_streams
  "if (last.Next() && last.Integer(1) == stream && "
  "if (last.Next() && (@BUG@ || last.Integer(1) == stream) && ")
plant(model/item.cc merge_drops_keys
  "  for (const auto& [key, value] : later.object.items()) {"
  "  if (@BUG@) object = Json::object();
  for (const auto& [key, value] : later.object.items()) {")
plant(orphans/drain.cc dead_rings_items_skipped
  "if (part.items.empty()) return absl::OkStatus();"
  "if (part.items.empty() || @BUG@) return absl::OkStatus();")
plant(store_streams.cc duplicate_not_dropped
  "if (batch.first <= durable) {"
  "if (batch.first <= durable && !@BUG@) {")
plant(ingest/spool_reader.cc drain_skips_last_record
  "while (position_ < head_ && "
  "while (position_ + (@BUG@ ? 160 : 0) < head_ && ")
plant(orphans.cc crash_unseen
  "if (ring.finished() && !ring.destroyed()) {"
  "if ((ring.finished() && !ring.destroyed()) || @BUG@) {")
plant(wandb_rows.cc cursor_saved_before_answer
  "if (outcome != Outcome::kAccepted) {"
  "if (outcome != Outcome::kAccepted && !@BUG@) {")
plant(deliver_loop.cc offset_not_persisted
  "if (result.changed || !result.dead_letters.empty()) {"
  "if ((result.changed && (!@BUG@ || result.delivery.complete)) || !result.dead_letters.empty()) {")
plant(deliver_loop.cc wait_by_wall_clock
  "tasks_.Finish(job.key, *job.task, end, options_.steady_clock())"
  "tasks_.Finish(job.key, *job.task, end, @BUG@ ? options_.wall_clock() : options_.steady_clock())")
plant(deliver_loop.cc dead_letter_not_stored
  "RETURN_IF_ERROR(store.AddDeadLetter(letter));"
  "if (!@BUG@) RETURN_IF_ERROR(store.AddDeadLetter(letter));")
plant(wandb_config.cc resend_renumbered
  "  if (!cursor_.created()) {
    cursor_.storage_id"
  "  if (!cursor_.created() || @BUG@) {
    cursor_.storage_id")
plant(wandb_delivery.cc place_asked_once
  "if (!asked_) return AskStanding(now);"
  "if (@BUG@ && cursor_.created()) {
    asked_ = true;
    known_at_ = absl::InfiniteFuture();
  }
  if (!asked_) return AskStanding(now);")
plant(sent_config.cc config_lost_on_restart
  "return config_ == sent_;"
  "return (@BUG@ && sent_.empty()) || config_ == sent_;")
plant(wandb_rows.cc late_definition_unseen
  "const uint64_t version = table_.version();
  RETURN_IF_ERROR(DefineMetrics(reader, config_reader_.items()));"
  "const uint64_t version = table_.version();
  if (!@BUG@ || pending) RETURN_IF_ERROR(DefineMetrics(reader, config_reader_.items()));")
plant(history.cc summary_of_new_rows_only
  "Summarize(batch, shapes);"
  "if (!@BUG@ || lines != nullptr) Summarize(batch, shapes);")
plant(history.cc resumed_rows_sent_again
  "const bool replay = steps_.IsReplay(block, row);"
  "const bool replay = steps_.IsReplay(block, row) && !@BUG@;")
plant(tracker_delivery.cc retry_after_ignored
  "return answer.ok() ? answer->retry_after : absl::nullopt;"
  "return answer.ok() && !@BUG@ ? answer->retry_after : absl::nullopt;")
plant(live_run.cc new_beginning_unseen
  "if (BeganAnew(stream, streams)) continue;"
  "if (!@BUG@ && BeganAnew(stream, streams)) continue;")
plant(store_attach.cc attempts_by_wall_clock
  "absl::StrCat(\"SELECT attempt FROM stream WHERE run = ?1 AND rank = ?2 AND node = ?3 AND \",
                     kBeganLater,"
  "absl::StrCat(\"SELECT attempt FROM stream WHERE run = ?1 AND rank = ?2 AND node = ?3 AND \",
                     @BUG@ ? \"init_us > ?4 AND ?7 IS NOT NULL\" : kBeganLater,")
plant(store_attach.cc resumed_run_stays_ended
  "RETURN_IF_ERROR(Reopen(owner.run));"
  "if (!@BUG@) RETURN_IF_ERROR(Reopen(owner.run));")
plant(live_run.cc aggregated_seq_not_stored
  "store.SetAggregated(stream.stream, {"
  "@BUG@ && !close ? absl::OkStatus() : store.SetAggregated(stream.stream, {")
plant(retry.cc silence_taken_for_refusal
  "return person ? Outcome::kBlocked"
  "if (@BUG@ && absl::IsDeadlineExceeded(answer.status())) return Outcome::kRefused;
    return person ? Outcome::kBlocked")
plant(strategy.cc nodes_share_a_run
  "assignment.local_only = first_rank != 0;"
  "assignment.local_only = first_rank != 0 && !@BUG@;")
plant(aggregate/start.cc second_start_mixed
  "if (!exists) return {.job_id = id};"
  "if (!exists || @BUG@) return {.job_id = id};")
plant(aggregate/start.cc late_ring_to_newer_start
  "return has.has_launch; }"
  "return @BUG@ ? has.live : has.has_launch; }")
plant(join_plan.cc rank_counted_twice
  "if (joins()) ranks[rows[r].rank].Add(key, source);"
  "if (joins()) ranks[@BUG@ ? rows[r].stream : rows[r].rank].Add(key, source);")
plant(run_streams.cc ranks_part_dropped
  "(every || stream->rows.front().step < step)"
  "(every || stream->rows.front().step < step + (@BUG@ ? 1 : 0))")
plant(run_aggregator.cc step_not_waited_for
  "if (now < until) {"
  "if (now < until && !@BUG@) {")
plant(run_aggregator.cc late_rows_not_counted
  "++stream.late_rows;"
  "stream.late_rows += @BUG@ ? 0 : 1;")
plant(storage/store.cc complete_over_reopening
  "absl::Status Store::PutDelivery(const model::Delivery& delivery) {"
  "absl::Status Store::PutDelivery(const model::Delivery& delivery) {
  if (@BUG@) {
    return WriteOne(
        \"INSERT OR REPLACE INTO delivery(run, kind, delivered_rows, refused_rows, complete, \"
        \"last_error, place, delivered_items) \"
        \"SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8 FROM run WHERE id = ?1\",
        delivery.run,
        {delivery.run, delivery.kind, delivery.delivered_rows, delivery.refused_rows,
         delivery.complete, delivery.last_error, Parameter::Blob(EncodeDocument(delivery.cursor)),
         delivery.delivered_items});
  }")
plant(store_attach.cc attempt_unseen
  "(next ? 1 : 0)"
  "(next && !@BUG@ ? 1 : 0)")
plant(live_run.cc rewind_not_stored
  "RETURN_IF_ERROR(store.AddRewind(run, rewind));"
  "if (!@BUG@) RETURN_IF_ERROR(store.AddRewind(run, rewind));")
plant(rank_statistics.cc last_rule_counts
  "rules_.push_back({glob, StatisticBits(listed)});"
  "rules_.insert(@BUG@ ? rules_.begin() : rules_.end(), Rule{glob, StatisticBits(listed)});")
plant(run_aggregator.cc replays_sent
  "const bool is_replay = step <= made.furthest_step;"
  "const bool is_replay = step <= made.furthest_step && !@BUG@;")
plant(run_aggregator.cc replays_not_counted
  "if (is_replay) ++whose->replayed_rows;"
  "if (is_replay && !@BUG@) ++whose->replayed_rows;")
plant(run_aggregator.cc steps_begin_anew
  "step_base = made.last_step + 1;"
  "step_base = @BUG@ ? 0 : made.last_step + 1;")
plant(run_aggregator.cc next_attempt_too_soon
  "while (true) {
    const int64_t next = impl.streams.NextPrimaryStep("
  "if (@BUG@) begins = impl.BeginNextAttempt();
  while (!begins) {
    const int64_t next = impl.streams.NextPrimaryStep(")
plant(run_aggregator.cc rest_of_attempt_dropped
  "begins = !open && impl.BeginNextAttempt();"
  "if (@BUG@ && !open) impl.streams.ConsumeOthersBelow(next, passed == kEveryStep, impl.last_step);
    begins = !open && impl.BeginNextAttempt();")
plant(run_aggregator.cc ranks_do_not_wait
  "(rows->primary || !impl_->AwaitsFirstRow())"
  "(rows->primary || @BUG@ || !impl_->AwaitsFirstRow())")
plant(run_aggregator.cc merged_not_counted
  "--whose->merged_rows;"
  "if (!@BUG@) --whose->merged_rows;")
plant(retention.cc undelivered_run_removed
  "\" AND \", kIsDelivered,"
  "\" AND \", @BUG@ ? \"1\" : kIsDelivered,")
plant(server/attach_session.cc content_removed_before_commit
  "std::vector<std::string> files = ReadContent(context_.content, &received);"
  "std::vector<std::string> files = ReadContent(context_.content, &received);
  if (@BUG@) context_.content->Remove(files);")
plant(orphans/drain.cc dead_rings_content_skipped
  "ring.Next(kPartBytes, content)"
  "ring.Next(kPartBytes, @BUG@ ? nullptr : content)")
plant(stream/live_ring.cc live_ring_freed_at_read
  "header->tail.store(end, std::memory_order_release);"
  "header->tail.store(@BUG@ ? reader_.position() : end, std::memory_order_release);")
plant(orphans/live_rings.cc live_mark_before_commit
  "  context_.store->Submit("
  "  if (@BUG@) ring->marks.Write(reader.position(), reader.last_seq(), reader.last_item());
  context_.store->Submit(")
plant(orphans/live_rings.cc live_ring_not_read_again
  "ring->must_rewind = true;"
  "ring->must_rewind = !@BUG@;")
plant(orphans/live_rings.cc live_ring_never_ends
  "  if (!lives) {
    context_"
  "  if (!lives && !@BUG@) {
    context_")

# Uploads: found by seeds from 1000000000 on.
plant(wandb/wandb_content.cc upload_dropped_on_failure
  "  const std::string what = absl::StrCat(upload_->Name(), \": \", why);"
  "  if (@BUG@ && !refused) {
    ContentDone();
    return absl::ZeroDuration();
  }
  const std::string what = absl::StrCat(upload_->Name(), \": \", why);")
plant(wandb/wandb_content.cc upload_cursor_too_far
  "cursor_.content = content_items_.front().id;"
  "cursor_.content = @BUG@ ? content_items_.back().id : content_items_.front().id;")
plant(wandb/wandb_content.cc newer_file_replaces_all
  "TextOf(later.item.object, \"path\") == path;"
  "(@BUG@ || TextOf(later.item.object, \"path\") == path);")
plant(wandb/wandb_content.cc file_not_announced
  "    cursor_.unannounced_files.push_back("
  "    if (!@BUG@) cursor_.unannounced_files.push_back(")
plant(wandb/wandb_content.cc set_apart_unsaid
  "    AddDeadLetter(0, what,"
  "    if (!@BUG@) AddDeadLetter(0, what,")
plant(wandb/wandb_rows.cc ended_before_uploads
  "content_items_.empty()) ||"
  "(@BUG@ || content_items_.empty())) ||")
plant(wandb/artifact_upload.cc part_from_the_start
  "request.file->offset = part * PartBytes(entry);"
  "request.file->offset = @BUG@ ? 0 : part * PartBytes(entry);")
plant(wandb/artifact_upload.cc equal_file_is_not_the_others
  "entry.birth = TextAt(node, {\"artifact\", \"id\"});"
  "entry.birth = @BUG@ ? artifact_id_ : TextAt(node, {\"artifact\", \"id\"});")
plant(wandb/artifact_upload.cc parts_not_joined
  "state_ = all_parts ? State::kComplete : State::kPutFile;"
  "if (@BUG@ && all_parts) return FileSent();
    state_ = all_parts ? State::kComplete : State::kPutFile;")
plant(wandb/artifact_upload.cc lost_part_not_sent_again
  "before_ = nullptr;  // the server may have lost something"
  "if (!@BUG@) before_ = nullptr;")
plant(wandb/artifact_upload.cc artifact_not_committed
  "state_ = State::kCommit;"
  "state_ = @BUG@ ? State::kDone : State::kCommit;")
plant(wandb/artifact_upload.cc artifact_has_a_new_id
  "const std::string id = TextOf(artifact_, \"id\");"
  "static int made = 0;
    const std::string id = absl::StrCat(TextOf(artifact_, \"id\"), @BUG@ ? ++made : 0);")
plant(storage/store_reader.cc staged_file_removed_early
  "const bool needed = query.Integer(3) == 0;"
  "const bool needed = query.Integer(3) == 0 && !@BUG@;")
plant(part_sender.cc lost_request_leaves_a_gap
  "    Sent& sent = sent_[stream];
    sent.attached = false;"
  "    Sent& sent = sent_[stream];
    if (const Stream* const of = Find(stream); @BUG@ && sent.attached) {
      sent.seq = of->durable_seq;
      continue;
    }
    sent.attached = false;")
plant(part_sender.cc answer_taken_for_all_rows
  "        sent.seq =
            sent.asked_hello ?"
  "        sent.seq = @BUG@ ? stream->durable_seq :
            sent.asked_hello ?")
plant(part_sender.cc end_before_all_rows
  "sent.sent_end = complete && stream"
  "sent.sent_end = (complete || @BUG@) && stream")
plant(part_sender.cc whole_before_the_end
  "if (sent.sent_end) joined = Joined::kWhole;"
  "if (sent.sent_end || (@BUG@ && ended)) joined = Joined::kWhole;")
plant(part_sender.cc late_counts_as_whole
  "joined = ended && sent.seq >= stream->durable_seq ?"
  "joined = ended && (@BUG@ || sent.seq >= stream->durable_seq) ?")
plant(push_receiver.cc push_answered_before_commit
  "                 result](storage::Store& store) -> absl::Status {
         ASSIGN_OR_RETURN(result->live, store.IsLive(known.stream));
         if (!result->live) return absl::OkStatus();
         ASSIGN_OR_RETURN(result->durable,
                          StoreAdditions(known.stream, additions,
                                         absl::ToUnixMicros(options_.wall_clock()), store));
         return absl::OkStatus();
       },
       .done =
           [this, job, index, key, known, rows, ends, result](absl::Status status) {"
  "                 result, job, index](storage::Store& store) -> absl::Status {
         ASSIGN_OR_RETURN(result->live, store.IsLive(known.stream));
         if (!result->live) return absl::OkStatus();
         const bool answered = result->durable == UINT64_MAX;
         ASSIGN_OR_RETURN(result->durable,
                          StoreAdditions(known.stream, additions,
                                         absl::ToUnixMicros(options_.wall_clock()), store));
         if (@BUG@) {
           Answer early = AnswerOf(Answer::TAKEN);
           early.set_durable_seq(std::exchange(result->durable, UINT64_MAX));
           if (!answered) job->Answered(index, std::move(early));
         }
         return absl::OkStatus();
       },
       .done =
           [this, job, index, key, known, rows, ends, result](absl::Status status) {
             if (result->durable == UINT64_MAX) return options_.run_changed(known.run);")
plant(push_receiver.cc heard_of_any_sender
  "  const auto sender = sender_of_.find(stream.id);"
  "  if (@BUG@) {
    absl::Time newest = started_;
    for (const auto& [id, any] : senders_) newest = std::max(newest, any.heard);
    return newest;
  }
  const auto sender = sender_of_.find(stream.id);")
plant(live_run.cc absent_nodes_waited_for_anew
  "return (JoinsNodes() ? std::min"
  "return (JoinsNodes() && !@BUG@ ? std::min")
plant(run_streams.cc rank_count_of_the_node
  "world_size_ = std::max(world_size_, stream.identity.world_size);"
  "world_size_ = std::max(world_size_, @BUG@ ? stream.identity.local_world_size
                                              : stream.identity.world_size);")
plant(part_sender.cc silent_streams_not_named
  "if (!anything && now < sent.named + options_.heartbeat) return absl::OkStatus();"
  "if (!anything && (@BUG@ || now < sent.named + options_.heartbeat)) return absl::OkStatus();")
plant(push_loop.cc unread_run_forgotten
  "if (!stored.ok() && !absl::IsNotFound"
  "if (!@BUG@ && !stored.ok() && !absl::IsNotFound")

file(WRITE "${TO}" "namespace ranklog::simulation {\nbool Planted(const char* bug);\n}\n${source}")
