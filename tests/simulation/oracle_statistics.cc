// The part of Oracle that judges the statistics over ranks.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/aggregate/join/stream_rows.h"
#include "tests/simulation/number.h"
#include "tests/simulation/oracle.h"

namespace ranklog::simulation {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// of mean and standard deviation, relative to the largest value
constexpr double kPrecision = 1e-12;

struct Contribution {
  uint32_t rank;
  double value;
};

struct Figures {
  double mean = kNaN, min = kNaN, max = kNaN, std = kNaN, argmin = kNaN, argmax = kNaN;
};

// Computes the figures of the finite values by their definitions, in two passes. A long double has
// room for any square.
Figures FiguresOf(const std::vector<Contribution>& contributions) {
  Figures figures;
  long double sum = 0;
  long double count = 0;
  for (const Contribution& one : contributions) {
    if (!std::isfinite(one.value)) continue;
    if (count == 0 || one.value < figures.min ||
        (one.value == figures.min && one.rank < figures.argmin)) {
      figures.min = one.value;
      figures.argmin = one.rank;
    }
    if (count == 0 || one.value > figures.max ||
        (one.value == figures.max && one.rank < figures.argmax)) {
      figures.max = one.value;
      figures.argmax = one.rank;
    }
    sum += one.value;
    count += 1;
  }
  if (count == 0) return figures;
  const long double mean = sum / count;
  long double squares = 0;
  for (const Contribution& one : contributions) {
    if (std::isfinite(one.value)) squares += (one.value - mean) * (one.value - mean);
  }
  figures.mean = static_cast<double>(mean);
  figures.std = static_cast<double>(std::sqrt(squares / count));
  return figures;
}

bool Same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool Close(double a, double b, const Figures& figures) {
  const double scale = std::max(std::abs(figures.min), std::abs(figures.max));
  return Same(a, b) || std::abs(a - b) <= kPrecision * scale;
}

double FigureOf(const Figures& figures, const std::string& name) {
  if (name == "mean") return figures.mean;
  if (name == "min") return figures.min;
  if (name == "max") return figures.max;
  if (name == "std") return figures.std;
  return name == "argmin" ? figures.argmin : figures.argmax;
}

using Shown = std::map<std::string, double>;  // by name: mean, min, ...

bool Same(const Shown& shown, const Figures& due) {
  return std::all_of(shown.begin(), shown.end(), [&due](const auto& one) {
    const double figure = FigureOf(due, one.first);
    const bool rounded = one.first == "mean" || one.first == "std";
    return rounded ? Close(one.second, figure, due) : Same(one.second, figure);
  });
}

Shown FiguresIn(const std::map<std::string, std::string>& line, const std::string& metric) {
  Shown figures;
  for (const char* name : {"mean", "min", "max", "std", "argmin", "argmax"}) {
    const auto found = line.find(absl::StrCat("rank_", name, "/", metric));
    if (found != line.end()) figures[name] = NumberOf(found->second);
  }
  return figures;
}

bool Matches(std::string_view glob, std::string_view text) {
  if (glob.empty()) return text.empty();
  if (glob[0] != '*') {
    return !text.empty() && glob[0] == text[0] && Matches(glob.substr(1), text.substr(1));
  }
  return Matches(glob.substr(1), text) || (!text.empty() && Matches(glob, text.substr(1)));
}

// The names of the metric's figures, by the run's settings.
std::vector<std::string> NamesFor(const std::string& metric, const model::RunSettings& settings) {
  if (settings.strategy == model::LogStrategy::kAll) return {};
  std::vector<std::string> names = settings.rank_statistics;
  for (const std::string& rule : settings.rank_statistic_rules) {
    const size_t end = rule.rfind('=');
    if (!Matches(std::string_view(rule).substr(0, end), metric)) continue;
    names = absl::StrSplit(rule.substr(end + 1), ',');
    break;
  }
  if (names.empty()) return {"mean", "min", "max"};
  return names[0] == "none" ? std::vector<std::string>() : names;
}

// A line has either all of the figures, or none.
bool AreAllOrNone(const Shown& shown, const std::vector<std::string>& names) {
  return shown.empty() ||
         (shown.size() == names.size() &&
          std::all_of(names.begin(), names.end(),
                      [&shown](const std::string& name) { return shown.contains(name); }));
}

std::string TextOf(const Shown& shown) {
  std::string text;
  for (const auto& [name, value] : shown) absl::StrAppend(&text, " ", name, " ", value);
  return text;
}

bool Differ(const std::vector<Contribution>& some) {
  return std::any_of(some.begin(), some.end(),
                     [&some](const Contribution& one) { return !Same(one.value, some[0].value); });
}

// Tries each choice of one value per rank, without `left_out` of the ranks from the index
// `required` on, until `fits` accepts one. `chosen` is then that choice.
template <typename Fn>
bool Choose(const std::vector<std::pair<uint32_t, std::vector<double>>>& ranks, size_t at,
            size_t required, size_t left_out, std::vector<Contribution>* chosen, const Fn& fits) {
  if (at == ranks.size()) return left_out == 0 && fits(*chosen);
  for (const double value : ranks[at].second) {
    chosen->push_back({ranks[at].first, value});
    if (Choose(ranks, at + 1, required, left_out, chosen, fits)) return true;
    chosen->pop_back();
  }
  return left_out > 0 && at >= required &&
         Choose(ranks, at + 1, required, left_out - 1, chosen, fits);
}

}  // namespace

// Returns the values of the metric in each rank's stored rows.
std::map<uint32_t, Oracle::ByStep> Oracle::ValuesByRank(
    const std::string& metric, const std::vector<model::Stream>& streams) const {
  std::map<uint32_t, ByStep> values;
  for (const model::Stream& stream : streams) {
    const RingRecord* const ring = RingOf(stream);
    if (ring == nullptr) continue;
    for (uint64_t seq = 1; seq <= std::min<uint64_t>(stream.durable_seq, ring->rows.size());
         ++seq) {
      const LoggedRow& row = ring->rows[seq - 1];
      for (const auto& [key, number] : row.numbers) {
        if (key == metric) values[ring->rank][StepInRun(*ring, row)].push_back(number);
      }
    }
  }
  return values;
}

// For each step at which the run's own rings have a row.
std::map<int64_t, Oracle::StepOfRun> Oracle::StepsOfRun(
    const std::vector<model::Stream>& streams) const {
  std::map<int64_t, StepOfRun> steps;
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const model::Stream& stream : streams) {
    if (stream.primary) first = std::min(first, stream.id);
  }
  for (const model::Stream& stream : streams) {
    const RingRecord* const ring = RingOf(stream);
    if (ring == nullptr || !stream.primary) continue;
    for (const LoggedRow& row : ring->rows) {
      StepOfRun& known =
          steps.try_emplace(StepInRun(*ring, row), StepOfRun{ring->known}).first->second;
      known.since = std::max(known.since, ring->known);
      known.continued |= stream.id != first;
    }
  }
  return steps;
}

// Whether a process of the rank that was alive when the daemon knew the step's ring, or later,
// logged the metric at the step. Before a ring that continues the run, the daemon forgets all but
// the last rows of the other ranks.
bool Oracle::IsRemembered(const StepOfRun& known, const std::string& metric, uint32_t rank,
                          int64_t step, const std::vector<model::Stream>& streams) const {
  return std::any_of(streams.begin(), streams.end(), [&](const model::Stream& stream) {
    const RingRecord* const ring = RingOf(stream);
    if (ring == nullptr || ring->rank != rank) return false;
    // The rows of another node wait there for the run.
    const bool waits = !stream.peer.empty() && !known.continued;
    if (ring->ended < known.since && !waits) return false;
    const size_t stored = std::min<size_t>(stream.durable_seq, ring->rows.size());
    const size_t forgotten =
        known.continued ? stored - std::min(stored, aggregate::kMaxPassedRows) : 0;
    const auto begin = ring->rows.begin();
    return std::any_of(begin + static_cast<ptrdiff_t>(forgotten),
                       begin + static_cast<ptrdiff_t>(stored), [&](const LoggedRow& row) {
                         return StepInRun(*ring, row) == step &&
                                std::any_of(
                                    row.numbers.begin(), row.numbers.end(),
                                    [&](const auto& number) { return number.first == metric; });
                       });
  });
}

// Returns what the ranks logged at a line's step. For the primary's rank, it is the value in the
// line.
Oracle::Choices Oracle::ChoicesFor(const std::string& metric, const model::Run& run,
                                   const Line& line, const std::map<uint32_t, ByStep>& by_rank) {
  Choices ranks;
  const auto step = line.find("_step");
  const auto own = line.find(metric);
  for (const auto& [rank, values] : by_rank) {
    const auto at = values.find(static_cast<int64_t>(NumberOf(step->second)));
    if (at == values.end()) continue;
    if (rank != run.primary_rank) {
      ranks.emplace_back(rank, at->second);
    } else if (own != line.end()) {
      const bool logged = std::any_of(at->second.begin(), at->second.end(),
                                      [&](double value) { return SameNumber(own->second, value); });
      if (!logged) Wrong(run.run_id, ": step ", step->second, " has ", metric, " = ", own->second);
      ranks.emplace_back(rank, std::vector<double>{NumberOf(own->second)});
    }
  }
  return ranks;
}

// A line's figures must come from one value of each of two or more ranks that logged one at its
// step. A line has them from the first one on at which these values differ. A replay before that
// line may already have shown the difference. A rank is left out at most as often as its rows were
// late. Two exceptions, whose rows are left out uncounted: a process that had ended before the daemon
// knew the primary's ring, since the run may have ended in between; and rows that the daemon had
// forgotten when a later process of the primary continued the run.
void Oracle::JudgeStatistics(const std::string& metric, const model::Run& run,
                             const std::vector<model::Stream>& streams) {
  const std::vector<std::string> names = NamesFor(metric, run.settings);
  const bool on = !names.empty();
  const auto by_rank = ValuesByRank(metric, streams);
  const auto steps_of_run = StepsOfRun(streams);
  std::map<uint32_t, uint64_t> late;
  for (const model::Stream& stream : streams) {
    late[stream.key.rank] += stream.late_rows + (stream.primary ? 0 : stream.replayed_rows);
  }
  std::map<uint32_t, uint64_t> left_out;  // number of steps, by rank
  const bool replays_differ = std::any_of(replays_.begin(), replays_.end(), [&](const Line& line) {
    return !FiguresIn(line, metric).empty();
  });
  bool differed = false;
  for (const Line& line : lines_) {
    if (line.count("_step") == 0) continue;
    Choices ranks = ChoicesFor(metric, run, line, by_rank);
    const auto step = static_cast<int64_t>(NumberOf(line.at("_step")));
    const auto known = steps_of_run.find(step);
    const auto excused = [&](uint32_t rank) {
      return known != steps_of_run.end() &&
             !IsRemembered(known->second, metric, rank, step, streams);
    };
    // Choose() leaves out the last ranks first. So if it may be either rank, it is the one with the
    // excuse.
    std::stable_sort(ranks.begin(), ranks.end(), [&](const auto& a, const auto& b) {
      return std::make_pair(excused(a.first), late[a.first]) <
             std::make_pair(excused(b.first), late[b.first]);
    });
    const Shown shown = FiguresIn(line, metric);
    if (!AreAllOrNone(shown, names)) {
      Wrong(run.run_id, ": other statistics of ", metric, ":", TextOf(shown));
    }
    const bool any = !shown.empty();
    const auto count = line.find(absl::StrCat("rank_count/", metric));
    // Where nodes are joined, a line says how many ranks it has, unless it has all.
    const auto counts = [&](size_t ranks_in) {
      if (!Joins(run) || !any || ranks_in == joined_ranks) return count == line.end();
      return count != line.end() && SameNumber(count->second, static_cast<double>(ranks_in));
    };
    const auto fits = [&](const std::vector<Contribution>& some) {
      if (!counts(some.size())) return false;
      if (!on || some.size() < 2) return !any;
      const bool due = differed || Differ(some) || (any && replays_differ);
      return any == due && Same(shown, FiguresOf(some));
    };
    std::vector<Contribution> chosen;
    bool found = false;
    // First leaves out only ranks that may be missing. If two of three ranks are late and have equal
    // values, no figures could also mean that the third one is left out.
    const auto reliable =
        static_cast<size_t>(std::count_if(ranks.begin(), ranks.end(), [&](const auto& rank) {
          return late[rank.first] == 0 && !excused(rank.first);
        }));
    for (const size_t required : {reliable, size_t{0}}) {
      for (size_t without = 0; !found && without + required <= ranks.size(); ++without) {
        found = Choose(ranks, 0, required, without, &chosen, fits);
      }
    }
    if (!found) {
      Wrong(run.run_id, ": the statistics of ", metric, " at step ", line.at("_step"),
            " are of no ranks:", TextOf(shown),
            count == line.end() ? "" : absl::StrCat(" count ", count->second));
    }
    differed |= any;
    // If a step was logged again, what a rank logged there may be in either row.
    const auto made = static_cast<uint64_t>(&line - lines_.data());
    if (step >= HiddenFrom(made, &model::Rewind::rows)) continue;
    for (const auto& [rank, values] : ranks) {
      const auto is_it = [r = rank](const Contribution& one) { return one.rank == r; };
      if (!on || std::any_of(chosen.begin(), chosen.end(), is_it)) continue;
      if (!excused(rank)) ++left_out[rank];
    }
  }
  for (const auto& [rank, times] : left_out) {
    if (times <= late[rank]) continue;
    Wrong(run.run_id, ": rank ", rank, " is missing in the statistics of ", metric, " at ", times,
          " steps; ", late[rank], " of its rows were late");
  }
}

}  // namespace ranklog::simulation
