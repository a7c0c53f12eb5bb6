#include "service/sample/process/tree_cpu.h"

#include <utility>

namespace ranklog::sample {
namespace {

uint64_t GrownBy(uint64_t before, uint64_t now) { return now > before ? now - before : 0; }

}  // namespace

absl::flat_hash_map<pid_t, uint64_t> TreeCpu::UsedByEnded(const ProcessTable& table) const {
  const auto runs = [&table](const Process& process) {
    const Process* const now = table.Find(process.pid);
    return now != nullptr && now->start == process.start;
  };
  absl::flat_hash_map<pid_t, uint64_t> used;
  for (const auto& [pid, process] : before_) {
    if (runs(process)) continue;
    auto ancestor = before_.find(process.parent);
    // Steps are counted, because a table is no snapshot and may contain a circle.
    for (size_t step = 0; step < before_.size(); ++step) {
      if (ancestor == before_.end() || runs(ancestor->second)) break;
      ancestor = before_.find(ancestor->second.parent);
    }
    if (ancestor != before_.end()) used[ancestor->first] += process.cpu + process.ended_children;
  }
  return used;
}

absl::optional<uint64_t> TreeCpu::Since(const ProcessTable& table,
                                        const std::vector<const Process*>& trees) {
  const absl::flat_hash_map<pid_t, uint64_t> used_by_ended = UsedByEnded(table);
  uint64_t ticks = 0;
  absl::flat_hash_map<pid_t, Process> now;
  for (const Process* const process : trees) {
    now[process->pid] = *process;
    const auto found = before_.find(process->pid);
    if (found != before_.end() && found->second.start == process->start) {
      const Process& before = found->second;
      ticks += GrownBy(before.cpu, process->cpu);
      const auto ended = used_by_ended.find(process->pid);
      const uint64_t counted = ended == used_by_ended.end() ? 0 : ended->second;
      ticks += GrownBy(before.ended_children + counted, process->ended_children);
    } else if (process->start >= latest_start_) {
      ticks += process->cpu + process->ended_children;
    }
  }
  before_ = std::move(now);
  latest_start_ = table.latest_start();
  return std::exchange(first_, false) ? absl::nullopt : absl::make_optional(ticks);
}

}  // namespace ranklog::sample
