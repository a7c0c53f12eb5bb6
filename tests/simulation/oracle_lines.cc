// The part of Oracle that judges a run's lines at the tracker.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/simulation/number.h"
#include "tests/simulation/oracle.h"

namespace ranklog::simulation {

void Oracle::JudgeAtTracker(uint32_t node, storage::StoreReader& reader, const model::Run& run,
                            const std::vector<model::Stream>& streams, const Tracker& tracker) {
  const auto found = tracker.server().runs().find(run.run_id);
  if (found == tracker.server().runs().end()) {
    lines_.clear();
    return Wrong("run ", run.run_id, " is not at the tracker");
  }
  const testing::WandbServer::Run& shown = found->second;
  const Tracker::SetBack set_back = tracker.set_back(run.run_id);
  uint64_t rows = run.rows;
  if (moves) {
    rows = 0;
    for (const auto& [store, its_rows] : rows_.at(run.run_id)) rows += its_rows;
  }
  if (shown.history.size() != rows) {
    Wrong("run ", run.run_id, ": ", shown.history.size(), " lines of ", rows, " rows");
  }
  ReadLines(reader, run, shown);
  if (moves) KeepLinesOf(node, run);
  FindRows();
  JudgeUploads(reader, run, streams, tracker);
  if (!Continues(node, run)) return;
  const bool good = run.state == model::RunState::kFinished;
  if (!set_back.end && !shown.complete) Wrong("run ", run.run_id, " is not complete there");
  if (!set_back.end && good != (shown.exit_code == 0)) {
    Wrong("run ", run.run_id, " is ", std::string(Name(run.state)), " but ended with ",
          shown.exit_code, " at the tracker");
  }
  if (!set_back.config) JudgeConfig(streams, shown);
  const auto deliveries = reader.Deliveries(run.id);
  if (!set_back.summary) JudgeSummary(streams, (*deliveries)[0], shown);
}

void Oracle::ReadLines(storage::StoreReader& reader, const model::Run& run,
                       const testing::WandbServer::Run& shown) {
  lines_.clear();
  for (const std::string& text : shown.history) {
    Line& line = lines_.emplace_back();
    if (!ParseLine(text, &line)) Wrong(run.run_id, ": no line: ", text);
    if (line["_runtime"].substr(0, 1) == "-")
      Wrong(run.run_id, ": a time before its start: ", text);
  }
  const auto letters = reader.DeadLetters(run.id);
  uint64_t refused = 0;
  std::map<uint64_t, int> by_row;
  for (const model::DeadLetter& letter : *letters) {
    Line members;
    if (letter.answer.rfind("HTTP 400", 0) != 0 || !ParseLine(letter.content, &members)) continue;
    const size_t line = LineOf(letter, members);
    if (line >= lines_.size()) {
      Wrong(run.run_id, ": a dead letter of row ", letter.row, ", which is not there");
      continue;
    }
    if (++by_row[letter.row] > 1) Wrong(run.run_id, ": two dead letters of row ", letter.row);
    ++refused;
    if (lines_[line].size() > 3) Wrong(run.run_id, ": row ", letter.row, " was not refused");
    lines_[line] = std::move(members);
  }
  // A temporary would not outlive the loop's head.
  const auto deliveries = reader.Deliveries(run.id);
  for (const model::Delivery& delivery : *deliveries) {
    if (delivery.refused_rows != refused) {
      Wrong(run.run_id, ": ", refused, " dead letters, ", delivery.refused_rows, " counted");
    }
  }
}

// The index of a row is its line number, unless other stores have lines in between.
size_t Oracle::LineOf(const model::DeadLetter& letter, const Line& content) const {
  if (!moves) return letter.row;
  for (size_t i = 0; i < lines_.size(); ++i) {
    bool same = lines_[i].size() == 3;
    for (const auto& [key, value] : lines_[i]) {
      const auto found = content.find(key);
      same = same && found != content.end() && found->second == value;
    }
    if (same) return i;
  }
  return lines_.size();
}

bool Oracle::Continues(uint32_t node, const model::Run& run) const {
  if (!moves) return true;
  const auto& by_node = rows_.at(run.run_id);
  return by_node.rbegin()->first == node && by_node.rbegin()->second > 0;
}

// Lines of other stores are judged with those stores.
void Oracle::KeepLinesOf(uint32_t node, const model::Run& run) {
  std::vector<Line> kept;
  for (Line& line : lines_) {
    const bool ours = std::any_of(rings_.begin(), rings_.end(), [&](const auto& ring) {
      return ring->node == node && std::any_of(line.begin(), line.end(), [&](const auto& member) {
               return member.first.rfind(
                          absl::StrCat("r", ring->rank, ".", absl::Hex(ring->incarnation), "."),
                          0) == 0;
             });
    });
    if (ours) kept.push_back(std::move(line));
  }
  lines_ = std::move(kept);
  if (lines_.size() != rows_.at(run.run_id).at(node)) {
    Wrong(run.run_id, ": ", lines_.size(), " lines are of node ", node, ", which has ", run.rows,
          " rows");
  }
  const auto resumed = resumed_.find(run.run_id);
  if (node == 0 || resumed == resumed_.end()) return;
  const auto& [last_step, replays] = resumed->second;
  if (!lines_.empty()) {
    const int64_t first_step = std::stoll(lines_[0]["_step"]);
    const auto counted = [node](const auto& ring) { return ring->node == node && ring->counts; };
    const auto lost = [node](const auto& ring) {
      return ring->node == node && ring->lost_with_node;
    };
    // Of rows that were lost with the node, the first ones may be missing.
    const bool counts = std::any_of(rings_.begin(), rings_.end(), counted) &&
                        std::none_of(rings_.begin(), rings_.end(), lost);
    if (counts ? first_step != last_step + 1 : first_step <= last_step) {
      Wrong(run.run_id, ": goes on at step ", first_step, ", where the tracker has ", last_step);
    }
  }
  // They count as if they were sent.
  lines_.insert(lines_.begin(), replays.begin(), replays.end());
}

// No clock is set, so rows logged before this store's first row belong to the other store.
void Oracle::FindReplays(storage::StoreReader& reader, const model::Run& run,
                         const Tracker& tracker) {
  Resumed& resumed = resumed_[run.run_id];
  const auto shown = tracker.server().runs().find(run.run_id);
  const auto first = reader.RunBatches(run.id, 0, 1);
  if (shown == tracker.server().runs().end() || !first.ok() || first->empty()) return;
  int64_t begin_us = 0;
  model::ForEachRow(first->front().batch, [&](const model::Block& block, size_t row, uint64_t at) {
    if (at == 0) begin_us = block.times_us[row];
  });
  for (const std::string& text : shown->second.history) {
    Line line;
    if (!ParseLine(text, &line)) return;
    if (NumberOf(line["_timestamp"]) * 1e6 >= static_cast<double>(begin_us)) break;
    resumed.last_step = std::max<int64_t>(resumed.last_step, std::stoll(line["_step"]));
  }
  if (std::any_of(rings_.begin(), rings_.end(), [](const auto& ring) { return ring->counts; })) {
    return;
  }
  for (Line& line : LinesOf(reader, run)) {
    if (std::stoll(line["_step"]) <= resumed.last_step) resumed.replays.push_back(std::move(line));
  }
}

void Oracle::MakeLines(storage::StoreReader& reader, const model::Run& run) {
  lines_ = LinesOf(reader, run);
  if (lines_.size() != run.rows) Wrong(run.run_id, ": rows cannot be read");
  FindRows();
}

std::vector<Oracle::Line> Oracle::LinesOf(storage::StoreReader& reader, const model::Run& run) {
  std::vector<Line> lines;
  const auto shapes = reader.RunShapes(run.id);
  while (shapes.ok()) {
    const auto batches = reader.RunBatches(run.id, lines.size(), 1 << 20);
    if (!batches.ok() || batches->empty()) break;
    for (const storage::StoredBatch& stored : *batches) {
      lines.resize(stored.batch.last + 1);
      model::ForEachRow(stored.batch, [&](const model::Block& block, size_t row, uint64_t at) {
        MakeLine(block, row, *shapes, &lines[at]);
      });
    }
  }
  return lines;
}

void Oracle::MakeLine(const model::Block& block, size_t row,
                      const std::vector<std::vector<std::string>>& shapes, Line* line) {
  (*line)["_step"] = absl::StrCat(block.steps[row]);
  for (size_t i = 0; i < block.width(); ++i) {
    (*line)[shapes[block.shape][i]] = TextOf(block.values[row * block.width() + i]);
  }
  for (const model::Text& text : block.texts) {
    if (text.row == row) (*line)[text.key] = "\"" + text.value;
  }
}

// Indexes the lines by the keys that identify rows.
std::map<std::string, std::vector<size_t>> Oracle::RowsIn(const std::vector<Line>& lines) {
  std::map<std::string, std::vector<size_t>> rows;
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const auto& [key, value] : lines[i]) {
      if (key.size() > 3 && key.compare(key.size() - 3, 3, "/id") == 0) {
        rows[absl::StrCat(key, "=", value)].push_back(i);
      }
    }
  }
  return rows;
}

void Oracle::FindRows() { found_ = RowsIn(lines_); }

void Oracle::JudgeLines(const model::Run& run, const model::Stream& stream,
                        const RingRecord& ring) {
  uint64_t missing = 0;
  size_t last = 0;
  size_t last_replay = 0;
  for (uint64_t seq = 1; seq <= stream.durable_seq; ++seq) {
    const std::string key = absl::StrCat(ring.rows[seq - 1].numbers[0].first, "=", seq);
    const auto found = found_.find(key);
    const auto replayed = replayed_.find(key);
    const size_t times = (found == found_.end() ? 0 : found->second.size()) +
                         (replayed == replayed_.end() ? 0 : replayed->second.size());
    if (times == 0) {
      ++missing;
      continue;
    }
    if (times > 1) Wrong(run.run_id, ": row ", seq, " of rank ", ring.rank, " is twice there");
    const bool is_replay = found == found_.end();
    const size_t at = is_replay ? replayed->second[0] : found->second[0];
    size_t& before = is_replay ? last_replay : last;
    // Replays come first, since the tracker has the later rows.
    if (at < before || (is_replay && last > 0)) {
      Wrong(run.run_id, ": row ", seq, " of rank ", ring.rank, " is out of order");
    }
    before = at;
    JudgeRow(ring, seq, is_replay ? replays_[at] : lines_[at]);
  }
  if (missing != stream.late_rows) {
    Wrong(run.run_id, ": ", missing, " rows of rank ", ring.rank, " thread ", ring.thread,
          " are not there; ", stream.late_rows, " are counted as late");
  }
  if (missing > 0 && ring.thread == 0 && rings_.size() == 1) {
    Wrong(run.run_id, ": rows of the only ring are late");
  }
}

void Oracle::JudgeRow(const RingRecord& ring, uint64_t seq, const Line& line) {
  const LoggedRow& row = ring.rows[seq - 1];
  const auto wrong = [&](const std::string& key, const std::string& value) {
    Wrong("rank ", ring.rank, ": row ", seq, " came with ", key, " = ", value);
  };
  const auto step = line.find("_step");
  if (step == line.end() || step->second != absl::StrCat(StepInRun(ring, row))) {
    wrong("_step", step == line.end() ? "nothing" : step->second);
  }
  for (const auto& [key, number] : row.numbers) {
    if (key == kShared) continue;  // JudgeStatistics() checks it
    // Another process of the rank may have logged "loss" at the same step.
    if (key == "loss" && last_process_[ring.rank] > 1) continue;
    const auto value = line.find(key);
    if (value == line.end() || !SameNumber(value->second, number)) {
      wrong(key, value == line.end() ? "nothing" : value->second);
    }
  }
  for (const auto& [key, text] : row.texts) {
    const auto value = line.find(key);
    if (value == line.end() || value->second != "\"" + text) {
      wrong(key, value == line.end() ? "nothing" : value->second);
    }
  }
}

}  // namespace ranklog::simulation
