#include "service/sample/process/process_table.h"

#include <algorithm>
#include <numeric>

#include "service/sample/fields.h"

namespace ranklog::sample {
namespace {

constexpr uint64_t kKernelThreadFlag = 0x200000;  // the kernel's PF_KTHREAD

}  // namespace

absl::optional<Process> ParseProcess(absl::string_view stat) {
  Process process;
  const absl::optional<uint64_t> pid = NumberAt(stat);
  const size_t name_end = stat.rfind(')');
  if (!pid.has_value() || name_end == absl::string_view::npos) return absl::nullopt;
  process.pid = static_cast<pid_t>(*pid);
  absl::string_view rest = stat.substr(name_end + 1);
  SkipFields(rest, 1);  // state; proc(5) numbers the fields, and this is the third
  process.parent = static_cast<pid_t>(TakeNumber(rest));
  SkipFields(rest, 4);
  process.kernel_thread = (TakeNumber(rest) & kKernelThreadFlag) != 0;
  SkipFields(rest, 4);
  process.cpu = TakeNumber(rest);
  process.cpu += TakeNumber(rest);
  process.ended_children = TakeNumber(rest);
  process.ended_children += TakeNumber(rest);
  SkipFields(rest, 2);
  process.threads = TakeNumber(rest);
  SkipFields(rest, 1);
  process.start = TakeNumber(rest);
  SkipFields(rest, 1);
  const absl::optional<uint64_t> resident = NumberAt(TakeField(rest));
  if (!resident.has_value()) return absl::nullopt;
  process.resident_pages = *resident;
  return process;
}

ProcessTable::ProcessTable(std::vector<Process> processes) : processes_(std::move(processes)) {
  std::sort(processes_.begin(), processes_.end(),
            [](const Process& a, const Process& b) { return a.pid < b.pid; });
  by_parent_.resize(processes_.size());
  std::iota(by_parent_.begin(), by_parent_.end(), 0);
  std::sort(by_parent_.begin(), by_parent_.end(),
            [this](uint32_t a, uint32_t b) { return processes_[a].parent < processes_[b].parent; });
  for (const Process& process : processes_) latest_start_ = std::max(latest_start_, process.start);
}

const Process* ProcessTable::Find(pid_t pid) const {
  const auto found = std::partition_point(processes_.begin(), processes_.end(),
                                          [pid](const Process& p) { return p.pid < pid; });
  return found == processes_.end() || found->pid != pid ? nullptr : &*found;
}

std::vector<const Process*> ProcessTable::Trees(absl::Span<const pid_t> roots) const {
  std::vector<const Process*> trees;
  // A root may be below another one. The processes of a table may even form a circle, because they
  // were not read at one moment.
  std::vector<bool> seen(processes_.size());
  const auto add = [&](const Process& process) {
    const auto place = static_cast<size_t>(&process - processes_.data());
    if (!seen[place]) trees.push_back(&process);
    seen[place] = true;
  };
  for (const pid_t root : roots) {
    if (const Process* const process = Find(root)) add(*process);
  }
  for (size_t next = 0; next < trees.size(); ++next) {
    const pid_t parent = trees[next]->pid;
    auto child = std::partition_point(
        by_parent_.begin(), by_parent_.end(),
        [this, parent](uint32_t place) { return processes_[place].parent < parent; });
    for (; child != by_parent_.end() && processes_[*child].parent == parent; ++child) {
      add(processes_[*child]);
    }
  }
  return trees;
}

}  // namespace ranklog::sample
