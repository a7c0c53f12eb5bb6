#include "service/daemon/notices.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/text/utf8.h"
#include "service/pipeline/store_loop.h"
#include "service/storage/directories/file_system.h"

namespace ranklog::daemon {
namespace {

constexpr char kLocal[] = "local";  // the destination of a run that stays on this node

v1::Notice Make(std::string key, v1::Notice::Severity severity, const std::string& text,
                bool over = false) {
  v1::Notice notice;
  notice.set_key(std::move(key));
  notice.set_severity(severity);
  notice.set_text(ToUtf8(text));  // the text may come from a tracker or the file system
  notice.set_over(over);
  return notice;
}

}  // namespace

v1::Notice StoreNotice(const absl::Status& committed) {
  return Make("store", v1::Notice::ERROR, pipeline::OutcomeText(committed),
              /*over=*/committed.ok());
}

absl::optional<v1::Notice> StateNotice(const std::string& state_dir) {
  const absl::string_view name = storage::VolatileFileSystemName(state_dir);
  if (name.empty()) return absl::nullopt;
  return Make("state", v1::Notice::INFO,
              absl::StrCat("the log in ", state_dir, " is on ", name,
                           " and ends with this container or machine; mount a volume there"));
}

absl::optional<v1::Notice> NodesNotice(const model::Session& session,
                                       const peer::Peering::State& peers) {
  const uint32_t here = session.identity.local_world_size;
  const uint32_t all = session.identity.world_size;
  if (session.settings.strategy != model::LogStrategy::kMain || here == 0 || here >= all) {
    return absl::nullopt;
  }
  const auto severity = peers.error.empty() ? v1::Notice::INFO : v1::Notice::WARNING;
  if (!peers.listens.empty()) {
    return Make("nodes", severity,
                absl::StrCat("statistics are over the ", here,
                             " ranks of this node, and those of the other ", all - here,
                             " whose nodes have the same peer key: see `ranklog status`"));
  }
  const std::string why = peers.error.empty() ? "no peer key (`ranklog peer-key`)" : peers.error;
  return Make(
      "nodes", severity,
      absl::StrCat("statistics are over the ", here, " of ", all, " ranks on this node: ", why));
}

v1::Notice PartNotice(const std::string& home, const std::string& error) {
  constexpr char kKey[] = "nodes";
  if (error.empty()) {
    return Make(kKey, v1::Notice::WARNING,
                absl::StrCat("the rows of this node join those of rank 0 at ", home),
                /*over=*/true);
  }
  return Make(
      kKey, v1::Notice::WARNING,
      absl::StrCat("the rows of this node do not join those of rank 0", home.empty() ? "" : " at ",
                   home, ": ", error, "; they stay in its store, and are sent when they can be"));
}

std::vector<v1::Notice> DeliveryNotices(const deliver::StepResult& step,
                                        const std::vector<model::Delivery>& others) {
  const model::Delivery& delivery = step.delivery;
  std::vector<v1::Notice> notices;
  if (!step.url.empty()) notices.push_back(Make("url", v1::Notice::INFO, step.url));
  if (step.stop) {
    notices.push_back(Make("stop", v1::Notice::INFO, "the run was asked to stop on its web page"));
  }
  if (delivery.last_error.empty()) {
    notices.push_back(Make(delivery.kind, v1::Notice::WARNING,
                           absl::StrCat(delivery.kind, " accepts rows again"), /*over=*/true));
  } else {
    notices.push_back(
        Make(delivery.kind, v1::Notice::WARNING,
             absl::StrCat("rows wait for ", delivery.kind, ": ", delivery.last_error)));
  }
  if (delivery.kind != kLocal) {
    const model::Delivery* slowest = &delivery;
    bool complete = delivery.complete;
    for (const model::Delivery& other : others) {
      if (other.kind == kLocal) continue;
      complete = complete && other.complete;
      if (other.delivered_rows < slowest->delivered_rows) slowest = &other;
    }
    // `delivered_rows` is a cursor that also passes refused and replayed rows.
    const uint64_t replayed = slowest->replayed_rows();
    const uint64_t there = slowest->delivered_rows - slowest->refused_rows - replayed;
    // More rows may come while the run is live, so "83 of 83" would look final.
    const std::string of = step.live ? "" : absl::StrCat(" of ", step.rows - replayed);
    const std::string more = replayed > 0 ? absl::StrCat(", ", replayed, " replayed") : "";
    notices.push_back(Make("delivered", v1::Notice::INFO,
                           absl::StrCat(there, of, " rows delivered", more), complete));
  }
  if (!step.dead_letters.empty()) {
    notices.push_back(
        Make(absl::StrCat(delivery.kind, ".refused"), v1::Notice::WARNING,
             absl::StrCat(delivery.kind, " refused ",
                          delivery.refused_rows > 0 ? absl::StrCat(delivery.refused_rows, " rows")
                                                    : "a part of the run",
                          ", kept as dead letters: ", step.dead_letters.back().answer,
                          "; see `ranklog dead`")));
  }
  return notices;
}

}  // namespace ranklog::daemon
