// A run's config as W&B stores it, including the metric definitions.

#ifndef SERVICE_DELIVER_WANDB_DOCUMENTS_CONFIG_DOCUMENT_H_
#define SERVICE_DELIVER_WANDB_DOCUMENTS_CONFIG_DOCUMENT_H_

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "service/aggregate/metric_table.h"
#include "service/deliver/wandb/history/branch_point.h"
#include "service/model/run.h"

namespace ranklog::deliver::wandb {

// The list `_wandb.m`: one object per definition, whose members are named by the field numbers of
// W&B's MetricRecord. A step metric is referred to by its 1-based position in the list. So each
// step metric has an entry, even without a definition of its own.
//
// `expand_globs` replaces each glob by one definition for each matching key of `keys`, for servers
// without support for globs. `nested`: a dot in a name separates the names of nested keys, as W&B reads
// it; otherwise it is a part of the key.
model::Json MetricList(const aggregate::MetricTable& table, bool expand_globs,
                       absl::Span<const std::string> keys, bool nested = false);

// Who writes the run, and where: the entry of this store in `_wandb.e`; and where it began.
struct Writer {
  std::string id;                  // 32 characters
  model::Json metadata = nullptr;  // an object; null: not known, or not wanted
  absl::optional<BranchPoint> began_at = absl::nullopt;
  std::string code{};  // the artifact with the code of the run
};

// The document for UpsertBucket: every member of `config` wrapped as {"value": ...}, and the
// `_wandb` member. Without that member, a server treats the run as one that never started.
model::Json ConfigDocument(const model::Json& config, const model::Json& metric_list,
                           const Writer& writer = {});

// `ours` with what other programs and people have made of the config at the server, `server` (as
// ParseServerJson() gives it): a value that was set there after we had sent it stays so, unless a
// rank has set it again since. A key that was removed there comes back. `sent` is of AddDigests(). Of `_wandb`, the charts and the other writers are kept.
model::Json MergeConfig(model::Json ours, const nlohmann::json& server,
                        const std::map<std::string, std::string>& sent);

// Notes that the values of the document, without `_wandb`, were sent: the digest of each, and before
// it up to seven of the values that were sent before. Empty for more than 1000 keys, of which the
// newest document then counts as a whole. Not `accepted`: not yet, or never; so it counts as an
// earlier one.
void AddDigests(const model::Json& document, bool accepted,
                std::map<std::string, std::string>* sent);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_DOCUMENTS_CONFIG_DOCUMENT_H_
