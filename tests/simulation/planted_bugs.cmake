# Makes a copy of a source with bugs planted in it: cmake -DFROM=a.cc -DTO=b.cc -P planted_bugs.cmake
#
# The sources themselves do not contain the bugs. Planted() decides which bug is active. If a line is no longer found, the
# build of simulation_planted fails: enter the bug's new line. Above each bug is its wrong behaviour.
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

# A process attaches before the dead process's rows are taken.
plant(server/attach_hello.cc successor_does_not_wait
  "if (context_.registry->Find(key_) || "
  "if (@BUG@ || context_.registry->Find(key_) || ")
# Writes are answered after they are applied, before the commit, and not applied again if that fails.
plant(store_loop.cc ack_before_commit
  "return store_->Commit();"
  "for (size_t i = 0; @BUG@ && i < writes.size(); ++i) {
    if (writes[i].done) std::exchange(writes[i].done, nullptr)(statuses[i]);
    writes[i].apply = [](auto&) { return absl::OkStatus(); };  // what it refers to may be gone
  }
  return store_->Commit();")
# A failed commit is answered as a success.
plant(store_loop.cc commit_error_ignored
  "absl::Status committed = TryCommit(unfinished_, statuses);"
  "absl::Status committed = TryCommit(unfinished_, statuses);
  if (@BUG@ && statuses.size() == unfinished_.size()) committed = absl::OkStatus();")
# SQLite does not sync.
plant(storage/store.cc ack_before_sync
  "RETURN_IF_ERROR(database.Execute(kWriterPragmas));"
  "RETURN_IF_ERROR(database.Execute(kWriterPragmas));
  if (@BUG@) RETURN_IF_ERROR(database.Execute(\"PRAGMA synchronous = OFF\"));")
# The ring frees rows when they are sent.
plant(stream_protocol.cc ring_freed_at_send
  "if (oldest.seq > durable_seq_ ||"
  "if ((!@BUG@ && oldest.seq > durable_seq_) ||")
# The same for items.
plant(stream_protocol.cc items_freed_at_send
  "oldest.item > durable_item_) break;"
  "(!@BUG@ && oldest.item > durable_item_)) break;")
# Items that a client sends again are applied again.
plant(store_streams.cc resent_item_applied
  "    if (item.seq <= durable) continue;
    if (item.seq - item.count != last) {"
  "    if (item.seq <= durable && !@BUG@) continue;
    if (item.seq - item.count != last && !@BUG@) {")
# The number of a stream's last item is not stored with the item.
plant(store_streams.cc durable_item_not_stored
  "if (last == durable) return durable;"
  "if (last == durable || @BUG@) return last;")
# A merged item has the id of the earlier one, so a destination that has that one does not read it.
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
# An item of which a later one sets one key again loses its other keys.
plant(store_streams.cc replaced_item_loses_other_keys
  "replaced.push_back({earlier.Integer(0), old->object.empty() ? "
  "replaced.push_back({earlier.Integer(0), @BUG@ || old->object.empty() ? ")
# An item is merged into one of another ring.
plant(store_streams.cc item_merged_across_streams
  "if (last.Next() && last.Integer(1) == stream && "
  "if (last.Next() && (@BUG@ || last.Integer(1) == stream) && ")
# A merged item has only the keys of the later one.
plant(model/item.cc merge_drops_keys
  "  for (const auto& [key, value] : later.object.items()) {"
  "  if (@BUG@) object = Json::object();
  for (const auto& [key, value] : later.object.items()) {")
# The items in a dead rank's ring are not read.
plant(orphans/drain.cc dead_rings_items_skipped
  "if (part.items.empty()) return absl::OkStatus();"
  "if (part.items.empty() || @BUG@) return absl::OkStatus();")
# Rows that a client sends again are stored again.
plant(store_streams.cc duplicate_not_dropped
  "if (batch.first <= durable) {"
  "if (batch.first <= durable && !@BUG@) {")
# The last record of a dead rank's ring is not read.
plant(ring/spool_reader.cc drain_skips_last_record
  "while (position_ < head_ && "
  "while (position_ + (@BUG@ ? 160 : 0) < head_ && ")
# A rank that died counts as finished.
plant(orphans.cc crash_unseen
  "if (ring.finished() && !ring.destroyed()) {"
  "if ((ring.finished() && !ring.destroyed()) || @BUG@) {")
# A failed post counts as delivered.
plant(wandb_rows.cc cursor_saved_before_answer
  "if (outcome != Outcome::kAccepted) {"
  "if (outcome != Outcome::kAccepted && !@BUG@) {")
# The position at the tracker is not stored before the request.
plant(deliver_step.cc offset_not_persisted
  "if (result.changed || !result.dead_letters.empty()) {"
  "if ((result.changed && (!@BUG@ || result.delivery.complete)) || !result.dead_letters.empty()) {")
# A delivery measures its waits by the wall clock.
plant(deliver_step.cc wait_by_wall_clock
  "tasks_.Finish(job.key, *job.task, end, options_.steady_clock())"
  "tasks_.Finish(job.key, *job.task, end, @BUG@ ? options_.wall_clock() : options_.steady_clock())")
# A refused record is counted, but not kept.
plant(deliver_step.cc dead_letter_not_stored
  "RETURN_IF_ERROR(store.AddDeadLetter(letter));"
  "if (!@BUG@) RETURN_IF_ERROR(store.AddDeadLetter(letter));")
# Lines get another position after a restart.
plant(wandb_config.cc resend_renumbered
  "  if (!cursor_.created()) {
    cursor_.storage_id"
  "  if (!cursor_.created() || @BUG@) {
    cursor_.storage_id")
# The delivery asks for the position of a run before it is created, and never again.
plant(wandb_delivery.cc place_asked_once
  "if (!asked_) return AskStanding(now);"
  "if (@BUG@ && cursor_.created()) {
    asked_ = true;
    known_at_ = absl::InfiniteFuture();
  }
  if (!asked_) return AskStanding(now);")
# A restarted daemon assumes that the config was sent.
plant(sent_config.cc config_lost_on_restart
  "return config_ == sent_;"
  "return (@BUG@ && sent_.empty()) || config_ == sent_;")
# A metric definition after the last row has no effect.
plant(wandb_rows.cc late_definition_unseen
  "const uint64_t version = table_.version();
  RETURN_IF_ERROR(DefineMetrics(reader, config_reader_.items()));"
  "const uint64_t version = table_.version();
  if (!@BUG@ || pending) RETURN_IF_ERROR(DefineMetrics(reader, config_reader_.items()));")
# A restarted daemon makes the summary without the delivered rows.
plant(history.cc summary_of_new_rows_only
  "Summarize(batch, shapes);"
  "if (!@BUG@ || lines != nullptr) Summarize(batch, shapes);")
# A job resumed at another node sends rows at steps that the tracker already has.
plant(history.cc resumed_rows_sent_again
  "const bool replay = steps_.IsReplay(block, row);"
  "const bool replay = steps_.IsReplay(block, row) && !@BUG@;")
# A request is repeated before the `Retry-After` of a 429.
plant(tracker_delivery.cc retry_after_ignored
  "return answer.ok() ? answer->retry_after : absl::nullopt;"
  "return answer.ok() && !@BUG@ ? answer->retry_after : absl::nullopt;")
# A rank that crashed and was restarted still makes the run crashed.
plant(live_run.cc new_beginning_unseen
  "if (BeganAnew(stream, streams)) continue;"
  "if (!@BUG@ && BeganAnew(stream, streams)) continue;")
# The wall clock, which may have been set, decides which of two processes began first.
plant(store_attempts.cc attempts_by_wall_clock
  "absl::StrCat(\"SELECT attempt FROM stream WHERE run = ?1 AND rank = ?2 AND node = ?3 AND \",
                     kBeganLater,"
  "absl::StrCat(\"SELECT attempt FROM stream WHERE run = ?1 AND rank = ?2 AND node = ?3 AND \",
                     @BUG@ ? \"init_us > ?4 AND ?7 IS NOT NULL\" : kBeganLater,")
# A run that had ended does not continue with a new process.
plant(store_attach.cc resumed_run_stays_ended
  "RETURN_IF_ERROR(Reopen(owner.run));"
  "if (!@BUG@) RETURN_IF_ERROR(Reopen(owner.run));")
# The cursor of the ranks' rows is not stored in the transaction that uses the rows.
plant(live_run.cc aggregated_seq_not_stored
  "store.SetAggregated(stream.stream, {"
  "@BUG@ && !close ? absl::OkStatus() : store.SetAggregated(stream.stream, {")
# A request without an answer counts as refused, so its rows get bare lines.
plant(retry.cc silence_taken_for_refusal
  "return person ? Outcome::kBlocked"
  "if (@BUG@ && absl::IsDeadlineExceeded(answer.status())) return Outcome::kRefused;
    return person ? Outcome::kBlocked")
# Under `main`, the second node's part goes to the tracker too.
plant(strategy.cc nodes_share_a_run
  "assignment.local_only = first_rank != 0;"
  "assignment.local_only = first_rank != 0 && !@BUG@;")
# A start that must not continue a run does so.
plant(aggregate/start.cc second_start_mixed
  "if (!exists) return {.job_id = id};"
  "if (!exists || @BUG@) return {.job_id = id};")
# A ring that is found late belongs to the newest live start.
plant(aggregate/start.cc late_ring_to_newer_start
  "return has.has_launch; }"
  "return @BUG@ ? has.live : has.has_launch; }")
# Two rings of a rank count as two ranks.
plant(join_plan.cc rank_counted_twice
  "if (joins()) ranks[rows[r].rank].Add(key, source);"
  "if (joins()) ranks[@BUG@ ? rows[r].stream : rows[r].rank].Add(key, source);")
# The other ranks' rows of the next step are dropped and counted as late.
plant(run_streams.cc ranks_part_dropped
  "(every || stream->rows.front().step < step)"
  "(every || stream->rows.front().step < step + (@BUG@ ? 1 : 0))")
# A step closes once the primary has passed it.
plant(run_aggregator.cc step_not_waited_for
  "if (now < until) {"
  "if (now < until && !@BUG@) {")
# Late rows are not counted.
plant(run_aggregator.cc late_rows_not_counted
  "++stream.late_rows;"
  "stream.late_rows += @BUG@ ? 0 : 1;")
# A delivery is stored as complete, though the run has been reopened since.
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
# A process that starts after all others of the run have ended counts as part of their attempt.
plant(store_attempts.cc attempt_unseen
  "(next ? 1 : 0)"
  "(next && !@BUG@ ? 1 : 0)")
# The rewind of a run is not stored, so local readers also show the older rows.
plant(live_run.cc rewind_not_stored
  "RETURN_IF_ERROR(store.AddRewind(run, rewind));"
  "if (!@BUG@) RETURN_IF_ERROR(store.AddRewind(run, rewind));")
# Of the rules for statistics that match a metric, the last one counts.
plant(rank_statistics.cc last_rule_counts
  "rules_.push_back({glob, StatisticBits(listed)});"
  "rules_.insert(@BUG@ ? rules_.begin() : rules_.end(), Rule{glob, StatisticBits(listed)});")
# Rows at steps that the tracker already has become rows of the run.
plant(run_aggregator.cc replays_sent
  "const bool is_replay = step <= made.furthest_step;"
  "const bool is_replay = step <= made.furthest_step && !@BUG@;")
# Replayed rows of the rank are not counted.
plant(run_aggregator.cc replays_not_counted
  "if (is_replay) ++whose->replayed_rows;"
  "if (is_replay && !@BUG@) ++whose->replayed_rows;")
# The steps of rows without a step do not continue from the run's last step.
plant(run_aggregator.cc steps_begin_anew
  "step_base = made.last_step + 1;"
  "step_base = @BUG@ ? 0 : made.last_step + 1;")
# The next attempt begins before the rows of the previous one are made.
plant(run_aggregator.cc next_attempt_too_soon
  "while (true) {
    const int64_t next = impl.streams.NextPrimaryStep("
  "if (@BUG@) begins = impl.BeginNextAttempt();
  while (!begins) {
    const int64_t next = impl.streams.NextPrimaryStep(")
# Rows of other ranks beyond the end of an attempt are dropped if the next attempt has begun.
plant(run_aggregator.cc rest_of_attempt_dropped
  "begins = !open && impl.BeginNextAttempt();"
  "if (@BUG@ && !open) impl.streams.ConsumeOthersBelow(next, passed == kEveryStep, impl.last_step);
    begins = !open && impl.BeginNextAttempt();")
# Rows of other ranks are taken before the first row of an attempt's primary.
plant(run_aggregator.cc ranks_do_not_wait
  "(rows->primary || !impl_->AwaitsFirstRow())"
  "(rows->primary || @BUG@ || !impl_->AwaitsFirstRow())")
# Rows that share the row of their step are miscounted.
plant(run_aggregator.cc merged_not_counted
  "--whose->merged_rows;"
  "if (!@BUG@) --whose->merged_rows;")
# A run that has ended is removed before a tracker has all of it.
plant(retention.cc undelivered_run_removed
  "\" AND \", kIsDelivered,"
  "\" AND \", @BUG@ ? \"1\" : kIsDelivered,")
# The file of a large item is removed before the item is in the store.
plant(server/attach_session.cc content_removed_before_commit
  "std::vector<std::string> files = ReadContent(context_.content, &received);"
  "std::vector<std::string> files = ReadContent(context_.content, &received);
  if (@BUG@) context_.content->Remove(files);")
# The files of large items are not read for a dead rank's ring.
plant(orphans/drain.cc dead_rings_content_skipped
  "ring.Next(kPartBytes, content)"
  "ring.Next(kPartBytes, @BUG@ ? nullptr : content)")
# A forked child frees rows that the daemon has not stored.
plant(stream/live_ring.cc live_ring_freed_at_read
  "header->tail.store(end, std::memory_order_release);"
  "header->tail.store(@BUG@ ? reader_.position() : end, std::memory_order_release);")
# The daemon marks rows of a forked child as stored before the commit.
plant(orphans/live_rings.cc live_mark_before_commit
  "  context_.store->Submit("
  "  if (@BUG@) ring->marks.Write(reader.position(), reader.last_seq(), reader.last_item());
  context_.store->Submit(")
# After a commit that failed, the daemon does not read a forked child's rows again.
plant(orphans/live_rings.cc live_ring_not_read_again
  "ring->must_rewind = true;"
  "ring->must_rewind = !@BUG@;")
# The daemon does not notice that a forked child has ended.
plant(orphans/live_rings.cc live_ring_never_ends
  "  if (!lives) {
    context_"
  "  if (!lives && !@BUG@) {
    context_")

# Uploads: found by seeds from 1000000000 on.
# An upload that fails once is given up.
plant(wandb/wandb_content.cc upload_dropped_on_failure
  "  const std::string what = absl::StrCat(upload_->Name(), \": \", why);"
  "  if (@BUG@ && !refused) {
    ContentDone();
    return absl::ZeroDuration();
  }
  const std::string what = absl::StrCat(upload_->Name(), \": \", why);")
# A finished upload counts for all that wait, so a restarted daemon does not send those.
plant(wandb/wandb_content.cc upload_cursor_too_far
  "cursor_.content = content_items_.front().id;"
  "cursor_.content = @BUG@ ? content_items_.back().id : content_items_.front().id;")
# A saved file is left out if any other was saved after it.
plant(wandb/wandb_content.cc newer_file_replaces_all
  "TextOf(later.item.object, \"path\") == path;"
  "(@BUG@ || TextOf(later.item.object, \"path\") == path);")
# The server is not told that a file of the run is complete.
plant(wandb/wandb_content.cc file_not_announced
  "    cursor_.unannounced_files.push_back("
  "    if (!@BUG@) cursor_.unannounced_files.push_back(")
# An upload whose staged file is damaged leaves no dead letter.
plant(wandb/wandb_content.cc set_apart_unsaid
  "    AddDeadLetter(0, what,"
  "    if (!@BUG@) AddDeadLetter(0, what,")
# The post of the last rows ends the run, though uploads wait.
plant(wandb/wandb_rows.cc ended_before_uploads
  "content_items_.empty()) ||"
  "(@BUG@ || content_items_.empty())) ||")
# Each part of a file has the first bytes.
plant(artifacts/file_upload.cc part_from_the_start
  "request.file->offset = part * file.part_bytes;"
  "request.file->offset = @BUG@ ? 0 : part * file.part_bytes;")
# The manifest names this artifact for a file that an earlier one has.
plant(artifacts/artifact_upload.cc equal_file_is_not_the_others
  "entry.birth = TextAt(node, {\"artifact\", \"id\"});"
  "entry.birth = @BUG@ ? ids_.artifact : TextAt(node, {\"artifact\", \"id\"});")
# The parts of a file are sent, and not joined.
plant(artifacts/artifact_upload.cc parts_not_joined
  "state_ = uploads_.back().HasAllParts() ?"
  "if (@BUG@ && uploads_.back().HasAllParts()) return FileSent();
    state_ = uploads_.back().HasAllParts() ?")
# A part that the store has lost is not sent again.
plant(artifacts/artifact_upload.cc lost_part_not_sent_again
  "before_ = nullptr;  // the server may have lost something"
  "if (!@BUG@) before_ = nullptr;")
# The manifest is sent, and the artifact not committed.
plant(artifacts/artifact_upload.cc artifact_not_committed
  "state_ = State::kCommit;"
  "state_ = @BUG@ ? State::kDone : State::kCommit;")
# Each attempt creates another artifact.
plant(artifacts/artifact_queries.cc artifact_has_a_new_id
  "const std::string id = TextOf(artifact, \"id\");"
  "static int made = 0;
    const std::string id = absl::StrCat(TextOf(artifact, \"id\"), @BUG@ ? ++made : 0);")
# Staged files go before the tracker has them.
plant(storage/store_reader.cc staged_file_removed_early
  "const bool needed = query.Integer(3) == 0;"
  "const bool needed = query.Integer(3) == 0 && !@BUG@;")
# After an error, rows count as sent, so the next ones leave a gap.
plant(part_sender.cc lost_request_leaves_a_gap
  "    Sent& sent = sent_[stream];
    sent.attached = false;"
  "    Sent& sent = sent_[stream];
    if (const Stream* const of = Find(stream); @BUG@ && sent.attached) {
      sent.seq = of->durable_seq;
      continue;
    }
    sent.attached = false;")
# An answer counts for all rows of the stream, not for those that it names.
plant(part_sender.cc answer_taken_for_all_rows
  "        sent.seq =
            sent.asked_hello ?"
  "        sent.seq = @BUG@ ? stream->durable_seq :
            sent.asked_hello ?")
# The end of a stream is sent with its first rows.
plant(part_sender.cc end_before_all_rows
  "sent.sent_end = complete && stream"
  "sent.sent_end = (complete || @BUG@) && stream")
# A stream counts as whole before the home has its end.
plant(part_sender.cc whole_before_the_end
  "sent.whole = sent.sent_end;"
  "sent.whole = sent.sent_end || (@BUG@ && ended);")
# A stream counts as whole though the home has ended it without its last rows.
plant(part_sender.cc late_counts_as_whole
  "sent.whole = ended && sent.seq >= stream->durable_seq;"
  "sent.whole = ended && (@BUG@ || sent.seq >= stream->durable_seq);")
# The home answers after it has applied rows, before the commit.
plant(push_receiver.cc push_answered_before_commit
  "                 result](storage::Store& store) -> absl::Status {
         ASSIGN_OR_RETURN(result->before, store.GetPeerStream(known.stream));
         if (!result->before.live) return absl::OkStatus();
         ASSIGN_OR_RETURN(result->durable,
                          StoreAdditions(known.stream, additions,
                                         absl::ToUnixMicros(options_.wall_clock()), store));
         return absl::OkStatus();
       },
       .done =
           [this, job, index, key, known, rows, ends, result](absl::Status status) {"
  "                 result, job, index](storage::Store& store) -> absl::Status {
         ASSIGN_OR_RETURN(result->before, store.GetPeerStream(known.stream));
         if (!result->before.live) return absl::OkStatus();
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
# A request of any daemon counts as heard for all streams.
plant(push_receiver.cc heard_of_any_sender
  "  const auto sender = sender_of_.find(stream.id);"
  "  if (@BUG@) {
    absl::Time newest = started_;
    for (const auto& [id, any] : senders_) newest = std::max(newest, any.heard);
    return newest;
  }
  const auto sender = sender_of_.find(stream.id);")
# Nodes that never attached are waited for after those that are lost.
plant(live_run.cc absent_nodes_waited_for_anew
  "return (JoinsNodes() ? std::min"
  "return (JoinsNodes() && !@BUG@ ? std::min")
# The count of ranks is compared with the size of the node.
plant(run_streams.cc rank_count_of_the_node
  "world_size_ = std::max(world_size_, stream.identity.world_size);"
  "world_size_ = std::max(world_size_, @BUG@ ? stream.identity.local_world_size
                                              : stream.identity.world_size);")
# A home that was started again does not know which daemon sends a silent stream.
plant(part_sender.cc silent_streams_not_named
  "if (!anything && now < sent.named + options_.heartbeat) return absl::OkStatus();"
  "if (!anything && (@BUG@ || now < sent.named + options_.heartbeat)) return absl::OkStatus();")
# A part that cannot be read once is not sent until the daemon starts again.
plant(push_loop.cc unread_run_forgotten
  "if (!stored.ok() && !absl::IsNotFound"
  "if (!@BUG@ && !stored.ok() && !absl::IsNotFound")

file(WRITE "${TO}" "namespace ranklog::simulation {\nbool Planted(const char* bug);\n}\n${source}")
