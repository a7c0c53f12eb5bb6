#include "tests/simulation/rank.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/content/content_files.h"
#include "client/ring/ring.h"
#include "ranklog/v1/spool_layout.h"
#include "tests/simulation/number.h"
#include "tests/simulation/staged_upload.h"

namespace ranklog::simulation {
namespace {

constexpr size_t kMaxParts = 3;  // rows of one ring at one step

internal::StreamProtocol::Time ClientTime(absl::Time time) {
  return internal::StreamProtocol::Time(absl::ToChronoNanoseconds(time - absl::UnixEpoch()));
}

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

// Returns a number that is often equal on two ranks, so that the rank of the maximum is ambiguous.
// Sometimes it is NaN, infinite, or as large as a number can be.
double SharedNumber(World& world) {
  if (world.Chance(0.02)) return std::numeric_limits<double>::quiet_NaN();
  if (world.Chance(0.02))
    return std::numeric_limits<double>::infinity() * (world.Chance(0.5) ? 1 : -1);
  const double number = static_cast<double>(static_cast<int64_t>(world.Below(201)) - 100);
  if (std::abs(number) == 100) return std::copysign(std::numeric_limits<double>::max(), number);
  return number / 7;
}

}  // namespace

struct Rank::Sender {
  explicit Sender(std::unique_ptr<internal::Spool> spool)
      : ring(std::move(spool)), protocol(&ring), live(&ring) {}

  bool done() const { return ring.finish_durable.load(); }

  internal::Ring ring;
  internal::StreamProtocol protocol;
  // Instead of the protocol, for the ring of a forked child.
  bool of_child = false;
  internal::LiveRing live;
  uint64_t passed_to = 0;  // the daemon's life that got the ring
  RingRecord* record = nullptr;
  uint32_t word = 0;
  std::shared_ptr<Link> link;
  uint64_t connection = 0;  // counts connections; answers of an older one are ignored
  absl::Time next_attempt = absl::InfinitePast();
  absl::Duration back_off = absl::Milliseconds(50);
  bool writing = false;
  bool finishing = false;
  int64_t last_step = -1;
  int64_t least_step = 0;  // of its next row
  size_t parts = 0;        // rows at last_step
};

Rank::Rank(World* world, Oracle* oracle, const Daemon* daemon, RankOptions options)
    : world_(*world),
      oracle_(*oracle),
      daemon_(*daemon),
      options_(std::move(options)),
      steps_(internal::SharedSteps::Create()) {
  for (uint32_t i = 0; i < options_.rings + options_.children; ++i) AddRing(i, i >= options_.rings);
  if (options_.explicit_steps) steps_->Take(senders_[0]->word, options_.first_step);
}

Rank::~Rank() {
  for (const auto& sender : senders_) {
    if (sender->link) sender->link->LetGo();
    ++sender->connection;
    sender->record->ended = world_.age();
  }
}

v1::Hello Rank::MakeHello(uint32_t thread, uint64_t incarnation, bool of_child) const {
  v1::Hello hello;
  hello.mutable_stream()->set_project("sim");
  hello.mutable_stream()->set_job_id("job");
  hello.mutable_stream()->set_rank(options_.rank);
  hello.mutable_stream()->set_incarnation(incarnation);
  hello.mutable_settings()->set_strategy(options_.strategy);
  hello.mutable_settings()->set_name("job");
  hello.mutable_settings()->set_start_time_us(options_.init_us);
  v1::Destination* const destination = hello.mutable_settings()->add_destinations();
  destination->set_kind("wandb");
  destination->set_chosen(true);
  for (const std::string& name : options_.rank_statistics) {
    hello.mutable_settings()->add_rank_statistics(name);
  }
  for (const std::string& rule : options_.rank_statistic_rules) {
    hello.mutable_settings()->add_rank_statistic_rules(rule);
  }
  v1::Identity* const identity = hello.mutable_identity();
  identity->set_local_rank(options_.counted ? options_.local_rank : 0);
  identity->set_world_size(options_.ranks);
  identity->set_local_world_size(options_.counted ? options_.ranks_of_node : 0);
  identity->set_node(absl::StrCat("node", options_.node));
  identity->set_node_rank(options_.node);
  identity->set_pid(options_.pid + (of_child ? 10'000 * thread : 0));
  hello.mutable_ring()->set_read_live(of_child);
  identity->set_thread(thread);
  identity->set_began_us(options_.began_us);
  identity->set_boot_id(options_.boot_id.empty() ? BootId() : options_.boot_id);
  hello.mutable_launch()->set_id(absl::StrCat(options_.launcher, "start ", options_.start));
  hello.mutable_launch()->set_id_given(true);
  hello.mutable_launch()->set_whole_node(true);
  hello.mutable_launch()->set_restarts_ranks(true);
  hello.mutable_launch()->set_process(
      absl::StrCat(options_.node, ".", options_.rank, ".", options_.process, "@0"));
  if (options_.must_continue) hello.mutable_settings()->set_resume("allow");
  return hello;
}

void Rank::AddRing(uint32_t thread, bool of_child) {
  const uint64_t incarnation = world_.Bits() | 1;
  auto spool = internal::Spool::Create({options_.spool_dir, v1::kMinRingBytes},
                                       MakeHello(thread, incarnation, of_child));
  if (!spool.ok()) std::abort();
  auto sender = std::make_shared<Sender>(*std::move(spool));
  Calibrate(*sender);
  sender->of_child = of_child;
  if (of_child) sender->ring.spool->header()->finished.store(v1::kFinishedByCall);
  sender->ring.spool->Publish();
  sender->record = oracle_.AddRing(options_.rank, thread, incarnation);
  sender->record->node = options_.node;
  sender->record->process = options_.process;
  sender->record->start = options_.must_continue ? 0 : options_.start;
  sender->record->rings = options_.rings + options_.children;
  sender->record->finished = of_child;  // its end means nothing for the run
  sender->record->counts = !options_.explicit_steps && (options_.process > 1 || options_.resumed);
  sender->word = steps_->AddRing();
  senders_.push_back(std::move(sender));
}

// The processor's counter is not deterministic, so no time passes by it here. Rows get the wall
// clock's time of the last tick.
void Rank::Calibrate(Sender& sender) {
  v1::SpoolHeader* const header = sender.ring.spool->header();
  for (v1::ClockCalibration& calibration : header->calibrations) {
    calibration.base_unix_us.store(absl::ToUnixMicros(options_.wall_clock->now()));
    calibration.us_per_tick.store(0);
  }
}

LoggedRow Rank::MakeRow(Sender& sender, int64_t step) {
  sender.parts = step == sender.last_step ? sender.parts + 1 : 0;
  sender.last_step = step;
  LoggedRow row;
  row.step = step;
  const std::string id = sender.record->Key(sender.parts);
  const std::string prefix = id.substr(0, id.size() - 2);
  row.numbers.emplace_back(id, static_cast<double>(sender.record->rows.size() + 1));
  const uint64_t width = world_.Below(4);
  for (uint64_t i = 0; i < width; ++i) {
    row.numbers.emplace_back(absl::StrCat(prefix, "v", i), AnyNumber(world_));
  }
  if (sender.record->thread == 0 && sender.parts == 0) {
    row.numbers.emplace_back("loss", static_cast<double>(world_.Below(1000)) / 8);
  }
  if (world_.Chance(0.5)) {
    const double number = SharedNumber(world_);
    row.numbers.emplace_back(kShared, step < options_.equal_until ? 1 : number);
  }
  if (world_.Chance(0.2)) row.texts.emplace_back(prefix + "s", AnyText(world_));
  if (options_.poison && world_.Chance(0.02)) row.texts.emplace_back(prefix + "t", "poison");
  return row;
}

void Rank::Log() {
  if (finished_) return;
  Sender& sender = *senders_[world_.Below(senders_.size())];
  int64_t step = 0;
  bool commits = false;
  bool counted = false;
  // A process that gives steps gives one with its first row.
  if (!options_.explicit_steps || (world_.Chance(0.05) && gave_step_)) {
    step = steps_->TakeOpen();
    commits = true;
    counted = !steps_->any_given();
  } else {
    // Sometimes a thread continues from its own last step, behind the others.
    const bool behind = senders_.size() > 1 && world_.Chance(0.2);
    step = behind ? std::max(sender.least_step, options_.first_step) : steps_->open();
    const bool crowded = step == sender.last_step && sender.parts + 1 >= kMaxParts;
    if (crowded || world_.Chance(0.7)) step += static_cast<int64_t>(world_.Between(1, 3));
    steps_->Take(sender.word, step);
    gave_step_ = true;
  }
  sender.least_step = step + (commits ? 1 : 0);
  const LoggedRow row = MakeRow(sender, step);
  std::vector<Metric> metrics;
  for (const auto& [key, number] : row.numbers) metrics.emplace_back(key, number);
  for (const auto& [key, text] : row.texts) metrics.emplace_back(key, text);
  const internal::WriteResult outcome =
      sender.ring.writer.Write(metrics, internal::RowStep::Taken(step, commits, counted));
  if (outcome == internal::WriteResult::kTaken) {
    sender.record->rows.push_back(row);
  } else {
    sender.ring.writer.CountLoss(outcome);
    ++sender.record->refused;
  }
}

// Sets the next value of its key in the config or the summary, or defines the summary of "loss".
void Rank::Configure(bool last) {
  if (finished_) return;
  Sender& sender = *senders_[world_.Below(senders_.size())];
  RingRecord& record = *sender.record;
  v1::Item item;
  LoggedItem logged;
  uint64_t kind = world_.Between(options_.defines_last ? 1 : 0, 9);
  if (options_.defines_last && last) kind = 0;
  if (kind == 0) {
    v1::MetricDefinition* const metric = item.mutable_metric();
    metric->set_name("loss");
    for (const char* figure : {"min", "max", "mean", "first", "last"}) metric->add_summary(figure);
    logged.value = 1;
  } else {
    const bool config = kind <= 6;
    logged.value = static_cast<int64_t>(record.items.size()) + 1;
    logged.key = config ? record.ConfigKey(logged.value) : record.SummaryKey(logged.value);
    v1::Field* const field =
        (config ? item.mutable_config() : item.mutable_summary())->add_fields();
    field->set_key(logged.key);
    field->mutable_value()->set_integer(logged.value);
  }
  const v1::ContentPlace place = Place();
  if (!place.dir().empty() && world_.Chance(0.2)) {
    auto file = internal::WriteContentFile(place, item.SerializeAsString());
    if (!file.ok()) std::abort();
    item.Clear();
    *item.mutable_file() = *std::move(file);
  }
  WriteItem(sender, item, std::move(logged));
}

v1::ContentPlace Rank::Place() const {
  v1::ContentPlace place;
  struct stat dir {};
  if (stat(options_.content_dir.c_str(), &dir) != 0) return place;
  place.set_dir(options_.content_dir);
  place.set_device(dir.st_dev);
  place.set_inode(dir.st_ino);
  place.set_quota(1 << 30);
  return place;
}

void Rank::WriteItem(Sender& sender, const v1::Item& item, LoggedItem logged) {
  RingRecord& record = *sender.record;
  if (sender.ring.writer.WriteItem(item.SerializeAsString()) == internal::WriteResult::kTaken) {
    record.items.push_back(std::move(logged));
  } else {
    sender.ring.spool->header()->lost_items.fetch_add(1);
    ++record.refused_items;
  }
}

void Rank::Upload() {
  const v1::ContentPlace place = Place();
  if (finished_ || place.dir().empty()) return;
  Sender& sender = *senders_[world_.Below(senders_.size())];
  StagedUpload staged = StageUpload(&world_, place, options_.wall_clock->now(), *sender.record);
  if (world_.Chance(0.05)) return;  // the process dies before it writes the item
  WriteItem(sender, staged.item,
            {kUploadKey, 1, std::make_shared<const LoggedUpload>(std::move(staged.logged))});
}

void Rank::Finish(int exit_code) {
  if (finished_) return;
  finished_ = true;
  for (const auto& sender : senders_) {
    v1::SpoolHeader* const header = sender->ring.spool->header();
    sender->ring.closing.store(true);
    if (sender->of_child) continue;  // it calls exit()
    header->exit_code.store(exit_code);
    header->finished.store(1);
    sender->record->finished = true;
    sender->record->exit_code = exit_code;
  }
}

bool Rank::done() const {
  return std::all_of(senders_.begin(), senders_.end(),
                     [](const auto& sender) { return sender->done(); });
}

std::vector<std::string> Rank::Paths() const {
  std::vector<std::string> paths;
  for (const auto& sender : senders_) {
    const std::string& path = sender->ring.spool->path();
    if (!path.empty()) paths.push_back(path);
  }
  return paths;
}

bool Rank::Owns(uint64_t incarnation) const {
  return std::any_of(senders_.begin(), senders_.end(), [&](const auto& sender) {
    return sender->record->incarnation == incarnation && !sender->done();
  });
}

std::string Rank::EndChild(bool exited) {
  const auto child = std::find_if(senders_.begin(), senders_.end(), [&](const auto& sender) {
    return sender->of_child && sender->done() == exited;
  });
  if (child == senders_.end()) return "";
  (*child)->record->ended = world_.age();
  std::string path = (*child)->ring.spool->path();
  senders_.erase(child);
  return path;
}

// What ForkedRings does for a ring.
void Rank::TickChild(Sender& sender) {
  if (sender.passed_to != daemon_.life()) sender.passed_to = 0;
  if (sender.passed_to == 0 && world_.now() >= sender.next_attempt) {
    sender.passed_to = daemon_.pass(sender.ring.spool->path());
    sender.next_attempt = world_.now() + world_.Delay(50, 5000);
  }
  sender.live.Advance(ClientTime(world_.now()), steps_->open());
  RingRecord& record = *sender.record;
  record.acknowledged = std::max(record.acknowledged, sender.ring.durable_rows.load());
  record.acknowledged_items = std::max(record.acknowledged_items, sender.ring.durable_items.load());
  if (record.acknowledged > 0) record.known = std::min(record.known, world_.age());
}

void Rank::Tick() {
  for (const auto& sender : senders_) {
    if (sender->done()) continue;
    Calibrate(*sender);
    if (sender->of_child) {
      TickChild(*sender);
      continue;
    }
    if (sender->link == nullptr && world_.now() >= sender->next_attempt) Connect(*sender);
    if (sender->link != nullptr) Pump(*sender);
  }
}

void Rank::Connect(Sender& sender) {
  const uint64_t connection = ++sender.connection;
  // The sender lives as long as the callbacks, since ~Rank() lets go of the link.
  Sender* const raw = &sender;
  auto link = std::make_shared<Link>(
      &world_, Link::Client{.on_message =
                                [this, raw](const v1::ServerMessage& message) {
                                  raw->protocol.OnMessage(message);
                                  if (message.has_hello()) {
                                    raw->back_off = absl::Milliseconds(50);
                                    raw->record->known = std::min(raw->record->known, world_.age());
                                  }
                                  Pump(*raw);
                                },
                            .on_end =
                                [this, raw, connection](const absl::Status& status) {
                                  if (raw->connection == connection) Lost(*raw, status);
                                }});
  if (!daemon_.connect(link, sender.record)) {
    sender.next_attempt = world_.now() + sender.back_off;
    sender.back_off = std::min(2 * sender.back_off, absl::Seconds(5));
    return;
  }
  world_.Note("rank ", options_.rank, " ring ", sender.record->thread, " connects");
  sender.link = std::move(link);
  sender.protocol.Begin();
  v1::ClientMessage hello;
  *hello.mutable_hello() = sender.protocol.Hello();
  sender.link->Send(hello);
}

void Rank::Lost(Sender& sender, const absl::Status& status) {
  world_.Note("rank ", options_.rank, " ring ", sender.record->thread,
              " lost: ", absl::StatusCodeToString(status.code()));
  sender.protocol.End();
  sender.link.reset();
  ++sender.connection;
  sender.finishing = false;
  const bool refused = !absl::IsUnavailable(status) && !absl::IsCancelled(status);
  sender.next_attempt = world_.now() + (refused ? absl::Seconds(5) : sender.back_off);
  sender.back_off = std::min(2 * sender.back_off, absl::Seconds(5));
}

void Rank::Pump(Sender& sender) {
  if (!sender.protocol.attached()) return;
  const auto now = ClientTime(world_.now());
  v1::ClientMessage message;
  while (sender.link && sender.link->writable() &&
         sender.protocol.Next(now, world_.Chance(0.1), steps_->open(), &message)) {
    sender.link->Send(message);
    if (world_.Chance(0.3)) break;
  }
  const std::shared_ptr<Sender> kept = *std::find_if(
      senders_.begin(), senders_.end(), [&](const auto& one) { return one.get() == &sender; });
  // Ignores answers of an older connection.
  const auto heard = [kept, connection = sender.connection] {
    return kept->connection == connection;
  };
  v1::FinishRequest finish;
  if (!sender.finishing && sender.protocol.NextFinish(now, &finish)) {
    sender.finishing = true;
    daemon_.finish(finish, sender.record, [this, kept, heard](absl::StatusCode answer) {
      if (!heard()) return;
      kept->finishing = false;
      kept->protocol.OnFinish(ClientTime(world_.now()), answer);
    });
  }
}

}  // namespace ranklog::simulation
