// `ranklog doctor` reports what is left of a damaged store, and `ranklog recover` saves it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "service/storage/rows/damage.h"
#include "tests/integration/counting_job.h"

namespace ranklog::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr uint64_t kRecoverRows = 20'000;

class RecoverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    node_.Start();
    for (const char* job : {"one", "two"}) {
      CountingJob counting(node_, job, kRecoverRows);
      ASSERT_TRUE(counting.WaitForReturned(kRecoverRows));
      ASSERT_EQ(counting.Finish(), 0);
      ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded(job); }));
    }
    ASSERT_EQ(node_.Terminate(), 0);
  }

  Finished Ranklog(std::vector<std::string> args, const std::string& dir = "") {
    args.insert(args.begin(), RANKLOG_CLI);
    if (!dir.empty()) args.insert(args.end(), {"--state-dir", dir});
    ChildProcess::Options options;
    // Otherwise it looks for a daemon and spools of this machine's user, too.
    options.environment = {{"RANKLOG_ADDRESS", node_.address()},
                           {"RANKLOG_SPOOL_DIR", node_.spool_dir()}};
    return RunToEnd(args, options);
  }

  void Overwrite(uint64_t at, const std::string& bytes) {
    std::fstream file(database(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << bytes;
  }

  // Starts the daemon, which sets the store aside. Returns the new path.
  std::string SetAside() {
    node_.Start();
    const auto aside = storage::SetAsideStores(node_.state_dir());
    EXPECT_THAT(aside, SizeIs(1));
    return aside.empty() ? "" : aside[0];
  }

  // Runs recover, and returns its report. Checks that the saved rows are those that were logged.
  json ExpectRecovered(const std::string& aside) {
    std::ifstream file(aside);
    const std::string before((std::istreambuf_iterator<char>(file)), {});
    const Finished recovered = Ranklog({"recover", aside, "--json"});
    EXPECT_EQ(recovered.code, 0) << recovered.output;
    std::ifstream again(aside);
    EXPECT_EQ(std::string((std::istreambuf_iterator<char>(again)), {}), before) << "was changed";
    const json said = json::parse(recovered.output, nullptr, /*allow_exceptions=*/false);
    if (said.is_discarded()) return json::object();

    uint64_t rows = 0;
    uint64_t wrong = 0;
    for (const json& stream : said["streams"]) {
      const Finished exported = Ranklog({"export", stream["run"], "--raw"}, aside + ".recovered");
      EXPECT_EQ(exported.code, 0) << exported.output;
      std::istringstream lines(exported.output);
      int64_t step_before = -1;
      for (std::string line; std::getline(lines, line); ++rows) {
        const json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (row.is_discarded() || row["values"]["n"] != row["step"] || row["step"] <= step_before)
          ++wrong;
        step_before = row.value("step", int64_t{0});
      }
      const Finished made = Ranklog({"export", stream["run"]}, aside + ".recovered");
      EXPECT_EQ(static_cast<uint64_t>(std::count(made.output.begin(), made.output.end(), '\n')),
                stream["saved_rows"]);
    }
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(rows, said["saved_rows"]);
    ExpectTold(said, aside + ".recovered");
    return said;
  }

  // Checks that the new store reports the same saved and lost rows.
  void ExpectTold(const json& said, const std::string& dir) {
    const Finished listed = Ranklog({"runs", "--json"}, dir);
    const json runs = json::parse(listed.output, nullptr, /*allow_exceptions=*/false);
    uint64_t rows = 0;
    uint64_t lost = 0;
    for (const json& run : runs) {
      EXPECT_EQ(run["state"], "finished");
      for (const json& rank : run["ranks"]) {
        rows += rank["rows"].get<uint64_t>();
        lost += rank["lost"].get<uint64_t>();
      }
    }
    EXPECT_EQ(rows, said["saved_rows"]) << listed.output;
    EXPECT_EQ(lost, said["lost_rows"]) << listed.output;
    for (const json& stream : said["streams"]) {
      const Finished verified = Ranklog({"verify", stream["run"]}, dir);
      EXPECT_EQ(verified.code, stream["lost_rows"] == 0 ? 0 : 1) << verified.output;
      EXPECT_THAT(verified.output, Not(AnyOf(HasSubstr(": missing"), HasSubstr("twice"))));
    }
  }

  std::string database() const { return node_.state_dir() + "/ranklog.db"; }

  Node node_;
};

TEST_F(RecoverTest, DoctorFindsHealthyStoreUndamaged) {
  const Finished doctor = Ranklog({"doctor"}, node_.state_dir());
  EXPECT_EQ(doctor.code, 0) << doctor.output;
  EXPECT_THAT(doctor.output, HasSubstr("2 runs, no damage found"));
}

// The end of the file is gone, with the page that lists the batches. The runs are saved, and every
// row is counted.
TEST_F(RecoverTest, CountsRowsLostToTruncation) {
  fs::resize_file(database(), fs::file_size(database()) * 2 / 3);
  EXPECT_EQ(Ranklog({"doctor"}, node_.state_dir()).code, 1);
  const std::string aside = SetAside();
  const Finished doctor = Ranklog({"doctor", "--json"}, node_.state_dir());
  EXPECT_EQ(doctor.code, 1);
  EXPECT_THAT(doctor.output, HasSubstr("save its readable rows; run: ranklog recover " + aside));
  EXPECT_THAT(Ranklog({"status"}, node_.state_dir()).output, HasSubstr(aside));
  EXPECT_THAT(Ranklog({"recover", node_.state_dir()}).output, HasSubstr("such as " + aside));
  const Finished in_use = Ranklog({"recover", database()});
  EXPECT_EQ(in_use.code, 1);
  EXPECT_THAT(in_use.output, HasSubstr("run: ranklog stop --state-dir " + node_.state_dir()));
  const json said = ExpectRecovered(aside);
  EXPECT_GT(said["lost_rows"], 0);
  EXPECT_EQ(said["saved_rows"].get<uint64_t>() + said["lost_rows"].get<uint64_t>(),
            2 * kRecoverRows);
  const Finished after = Ranklog({"doctor"}, node_.state_dir());
  EXPECT_EQ(after.code, 0) << after.output;
}

// Neither refers to the other one.
TEST_F(RecoverTest, DoctorAgreesOnUnrecoverableStore) {
  fs::resize_file(database(), 3000);
  const Finished doctor = Ranklog({"doctor"}, node_.state_dir());
  EXPECT_THAT(doctor.output,
              AllOf(HasSubstr("no row can be saved"), Not(HasSubstr("ranklog recover"))));
  const Finished recovered = Ranklog({"recover", database()});
  EXPECT_EQ(recovered.code, 1);
  EXPECT_THAT(recovered.output,
              AllOf(HasSubstr("no row can be saved"), Not(HasSubstr("ranklog doctor"))));
  EXPECT_THAT(Ranklog({"recover", "/etc/passwd"}).output, HasSubstr("is not a store of Ranklog"));
}

// The names and the settings of the runs are gone, but not their rows.
TEST_F(RecoverTest, SavesRowsDespiteDamagedSettings) {
  std::ifstream file(database());
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const size_t key = bytes.find("start_time_us");
  ASSERT_NE(key, std::string::npos);
  Overwrite(key, "START");
  const Finished doctor = Ranklog({"doctor"}, node_.state_dir());
  EXPECT_EQ(doctor.code, 1) << doctor.output;
  const json said = ExpectRecovered(database());
  EXPECT_EQ(said["saved_rows"], 2 * kRecoverRows);
  EXPECT_GE(said["damaged_records"], 1);
}

// The newest rows are in the write-ahead log, which is beside the store, as the lock is.
TEST_F(RecoverTest, FindsLogOfLinkedStore) {
  node_.Start();
  CountingJob counting(node_, "three", 10);
  ASSERT_TRUE(counting.WaitForReturned(10));
  ASSERT_EQ(counting.Finish(), 0);
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("three"); }));
  const std::string link = node_.state_dir() + "/../link.db";
  fs::create_symlink(database(), link);
  const Finished in_use = Ranklog({"recover", link});
  EXPECT_EQ(in_use.code, 1);
  EXPECT_THAT(in_use.output, HasSubstr("stop the daemon first"));
  node_.Kill();
  ASSERT_GT(fs::file_size(database() + "-wal"), 0u);

  const Finished recovered = Ranklog({"recover", link, "--json"});
  EXPECT_EQ(recovered.code, 0) << recovered.output;
  const json said = json::parse(recovered.output, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(said.is_object()) << recovered.output;
  EXPECT_EQ(said["saved_rows"], 2 * kRecoverRows + 10);

  const std::string other_name = node_.state_dir() + "/../other.db";
  fs::create_hard_link(database(), other_name);
  for (const std::string& name : {other_name, database(), link}) {
    const Finished refused = Ranklog({"recover", name, "--to", node_.state_dir() + "/../to"});
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.output, HasSubstr(" has 2 names (hard links)"));
  }
}

TEST_F(RecoverTest, OverwritesNoExistingFile) {
  const std::string to = node_.state_dir() + "/../there";
  fs::create_directory(to);
  std::ofstream(to + "/file") << "x";
  const Finished refused = Ranklog({"recover", database(), "--to", to});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output, HasSubstr("already exists"));
  fs::remove(to + "/file");
  // Left by an interrupted recover.
  fs::create_directory(to + ".partial");
  std::ofstream(to + ".partial/ranklog.db") << "a part";
  EXPECT_EQ(Ranklog({"recover", database(), "--to", to + "/"}).code, 0);
  EXPECT_THAT(Ranklog({"runs"}, to).output, HasSubstr("two"));
  EXPECT_FALSE(fs::exists(to + ".partial"));
}

TEST_F(RecoverTest, NamesCommandThatFinishesRename) {
  const std::string to = node_.state_dir() + ".saved";
  std::ofstream(to).close();  // an empty file; no directory can replace it
  const Finished refused = Ranklog({"recover", database(), "--to", to});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output, HasSubstr("run: mv " + to + ".partial " + to));
  fs::remove(to);
  fs::rename(to + ".partial", to);
  EXPECT_THAT(Ranklog({"runs"}, to).output, HasSubstr("two"));
}

// Damages one page at a time, but none of the first pages. Each table begins on one of those, and
// small tables end there. Without the job, the run or the stream, the owner of a batch is unknown.
TEST_F(RecoverTest, SavesBatchesOutsideTheDamagedPage) {
  const std::string kept = node_.state_dir() + ".kept";
  fs::copy_file(database(), kept);
  const uint64_t pages = fs::file_size(kept) / 4096;
  std::mt19937_64 random(1);
  constexpr uint64_t kFirstPages = 32;  // the tables and indexes, with a margin
  bool cost_rows = false;
  bool cost_none = false;
  for (int round = 0; round < 16 && !(cost_rows && cost_none); ++round) {
    const uint64_t page = kFirstPages + random() % (pages - kFirstPages);
    SCOPED_TRACE(absl::StrCat("page ", page, " of ", pages));
    fs::remove_all(node_.state_dir());
    fs::create_directory(node_.state_dir());
    fs::permissions(node_.state_dir(), fs::perms::owner_all);
    fs::copy_file(kept, database());
    Overwrite(page * 4096, std::string(4096, '\x5a'));
    const json said = ExpectRecovered(SetAside());
    node_.Kill();
    // A batch covers many pages, and is lost with any of them: about 20,000 rows.
    EXPECT_EQ(said["saved_rows"].get<uint64_t>() + said["lost_rows"].get<uint64_t>(),
              2 * kRecoverRows);
    (said["lost_rows"] == 0 ? cost_none : cost_rows) = true;
    printf("page %llu of %llu: %s rows saved, %s lost\n", static_cast<unsigned long long>(page),
           static_cast<unsigned long long>(pages), said["saved_rows"].dump().c_str(),
           said["lost_rows"].dump().c_str());
  }
  EXPECT_TRUE(cost_rows) << "no page held a row of a rank";
  EXPECT_TRUE(cost_none) << "a page that held no rows of ranks cost some";
}

}  // namespace
}  // namespace ranklog::testing
