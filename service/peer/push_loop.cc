#include "service/peer/push_loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"

namespace ranklog::peer {

PushLoop::PushLoop(pipeline::StoreLoop* store, std::unique_ptr<storage::StoreReader> reader,
                   Send send, Options options)
    : store_(store),
      reader_(std::move(reader)),
      send_(std::move(send)),
      options_(std::move(options)),
      inbox_(std::make_shared<Inbox>()) {}

PushLoop::~PushLoop() { Stop(); }

void PushLoop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void PushLoop::Notify(int64_t run) {
  absl::MutexLock lock(&inbox_->mutex);
  inbox_->runs.insert(run);
  ++inbox_->notified;
  inbox_->changed.Wake();
}

void PushLoop::Stop() {
  {
    absl::MutexLock lock(&inbox_->mutex);
    inbox_->stopping = true;
    inbox_->changed.Wake();
  }
  if (thread_.joinable()) thread_.join();
}

void PushLoop::Run() {
  const Pulse::Loop loop(&pulse_);
  Inbox* const inbox = inbox_.get();
  const auto has_something = [inbox]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(inbox->mutex) {
    return inbox->stopping || !inbox->runs.empty() || !inbox->answers.empty() ||
           !inbox->unsaved.empty();
  };
  while (true) {
    const absl::Duration wait = Step();
    absl::MutexLock lock(&inbox_->mutex);
    const Pulse::Rest rest;
    inbox_->changed.Await(&inbox_->mutex, wait, has_something);
    if (inbox_->stopping) return;
  }
}

absl::Duration PushLoop::Step() {
  Pulse::Beat();
  if (!taken_up_) TakeUp();
  const absl::Time now = options_.steady_clock();
  const uint64_t looked_at = TakeMessages(now);
  bool all_sent = taken_up_;
  absl::Time next = taken_up_ ? save_at_ : now + options_.first_backoff;
  std::vector<Link> links;
  for (auto it = runs_.begin(); it != runs_.end();) {
    Entry& entry = it->second;
    if (!entry.waits && now >= entry.next &&
        (entry.due || (entry.part != nullptr && now >= entry.part->NextDeadline()))) {
      StepRun(it->first, entry, now);
    }
    if (entry.stale && entry.part != nullptr) Read(entry);
    if (entry.waits && entry.link.error.empty() && now >= entry.asked + options_.slow_answer) {
      SetError("no answer so far", &entry, now);
    }
    const bool over = entry.not_a_part || (entry.part != nullptr && entry.part->done());
    if (over && !entry.waits && !entry.due) {
      it = runs_.erase(it);
      continue;
    }
    if (!entry.waits) {
      const absl::Time wanted =
          entry.due || entry.part == nullptr ? now : entry.part->NextDeadline();
      next = std::min(next, std::max(entry.next, wanted));
    } else if (entry.link.error.empty()) {
      next = std::min(next, entry.asked + options_.slow_answer);
    }
    if (entry.part != nullptr) links.push_back(entry.link);
    const Link& link = entry.link;
    const bool waits = link.waits || (link.asks && link.error.empty());
    all_sent &= entry.part != nullptr && (!waits || link.own || !HomeOf(entry.part->run()));
    ++it;
  }
  absl::MutexLock lock(&mutex_);
  links_ = std::move(links);
  all_sent_ = all_sent;
  looked_at_ = looked_at;
  return std::max(next - now, absl::ZeroDuration());
}

void PushLoop::TakeUp() {
  const int64_t since = absl::ToUnixMicros(options_.wall_clock() - options_.forget_after);
  const absl::StatusOr<std::vector<int64_t>> runs = reader_->RunsToJoin(since);
  if (!runs.ok()) {
    spdlog::error("peer: cannot list the runs to send: {}", std::string(runs.status().message()));
    return;
  }
  for (const int64_t run : *runs) runs_[run].due = true;
  taken_up_ = true;
}

uint64_t PushLoop::TakeMessages(absl::Time now) {
  uint64_t looked_at = 0;
  std::set<int64_t> notified;
  std::map<int64_t, Answer> answers;
  {
    absl::MutexLock lock(&inbox_->mutex);
    looked_at = inbox_->notified;
    notified.swap(inbox_->runs);
    answers.swap(inbox_->answers);
    if (!inbox_->unsaved.empty()) save_at_ = now + options_.first_backoff;
    unsaved_.insert(unsaved_.end(), inbox_->unsaved.begin(), inbox_->unsaved.end());
    inbox_->unsaved.clear();
  }
  if (now >= save_at_) {
    save_at_ = absl::InfiniteFuture();
    Save(std::exchange(unsaved_, {}));
  }
  for (const auto& [run, answer] : answers) TakeAnswer(runs_[run], answer, now);
  for (const int64_t run : notified) {
    if (!others_.contains(run)) runs_[run].due = runs_[run].stale = true;
  }
  return looked_at;
}

// Logs each change once. The user of the run is told of what lasts: rank 0 often comes later.
void PushLoop::SetError(const std::string& error, Entry* entry, absl::Time now) {
  Link& link = entry->link;
  const std::string before = std::exchange(link.error, error);
  if (before != error && !error.empty()) {
    spdlog::info("run {}: its rows do not join those of rank 0 at {}: {}", link.run_id, link.home,
                 error);
  } else if (before != error) {
    spdlog::info("run {}: its rows join those of rank 0 at {}", link.run_id, link.home);
  }
  link.stuck_since = error.empty() ? absl::InfiniteFuture() : std::min(link.stuck_since, now);
  const bool trouble = now - link.stuck_since >= options_.trouble_after;
  if (trouble == entry->told || (!trouble && !error.empty())) return;
  entry->told = trouble;
  if (options_.on_trouble) options_.on_trouble(link.run, link.home, error);
}

void PushLoop::TakeAnswer(Entry& entry, const Answer& answer, absl::Time now) {
  entry.waits = false;
  entry.due = true;
  if (!answer.status.ok()) {
    SetError(std::string(answer.status.message()), &entry, now);
    entry.part->OnError();
    entry.backoff = std::clamp(entry.backoff * 2, options_.first_backoff, options_.max_backoff);
    entry.next = now + entry.backoff;
    return;
  }
  entry.backoff = absl::ZeroDuration();
  const std::vector<PartSender::Progress> progress = entry.part->OnReply(answer.reply, now);
  Save(progress);
  SetError(entry.part->state().why, &entry, now);
  uint64_t late = 0;
  for (const PartSender::Progress& of : progress) late += of.new_late_rows;
  if (late > 0) {
    late_rows_ += late;
    spdlog::warn("run {}: {} rows came too late for the run of rank 0 at {}", entry.link.run_id,
                 late, entry.link.home);
  }
  entry.link.own = entry.part->state().own;
  entry.link.last_answer = options_.wall_clock();
}

void PushLoop::StepRun(int64_t run, Entry& entry, absl::Time now) {
  entry.due = false;
  if (entry.part == nullptr) {
    const absl::StatusOr<model::Run> stored = reader_->GetRun(run);
    if (!stored.ok() && !absl::IsNotFound(stored.status())) {  // of the disk
      entry.due = true;
      entry.next = now + options_.first_backoff;
      return;
    }
    // A run without its first rank becomes a part, or the run of rank 0, and then is notified.
    entry.not_a_part = !stored.ok() || !stored->local_only || !stored->primary_chosen ||
                       stored->settings.strategy != model::LogStrategy::kMain ||
                       stored->settings.imported || stored->refused;
    if (entry.not_a_part) {
      if (stored.ok() && stored->primary_chosen) others_.insert(run);
      return;
    }
    entry.part = std::make_unique<PartSender>(run, options_.part);
    entry.link.run = run;
    entry.link.run_id = stored->run_id;
  }
  absl::StatusOr<absl::optional<v1::PushRequest>> request = entry.part->Next(*reader_, now);
  if (!request.ok()) {
    entry.link.error = std::string(request.status().message());
    entry.not_a_part = absl::IsNotFound(request.status());  // it was removed
    entry.next = now + options_.max_backoff;
    return;
  }
  SetCounts(entry);
  if (!*request) return;
  const absl::optional<HostPort> home = HomeOf(entry.part->run());
  entry.link.home = home ? home->Text() : "";
  if (!home) {
    entry.part->OnError();
    SetError("the address of rank 0's node is not known; set RANKLOG_PEER=HOST for the ranks",
             &entry, now);
    entry.next = now + options_.max_backoff;
    return;
  }
  Save(entry.part->TakeBegun());
  entry.waits = true;
  entry.asked = now;
  entry.next = now + (entry.part->more() ? absl::ZeroDuration() : options_.interval);
  send_(*home, **request, [inbox = inbox_, run](absl::Status status, v1::PushReply reply) {
    absl::MutexLock lock(&inbox->mutex);
    inbox->answers[run] = {std::move(status), std::move(reply)};
    inbox->changed.Wake();
  });
}

void PushLoop::Read(Entry& entry) {
  if (entry.part->Read(*reader_).ok()) SetCounts(entry);  // StepRun() shows the error
}

void PushLoop::SetCounts(Entry& entry) {
  entry.stale = false;
  entry.link.waiting_rows = entry.part->state().waiting_rows;
  entry.link.waits = entry.part->state().waits;
  entry.link.asks = entry.part->state().asks;
  entry.link.late_rows = entry.part->state().late_rows;
}

void PushLoop::Save(const std::vector<PartSender::Progress>& progress) {
  if (progress.empty()) return;
  store_->Submit(
      {.apply =
           [progress](storage::Store& store) {
             for (const PartSender::Progress& of : progress) {
               RETURN_IF_ERROR(store.SetJoined(of.stream, of.seq, of.joined, of.late_rows));
             }
             return absl::OkStatus();
           },
       .done =
           [progress, inbox = inbox_](const absl::Status& status) {
             if (status.ok() || absl::IsNotFound(status)) return;
             absl::MutexLock lock(&inbox->mutex);
             inbox->unsaved.insert(inbox->unsaved.end(), progress.begin(), progress.end());
             inbox->changed.Wake();
           }});
}

absl::optional<HostPort> PushLoop::HomeOf(const model::Run& run) const {
  return options_.home ? options_.home : ParseHostPort(run.settings.home, options_.port);
}

std::vector<PushLoop::Link> PushLoop::Links() const {
  absl::MutexLock lock(&mutex_);
  return links_;
}

bool PushLoop::sent() const {
  absl::MutexLock lock(&inbox_->mutex);
  absl::MutexLock round(&mutex_);
  return all_sent_ && looked_at_ == inbox_->notified;
}

bool PushLoop::busy() const {
  absl::MutexLock lock(&mutex_);
  return std::any_of(links_.begin(), links_.end(), [](const Link& link) {
    return link.waiting_rows > 0 && link.error.empty() && !link.own;
  });
}

}  // namespace ranklog::peer
