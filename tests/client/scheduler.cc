#include "tests/client/scheduler.h"

#include <stdio.h>
#include <stdlib.h>

namespace ranklog::testing {

std::string Scheduler::Explore(const std::function<std::vector<Thread>()>& prepare,
                               const std::function<std::string()>& check) {
  do {
    ++orders_;
    variables_ = 0;
    threads_ = prepare();
    Run();
    const std::string error = stuck_.empty() ? check() : stuck_;
    if (!error.empty()) return error + Trace();
  } while (NextOrder());
  return "";
}

void Scheduler::Run() {
  fibers_.assign(threads_.size(), {});
  changes_ = depth_ = 0;
  switches_ = steps_ = 0;
  learned_ = false;
  stuck_.clear();
  trace_.clear();
  while (stacks_.size() < threads_.size()) stacks_.emplace_back(new char[kStackBytes]);
  for (size_t i = 0; i < fibers_.size(); ++i) {
    Fiber& fiber = fibers_[i];
    fiber.may_be_interrupted = threads_[i].on_signal != nullptr;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks_[i].get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &Main, 0);
  }
  SwitchAway(SourceLocation::current());
}

void Scheduler::Main() {
  Scheduler& self = *active_;
  self.threads_[self.running_].body();
  self.fibers_[self.running_].ended = true;
  self.Changed();
  self.SwitchAway(SourceLocation::current());
}

bool Scheduler::NextOrder() {
  if (learned_) {  // earlier orders had no switches at that variable
    choices_.clear();
    return true;
  }
  while (!choices_.empty() && choices_.back().chosen + 1 == choices_.back().of) {
    choices_.pop_back();
  }
  if (choices_.empty()) return false;
  ++choices_.back().chosen;
  return true;
}

size_t Scheduler::Choose(size_t of) {
  if (of == 1) return 0;
  if (depth_ == choices_.size()) choices_.push_back({0, of});
  if (choices_[depth_].of != of) {
    fprintf(stderr, "the same order twice is not the same:%s\n", Trace().c_str());
    abort();
  }
  return choices_[depth_++].chosen;
}

uint64_t Scheduler::NewVariable() {
  if (running_ == kNone) return ++variables_;
  return (uint64_t{running_ + 1} << 32) + ++fibers_[running_].variables;
}

void Scheduler::BeforeAccess(uint64_t variable, bool changes, const SourceLocation& place) {
  if (running_ == kNone || !stuck_.empty()) return;
  Use& use = uses_[variable];
  use.threads |= uint64_t{1} << running_;
  use.changed = use.changed || changes;
  if (!use.shared && use.changed && (use.threads & (use.threads - 1)) != 0) {
    use.shared = learned_ = true;
  }
  Offer(use.shared, place);
}

void Scheduler::Fence(const SourceLocation& place) {
  if (running_ != kNone) Offer(/*to_others=*/false, place);
}

void Scheduler::Offer(bool to_others, const SourceLocation& place) {
  if (++steps_ > kMostSteps) {
    stuck_ = "the threads come to no end";
    return SwitchTo(kNone, place);
  }
  if (switches_ == most_switches_) return;
  std::vector<size_t> next;
  if (to_others) next = OthersReady();
  Fiber& self = fibers_[running_];
  const size_t chosen = Choose(1 + next.size() + (self.may_be_interrupted ? 1 : 0));
  if (chosen == 0) return;
  ++switches_;
  if (chosen <= next.size()) return SwitchTo(next[chosen - 1], place);
  self.may_be_interrupted = false;
  trace_.push_back({running_, running_, place});
  threads_[running_].on_signal();
}

std::vector<size_t> Scheduler::OthersReady() const {
  std::vector<size_t> ready;
  const size_t first = running_ == kNone ? 0 : running_ + 1;
  for (size_t n = 0; n < fibers_.size(); ++n) {
    const size_t i = (first + n) % fibers_.size();
    if (i != running_ && !fibers_[i].waits && !fibers_[i].ended) ready.push_back(i);
  }
  return ready;
}

void Scheduler::Changed() {
  if (running_ == kNone) return;
  ++changes_;
  ++fibers_[running_].changes;
  for (size_t i = 0; i < fibers_.size(); ++i) {
    if (i != running_) fibers_[i].waits = false;
  }
}

void Scheduler::Yield() {
  if (running_ == kNone) return;
  Fiber& self = fibers_[running_];
  if (self.seen == changes_ - self.changes) Wait();
  self.seen = changes_ - self.changes;
}

void Scheduler::Wait() {
  if (running_ == kNone) return;
  fibers_[running_].waits = true;
  SwitchAway(SourceLocation::current());
}

void Scheduler::SwitchAway(const SourceLocation& place) {
  const std::vector<size_t> ready = OthersReady();
  if (!ready.empty()) {
    const bool first = running_ == kNone;
    const size_t chosen = Choose(first || switches_ < most_switches_ ? ready.size() : 1);
    if (!first && chosen > 0) ++switches_;
    return SwitchTo(ready[chosen], place);
  }
  for (const Fiber& fiber : fibers_) {
    if (!fiber.ended) stuck_ = "all threads wait for one another";
  }
  SwitchTo(kNone, place);
}

void Scheduler::SwitchTo(size_t next, const SourceLocation& place) {
  const size_t from = std::exchange(running_, next);
  trace_.push_back({from, next, place});
  if (from != kNone) exchange_locals_(from);
  if (next != kNone) exchange_locals_(next);
  swapcontext(from == kNone ? &main_ : &fibers_[from].context,
              next == kNone ? &main_ : &fibers_[next].context);
}

std::string Scheduler::Trace() const {
  std::string text;
  const auto name = [this](size_t thread) { return thread == kNone ? "-" : threads_[thread].name; };
  for (const Switch& each : trace_) {
    const std::string file = each.place.file_name();
    text += "\n  " + name(each.from) + " at " + file.substr(file.rfind('/') + 1) + ":" +
            std::to_string(each.place.line()) + ": " +
            (each.from == each.to ? "a signal" : "then " + name(each.to));
  }
  return text;
}

}  // namespace ranklog::testing
