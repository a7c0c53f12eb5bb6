#include "service/cli/status/status_json.h"

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/disk_outlook.h"
#include "service/cli/node/spools/unread_spools.h"
#include "service/query/run_report.h"
#include "service/storage/database/store_file.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {
namespace {

model::Json SetApartJson(const Overview& overview) {
  model::Json apart = model::Json::array();
  for (const auto& [report, destination] : SetApart(overview)) {
    apart.push_back({{"run_id", report->run.run_id},
                     {"project", report->run.project},
                     {"kind", destination->kind},
                     {"pending_rows", destination->pending_rows},
                     {"last_error", destination->last_error}});
  }
  return apart;
}

model::Json SecondsOrNull(int64_t unix_us) {
  return unix_us == 0 ? model::Json() : model::Json(static_cast<double>(unix_us) / 1e6);
}

model::Json PeerJson(const Overview& overview, const DaemonStatus::Peer& peer) {
  model::Json links = model::Json::array();
  for (const DaemonStatus::Peer::Link& link : peer.links) {
    links.push_back({{"run_id", RunIdOf(overview, link.run)},
                     {"home", link.home},
                     {"error", link.error},
                     {"waiting_rows", link.waiting_rows},
                     {"stuck_seconds", link.stuck_seconds},
                     {"last_answer", SecondsOrNull(link.last_answer_us)}});
  }
  model::Json nodes = model::Json::array();
  for (const DaemonStatus::Peer::Node& node : peer.nodes) {
    nodes.push_back(
        {{"node", node.name}, {"silent_seconds", node.silent_seconds}, {"streams", node.streams}});
  }
  return {{"key_file", peer.key_file},
          {"fingerprint", peer.fingerprint},
          {"address", peer.address},
          {"error", peer.error},
          {"links", links},
          {"nodes", nodes}};
}

model::Json DaemonJson(const Overview& overview) {
  model::Json json = {{"running", overview.daemon_pid != 0}};
  if (overview.daemon_pid != 0) json["pid"] = overview.daemon_pid;
  if (overview.log) {
    json["log"] = overview.log->path;
    if (overview.daemon_pid == 0) json["last_words"] = overview.log->last_words;
  }
  if (!overview.daemon) return json;
  json["address"] = overview.daemon->address;
  json["version"] = overview.daemon->version;
  json["uptime_seconds"] = absl::ToDoubleSeconds(Uptime(*overview.daemon));
  json["started_by"] = overview.daemon->started_by;
  json["keep_for_seconds"] = nullptr;
  if (const auto& keep_for = overview.daemon->keep_for) {
    json["keep_for_seconds"] = absl::ToDoubleSeconds(*keep_for);
  }
  json["keep_bytes"] = nullptr;
  if (const auto& bytes = overview.daemon->keep_bytes) json["keep_bytes"] = *bytes;
  json["trouble"] = StoreProblem(*overview.daemon);
  json["live_streams"] = overview.daemon->live_streams;
  json["live_jobs"] = overview.daemon->live_jobs;
  json["live_ranks"] = overview.daemon->live_ranks;
  json["rows_per_second"] = overview.daemon->rows_per_second;
  json["metrics_url"] = overview.daemon->metrics_url;
  if (const auto& peer = overview.daemon->peer) json["peer"] = PeerJson(overview, *peer);
  json["counters"] = overview.daemon->counters;
  return json;
}

model::Json DiskJson(const DiskOutlook& disk) {
  model::Json json = {{"bytes", disk.bytes},
                      {"free_bytes", disk.free_bytes},
                      {"growth_bytes_per_second", disk.growth_per_second},
                      {"full_in_seconds", nullptr}};
  if (disk.lasts) json["full_in_seconds"] = absl::ToDoubleSeconds(*disk.lasts);
  return json;
}

}  // namespace

model::Json OverviewJson(const Overview& overview) {
  model::Json live = model::Json::array();
  for (const query::RunReport* report : LiveRuns(overview)) live.push_back(ToJson(*report));
  model::Json destinations = model::Json::array();
  for (const auto& [kind, destination] : overview.destinations) {
    const storage::Queue queue = QueueOf(overview, kind);
    const DaemonStatus::Destination seen = TrackerFiguresOf(overview, kind);
    destinations.push_back({{"kind", kind},
                            {"pending_bytes", queue.bytes},
                            {"oldest_pending", SecondsOrNull(queue.oldest_us)},
                            {"last_success", SecondsOrNull(seen.last_success_us)},
                            {"last_failure", SecondsOrNull(seen.last_error_us)},
                            {"last_failure_error", seen.last_error},
                            {"delivered_rows", destination.delivered_rows},
                            {"pending_rows", destination.pending_rows},
                            {"refused_rows", destination.refused_rows},
                            {"pending_items", destination.pending_items},
                            {"replayed_rows", destination.replayed_rows},
                            {"pending_files", destination.pending_files},
                            {"pending_file_bytes", destination.pending_file_bytes},
                            {"last_error", destination.last_error},
                            {"reasons", query::WaitingTexts(overview.runs, kind)}});
  }
  return {{"daemon", DaemonJson(overview)},
          {"state_dir", overview.state_dir},
          {"store",
           {{"path", overview.state_dir + "/" + storage::kStoreFile},
            {"bytes", overview.store_bytes},
            {"used_bytes", overview.used_bytes}}},
          {"content",
           {{"bytes", overview.content_bytes},
            {"quota", overview.daemon ? overview.daemon->content_quota : 0}}},
          {"disk", DiskJson(overview.disk)},
          {"set_aside", overview.set_aside},
          {"damaged_rings", overview.damaged_rings},
          {"runs", overview.runs.size()},
          {"live_runs", live},
          {"rows",
           {{"queued", overview.queued()},
            {"queued_bytes", overview.Queued().bytes},
            {"oldest_queued", SecondsOrNull(overview.Queued().oldest_us)},
            {"in_spools", UnreadRows(overview.left)},
            {"delivered", overview.delivered()},
            {"refused", overview.refused()},
            {"late", overview.late_rows},
            {"lost", overview.lost()}}},
          {"lost", query::LossesJson(overview.losses)},
          {"items", {{"refused", overview.losses.items}, {"lost", overview.lost_items}}},
          {"destinations", destinations},
          {"set_apart", SetApartJson(overview)},
          {"problems", ProblemsOf(overview)}};
}

}  // namespace ranklog::cli
