// Settings from the environment, their mistakes, and their resolved values. For the ranks, see
// rank_settings_test.cc.

#include "ranklog/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/launch/resolve.h"
#include "client/settings/destination_variables.h"
#include "client/settings/environment.h"
#include "client/settings/rank_statistics.h"
#include "client/settings/socket_address.h"
#include "client/settings/validate.h"
#include "tests/client/settings_fixture.h"
#include "tests/support/temp_dir.h"

namespace ranklog {
namespace {

using ::ranklog::testing::SettingsTest;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::EndsWith;
using ::testing::Field;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST_F(SettingsTest, EmptyEnvironmentMeansSingleRank) {
  const Settings settings = internal::Resolve(From({}));
  EXPECT_THAT(settings.Validate(), IsEmpty());
  EXPECT_EQ(*settings.rank, 0);
  EXPECT_EQ(*settings.world_size, 1);
  EXPECT_EQ(*settings.local_rank, 0);
  EXPECT_EQ(*settings.node_rank, 0);
  EXPECT_EQ(settings.project, "uncategorized");
  EXPECT_THAT(settings.run_id, MatchesRegex("[a-z0-9]{8}"));
  EXPECT_EQ(settings.group, settings.run_id);
  EXPECT_NE(settings.run_id, internal::Resolve(From({})).run_id);
}

TEST_F(SettingsTest, ErrorMasksKeyInWrongVariable) {
  const std::string key(40, 'k');
  const Settings settings = From({{"WANDB_API_KEY", key}, {"WANDB_MODE", key + "x"}});
  EXPECT_THAT(
      settings.Validate(),
      ElementsAre(HasSubstr("WANDB_MODE=[WANDB_API_KEY]x is unknown; use online, offline ")));
}

TEST_F(SettingsTest, RanklogVariablesOverrideWandb) {  // S8
  const Settings settings = From({{"RANKLOG_PROJECT", "ours"},
                                  {"WANDB_PROJECT", "theirs"},
                                  {"WANDB_ENTITY", "team"},
                                  {"WANDB_TAGS", " a, b,,c "},
                                  {"WANDB_RUN_ID", "abc"},
                                  {"WANDB_API_KEY", "secret"},
                                  {"RANKLOG_LOG_STRATEGY", "node"},
                                  {"RANKLOG_SPOOL_BYTES", "65536"},
                                  {"RANKLOG_FLUSH_INTERVAL_MS", "1000"},
                                  {"RANKLOG_START_DAEMON", "no"}});
  EXPECT_EQ(settings.project, "ours");
  EXPECT_EQ(settings.entity, "team");
  EXPECT_THAT(settings.tags, ElementsAre("a", "b", "c"));
  EXPECT_EQ(settings.run_id, "abc");
  EXPECT_EQ(settings.credentials.at("WANDB_API_KEY"), "secret");
  EXPECT_EQ(settings.log_strategy, LogStrategy::kNode);
  EXPECT_EQ(settings.spool_bytes, 65536u);
  EXPECT_EQ(settings.flush_interval.count(), 1000);
  EXPECT_FALSE(settings.start_daemon);
  EXPECT_THAT(settings.Validate(), IsEmpty());
}

TEST_F(SettingsTest, WandbModeSelectsDestination) {
  EXPECT_THAT(From({{"WANDB_MODE", "offline"}}).destinations, ElementsAre("offline"));
  EXPECT_TRUE(From({{"WANDB_MODE", "disabled"}}).disabled);
  EXPECT_THAT(From({{"WANDB_MODE", "online"}}).destinations, IsEmpty());
  EXPECT_THAT(From({{"WANDB_MODE", "offline"}, {"RANKLOG_DESTINATIONS", "wandb"}}).destinations,
              ElementsAre("wandb"));
  const Settings wrong = From({{"WANDB_MODE", "sometimes"}});
  EXPECT_THAT(wrong.Validate(), ElementsAre(HasSubstr("the rows stay on this node")));
  EXPECT_THAT(wrong.destinations, ElementsAre("local"));
  EXPECT_THAT(From({{"WANDB_MODE", "sometimes"}, {"RANKLOG_DESTINATIONS", "wandb"}}).Validate(),
              ElementsAre(Not(HasSubstr("this node"))));
}

TEST_F(SettingsTest, OfflineRunsGoToWandbDir) {
  const auto dir = [this](std::map<std::string, std::string> variables) {
    variables["WANDB_MODE"] = "offline";
    return From(variables).destination_settings["offline"]["dir"];
  };
  const std::string here = std::filesystem::current_path();
  EXPECT_EQ(dir({}), here);
  EXPECT_EQ(dir({{"WANDB_DIR", "sub"}}), here + "/sub");
  EXPECT_EQ(dir({{"WANDB_DIR", "/a@b/c"}}), "/a@b/c");
  Settings settings = From({{"WANDB_DIR", "/dir"}});
  EXPECT_EQ(settings.destination_settings.count("offline"), 0u);
  settings.destinations = {"offline"};
  EXPECT_EQ(internal::Resolve(settings).destination_settings["offline"]["dir"], "/dir");
}

std::vector<std::string> Destinations(const Settings& settings) {
  const v1::Hello hello = internal::MakeHello(internal::Resolve(settings));
  std::vector<std::string> chosen;
  for (const v1::Destination& one : hello.settings().destinations()) {
    if (one.chosen()) chosen.push_back(one.kind());
  }
  return chosen;
}

// A Kubernetes secret ends with a newline. The server decides whether a key is valid.
// WANDB_DISABLED is a variable of the transformers library.
TEST_F(SettingsTest, WandbDisabledTurnsLoggingOff) {
  for (const char* yes : {"true", "TRUE", "1", "on", "yes"}) {
    const Settings settings = From({{"WANDB_DISABLED", yes}, {"WANDB_MODE", "online"}});
    EXPECT_TRUE(settings.disabled) << yes;
    EXPECT_THAT(settings.Validate(), IsEmpty()) << yes;
  }
  EXPECT_FALSE(From({{"WANDB_DISABLED", "false"}}).disabled);
  EXPECT_TRUE(From({{"WANDB_DISABLED", "false"}, {"WANDB_MODE", "disabled"}}).disabled);
  const Settings wrong = From({{"WANDB_DISABLED", "maybe"}});
  EXPECT_FALSE(wrong.disabled);
  EXPECT_THAT(wrong.Validate(), ElementsAre("WANDB_DISABLED=maybe is unknown; use 1 or 0; it "
                                            "counts as unset (0)"));
}

TEST_F(SettingsTest, ResumeFlagMeansAuto) {
  for (const char* name : {"WANDB_RESUME", "RANKLOG_RESUME"}) {
    for (const char* yes : {"true", "True", "1"}) EXPECT_EQ(From({{name, yes}}).resume, "auto");
    for (const char* no : {"false", "False", "0"}) EXPECT_EQ(From({{name, no}}).resume, "");
    EXPECT_EQ(From({{name, "must"}}).resume, "must");
  }
}

TEST_F(SettingsTest, WandbSpellingsAreKnown) {
  for (const char* mode : {"online", "offline", "shared", "disabled", "dryrun", "run"}) {
    EXPECT_THAT(From({{"WANDB_MODE", mode}}).Validate(), IsEmpty()) << mode;
  }
  EXPECT_TRUE(From({{"WANDB_SILENT", "true"}}).quiet);
  EXPECT_FALSE(From({{"WANDB_SILENT", "true"}, {"RANKLOG_QUIET", "0"}}).quiet);
}

TEST_F(SettingsTest, WandbSwitchesFactsOff) {
  const auto facts = [this](const std::map<std::string, std::string>& variables) {
    const Settings settings = From(variables);
    return std::make_pair(settings.metadata, settings.system_metrics);
  };
  EXPECT_EQ(facts({}), std::make_pair(true, true));
  for (const std::string prefix : {"WANDB__DISABLE_", "WANDB_X_DISABLE_"}) {
    EXPECT_EQ(facts({{prefix + "META", "true"}}), std::make_pair(false, true));
    EXPECT_EQ(facts({{prefix + "STATS", "1"}}), std::make_pair(true, false));
    EXPECT_EQ(facts({{prefix + "MACHINE_INFO", "yes"}}), std::make_pair(false, false));
    EXPECT_EQ(facts({{prefix + "META", "false"}}), std::make_pair(true, true));
    EXPECT_EQ(facts({{prefix + "META", "1"}, {"RANKLOG_METADATA", "1"}}),
              std::make_pair(true, true));
  }
  EXPECT_EQ(facts({{"RANKLOG_METADATA", "0"}, {"RANKLOG_SYSTEM_METRICS", "off"}}),
            std::make_pair(false, false));
}

TEST_F(SettingsTest, RunIdForAnExperimentIsStable) {
  const std::string id = Settings::RunIdFor("/checkpoints", "gpt");
  EXPECT_EQ(id, "f0a3b38b5baf5beabb7eb48c815ad6fe1838ee54");
  EXPECT_TRUE(internal::IsRunId(id));
  EXPECT_EQ(Settings::RunIdFor("", "").size(), 40u);
  char cut[5];
  EXPECT_EQ(ranklog_run_id_for("/checkpoints", 12, "gpt", 3, cut, sizeof cut), 40u);
  EXPECT_EQ(std::string(cut), id.substr(0, 4));
  EXPECT_EQ(ranklog_run_id_for(nullptr, 0, nullptr, 0, nullptr, 0), 40u);
}

TEST_F(SettingsTest, UnknownWordOfNamePatternIsReported) {
  Settings settings = From({{"RANKLOG_RUN_NAME_PATTERN", "{name}-{rank}-{local_rank}-{node}"}});
  EXPECT_THAT(settings.Validate(), IsEmpty());
  EXPECT_EQ(internal::Repair(settings).run_name_pattern, settings.run_name_pattern);
  settings.run_name_pattern = "{rank}-{gpu}";
  EXPECT_THAT(settings.Validate(),
              ElementsAre("run_name_pattern has the unknown word {gpu}; use {rank}, {local_rank}, "
                          "{node_rank}, {node}, {id} or {name}; Init() uses rank-{rank}"));
  EXPECT_EQ(internal::Repair(settings).run_name_pattern, "");
  settings.run_name_pattern = "a{rank}b{rank";
  EXPECT_EQ(internal::Repair(settings).run_name_pattern, "") << "the brace is not closed";
}

TEST_F(SettingsTest, KeysAreTrimmedBeforeUse) {
  const Settings settings = From({{"WANDB_API_KEY", " short\n"}, {"WANDB_PROJECT", "gpt "}});
  EXPECT_THAT(settings.Validate(), IsEmpty());
  EXPECT_EQ(settings.credentials.at("WANDB_API_KEY"), "short");
  EXPECT_EQ(settings.project, "gpt");
  EXPECT_THAT(Destinations(settings), ElementsAre("wandb"));
  EXPECT_THAT(Destinations(From({{"WANDB_API_KEY", " \n"}})), IsEmpty());
  EXPECT_THAT(Destinations(From({{"WANDB_ENCRYPTION_KEY", "k"}})), IsEmpty());
  Settings set;  // set by the program
  set.credentials["WANDB_API_KEY"] = "read from a file\n";
  set.destination_settings["wandb"]["base_url"] = "https://host\n";
  EXPECT_THAT(set.Validate(), IsEmpty());
  const Settings resolved = internal::Resolve(internal::Repair(set));
  EXPECT_EQ(resolved.credentials.at("WANDB_API_KEY"), "read from a file");
  EXPECT_EQ(resolved.destination_settings.at("wandb").at("base_url"), "https://host");
  EXPECT_THAT(Destinations(set), ElementsAre("wandb"));
}

// The daemon knows which of them are settings.
TEST_F(SettingsTest, VariablesOfDestinationsAreSent) {
  const std::map<std::string, std::string> variables = {{"WANDB_BASE_URL", "localhost:8080"},
                                                        {"WANDB_API_KEY", "k"},
                                                        {"WANDB_USERNAME", "me"},
                                                        {"WANDB_PROJECT", "read elsewhere"},
                                                        {"PIGEON_COOP_URL", "north"},
                                                        {"PIGEON_CERT_PATH", "/ca.pem"},
                                                        {"PIGEON_FLIGHT_INTERVAL", "30s"},
                                                        {"WANDB_X_EXTRA_HTTP_HEADERS", "secret"},
                                                        {"PIGEON_TOKEN", "t"}};
  const std::map<std::string, std::string> wandb = {{"WANDB_BASE_URL", "localhost:8080"}};
  Settings settings = From(variables);
  EXPECT_THAT(settings.Validate(), IsEmpty());
  EXPECT_THAT(settings.destination_settings, ElementsAre(Pair("wandb", wandb)));
  EXPECT_THAT(settings.credentials,
              ElementsAre(Pair("WANDB_API_KEY", "k"), Pair("WANDB_USERNAME", "me")));
  EXPECT_THAT(Destinations(settings), ElementsAre("wandb"));

  std::map<std::string, std::string> with_list = variables;
  with_list["RANKLOG_DESTINATIONS"] = "pigeon";
  settings = From(with_list);
  const std::map<std::string, std::string> pigeon = {{"PIGEON_COOP_URL", "north"},
                                                     {"PIGEON_CERT_PATH", "/ca.pem"},
                                                     {"PIGEON_FLIGHT_INTERVAL", "30s"}};
  EXPECT_THAT(settings.destination_settings,
              ElementsAre(Pair("pigeon", pigeon), Pair("wandb", wandb)));
  EXPECT_EQ(settings.credentials.at("PIGEON_TOKEN"), "t");
  EXPECT_THAT(Destinations(settings), ElementsAre("pigeon"));
}

// The spool and the store keep settings.
TEST_F(SettingsTest, SecretSettingIsCredential) {
  Settings settings;
  settings.destination_settings["pigeon"] = {{"api_key", "secret"}, {"coop", "north"}};
  settings = internal::Resolve(internal::Repair(settings));
  EXPECT_THAT(settings.destination_settings.at("pigeon"), ElementsAre(Pair("coop", "north")));
  EXPECT_EQ(settings.credentials.at("PIGEON_API_KEY"), "secret");
}

// The daemon that a rank starts must not inherit them, whether or not the program reads them.
TEST_F(SettingsTest, SecretVariablesAreKnownByName) {
  for (const char* name : {"WANDB_API_KEY", "WANDB_USERNAME", "WANDB_TOKEN"}) {
    EXPECT_TRUE(internal::IsSecretOf("wandb", name)) << name;
  }
  for (const char* name : {"WANDB_BASE_URL", "MLFLOW_API_KEY", "API_KEY"}) {
    EXPECT_FALSE(internal::IsSecretOf("wandb", name)) << name;
  }
}

// Otherwise the run would go to the public server.
TEST_F(SettingsTest, UrlIsKeptBeforeOtherSettings) {
  std::map<std::string, std::string> variables = {{"WANDB_BASE_URL", "http://own\xff"}};
  for (int i = 0; i < 9; ++i) {
    variables["WANDB_A" + std::to_string(i) + "_URL"] = std::string(1000, 'x');
  }
  Settings settings = From(variables);
  EXPECT_THAT(settings.Validate(), Contains(HasSubstr("WANDB_BASE_URL of wandb is not UTF-8")));
  EXPECT_EQ(internal::Repair(settings).destination_settings.at("wandb").at("WANDB_BASE_URL"),
            "http://own?");
  settings.destination_settings["wandb"]["base_url"] = "http://of the program";
  EXPECT_EQ(internal::Repair(settings).destination_settings.at("wandb").at("base_url"),
            "http://of the program");
}

TEST_F(SettingsTest, DestinationSettingsHaveLimits) {
  Settings settings;
  settings.destination_settings["pigeon"]["coop"] = std::string(1025, 'x');
  settings.destination_settings["pigeon"]["q\xff"] = "x";
  settings.destination_settings["wa\xff"]["coop"] = "x";
  EXPECT_THAT(settings.Validate(),
              ElementsAre("the setting coop of pigeon is longer than 1024 bytes; Init() cuts it",
                          "the name of a setting of pigeon is not UTF-8; Init() leaves it out",
                          HasSubstr("is no destination's")));
  EXPECT_EQ(internal::MakeHello(internal::Resolve(internal::Repair(settings)))
                .settings()
                .destinations_size(),
            1);
  EXPECT_EQ(internal::Repair(settings).destination_settings.at("pigeon").at("coop").size(), 1024u);
  for (int i = 0; i < 20; ++i) {
    settings.destination_settings["pigeon"][std::to_string(i)] = std::string(1000, 'x');
  }
  EXPECT_THAT(settings.Validate(), Contains(HasSubstr("more than 8192 bytes")));
  EXPECT_THAT(internal::Repair(settings).Validate(), IsEmpty());
  settings = Settings();
  for (int i = 0; i < 20; ++i) settings.destinations.push_back("d" + std::to_string(i));
  EXPECT_THAT(settings.Validate(), ElementsAre("there are 20 destinations; Init() uses the first "
                                               "16"));
  EXPECT_THAT(internal::Repair(settings).destinations, SizeIs(16));
}

// Otherwise the password would be stored and printed.
TEST_F(SettingsTest, UserInUrlIsCredential) {
  const std::map<std::string, std::string> kLeft = {
      {"https://user:secret@host:8080/path", "https://host:8080/path"},
      {"https://secret@host", "https://host"},
      {"https://a@b:secret@host", "https://host"},
      {"user:secret@host", "host"},
      // not a usable address, so no server receives a key there
      {"https://user:sec/ret@host", "https://@host"},
      {"https://host/secret@other", "https://@other"},
  };
  for (const auto& [given, left] : kLeft) {
    Settings settings;
    settings.destination_settings["wandb"]["base_url"] = given;
    EXPECT_THAT(settings.Validate(), Each(Not(HasSubstr("ret")))) << given;
    settings = internal::Resolve(internal::Repair(settings));
    EXPECT_EQ(settings.destination_settings.at("wandb").at("base_url"), left) << given;
    EXPECT_EQ(settings.credentials.at("WANDB_BASE_URL"), given);
  }
}

TEST_F(SettingsTest, RunIdsMayHaveDots) {
  EXPECT_THAT(From({{"WANDB_RUN_ID", "llama-3.1-8b-lora"}}).Validate(), IsEmpty());
  for (const char* id : {".", "..", "a/b", "a b"}) {
    EXPECT_THAT(From({{"WANDB_RUN_ID", id}}).Validate(), SizeIs(1)) << id;
  }
}

TEST_F(SettingsTest, FinishVariableSetsDeliveryTimeout) {
  using std::chrono::milliseconds;
  const auto timeout = [this](const std::string& text) {
    return From({{"RANKLOG_FINISH", text}}).delivery_timeout;
  };
  EXPECT_EQ(From({}).delivery_timeout, milliseconds(0));
  EXPECT_EQ(timeout("durable"), milliseconds(0));
  EXPECT_EQ(timeout("delivered"), Settings::kDeliveryTimeout);
  EXPECT_EQ(timeout("delivered:1500ms"), milliseconds(1500));
  EXPECT_EQ(timeout("delivered:90s"), std::chrono::seconds(90));
  EXPECT_EQ(timeout("delivered:10m"), std::chrono::minutes(10));
  EXPECT_EQ(timeout("delivered:2h"), std::chrono::hours(2));
  for (const char* wrong : {"delivery", "delivered:", "delivered:10", "delivered:s",
                            "delivered:-1s", "delivered:9999999999s"}) {
    const Settings settings = From({{"RANKLOG_FINISH", wrong}});
    EXPECT_THAT(settings.Validate(), ElementsAre(HasSubstr(wrong))) << wrong;
  }
  EXPECT_EQ(timeout("delivered:soon"), Settings::kDeliveryTimeout) << "it is to be delivered";
}

TEST_F(SettingsTest, StatisticsAreRulesAndNames) {
  const Settings settings =
      From({{"RANKLOG_RANK_STATISTICS", "train/loss = mean, max; perf/a=b*=argmax ; std,none;"}});
  EXPECT_THAT(settings.rank_statistics,
              ElementsAre("train/loss=mean,max", "perf/a=b*=argmax", "std", "none"));
  EXPECT_THAT(From({{"RANKLOG_RANK_STATISTICS", "mean,max"}}).rank_statistics,
              ElementsAre("mean", "max"));
}

TEST_F(SettingsTest, HelloHasStatisticsInTwoFields) {
  Settings settings = From({});
  settings.rank_statistics = {"loss= mean, max", "std", "*x=none"};
  EXPECT_THAT(settings.Validate(), IsEmpty());
  const v1::Hello hello = internal::MakeHello(internal::Resolve(settings));
  EXPECT_THAT(hello.settings().rank_statistics(), ElementsAre("std"));
  EXPECT_THAT(hello.settings().rank_statistic_rules(), ElementsAre("loss=mean,max", "*x=none"));
}

// The replacement has at least the statistics that the rule asked for.
TEST_F(SettingsTest, WrongStatisticsAreMistakesAndRepaired) {
  struct Case {
    std::vector<std::string> wrong;
    std::string mistake;
    std::vector<std::string> repaired;
  };
  const std::string all = "*=none";
  for (const Case& one : {
           Case{{"loss=median,mean", all}, "\"median\"", {"loss=mean", all}},
           Case{{"loss=median", all}, "\"median\"", {"loss=mean,min,max", all}},
           Case{{"loss=", all},
                "\"loss=\" of RANKLOG_RANK_STATISTICS (rank_statistics) has no statistic",
                {"loss=mean,min,max", all}},
           Case{{"=mean", all}, "has no glob: write GLOB=mean,max", {all}},
           Case{{"loss=none,max"}, "combines none with other", {"loss=max"}},
           Case{{all, "loss=mean"}, "put it first", {all}},
           Case{{"train/loss"}, "\"train/loss\"", {}},
           Case{{std::string(300, 'x') + "=max"}, "256 bytes", {}},
           Case{{"\xff=max"}, "not UTF-8", {}},
       }) {
    Settings settings = From({});
    settings.rank_statistics = one.wrong;
    EXPECT_THAT(settings.Validate(), ElementsAre(HasSubstr(one.mistake)));
    settings = internal::Repair(settings);
    EXPECT_THAT(settings.rank_statistics, ElementsAreArray(one.repaired));
    EXPECT_THAT(settings.Validate(), IsEmpty());
  }
  Settings settings = From({});
  for (int i = 0; i < 33; ++i) settings.rank_statistics.push_back(std::to_string(i) + "=max");
  EXPECT_THAT(settings.Validate(), ElementsAre(HasSubstr("more than 32 rules")));
  EXPECT_THAT(internal::Repair(settings).rank_statistics, SizeIs(32));
}

TEST_F(SettingsTest, StatisticsMistakesNameRuleAndReplacement) {
  const std::string setting = "RANKLOG_RANK_STATISTICS (rank_statistics)";
  const std::string known = ": use mean, min, max, std, argmin, argmax or none";
  const std::pair<const char*, std::string> cases[] = {
      {"bogus", setting + " has \"bogus\"" + known + ", or GLOB=mean; Init() uses mean,min,max"},
      {"a,MEAN,max",
       setting + " has \"a\", \"MEAN\"" + known + ", in lower case, or GLOB=mean; Init() uses max"},
      {"none,mean", setting +
                        " combines none with other statistics: use none, or a list without it; "
                        "Init() uses mean"},
      {"a=max;b=bogus", "the rule \"b=bogus\" of " + setting + " has \"bogus\"" + known +
                            "; Init() uses mean,min,max"},
      {"a=max;b=", "the rule \"b=\" of " + setting +
                       " has no statistic: write GLOB=mean,max; Init() uses mean,min,max"},
      {"train/loss=mean,perf/*=max",
       "the rule \"train/loss=mean,perf/*=max\" of " + setting +
           " is for metrics named \"train/loss=mean,perf/*\": write ; between rules; Init() leaves "
           "it out"},
      {"a=max;\xff=max", "rule 2 of " + setting + " is not UTF-8; Init() leaves it out"}};
  for (const auto& [text, mistake] : cases) {
    EXPECT_THAT(From({{"RANKLOG_RANK_STATISTICS", text}}).Validate(), ElementsAre(mistake));
  }
  for (const char* separator : {" ", "\t", "\n", "\v", "\f", "\r\n"}) {
    const std::string text = std::string("loss=max") + separator + "b=c=min";
    EXPECT_THAT(From({{"RANKLOG_RANK_STATISTICS", text}}).Validate(),
                ElementsAre(HasSubstr("write ; between rules")));
  }
  EXPECT_THAT(From({{"RANKLOG_RANK_STATISTICS", "lr=1e-3/loss=mean"}}).Validate(), IsEmpty());
}

// A metric may have such a name, so these are no mistakes.
TEST_F(SettingsTest, ShellWildcardsInStatisticsGetHints) {
  using internal::RankStatisticsHints;
  EXPECT_THAT(RankStatisticsHints({"train/?oss=max", "acc[0]=max", "acc[0-9]=max", "std"}),
              ElementsAre(AllOf(HasSubstr("\"train/?oss\""), HasSubstr("has a ?, which stands")),
                          AllOf(HasSubstr("\"acc[0-9]\""), HasSubstr("has a [, which"))));
  EXPECT_THAT(From({{"RANKLOG_RANK_STATISTICS", "train/?oss=max"}}).Validate(), IsEmpty());
}

TEST_F(SettingsTest, MistakesNameTheirReplacement) {
  const std::pair<const char*, const char*> cases[] = {
      {"RANKLOG_LOG_STRATEGY", "it counts as unset (main)"},
      {"RANKLOG_SPOOL_BYTES", "it counts as unset (8388608)"},
      {"RANKLOG_FINISH_TIMEOUT_MS", "it counts as unset (10000)"},
      {"RANKLOG_START_DAEMON", "it counts as unset (1)"},
      {"RANKLOG_FINISH", "it counts as durable"},
      {"RANKLOG_RESUME", "Init() leaves it unset"},
      {"RANKLOG_DESTINATIONS", "Init() uses local"},
      {"RANKLOG_ADDRESS", "Init() uses the default address"}};
  for (const auto& [variable, replacement] : cases) {
    EXPECT_THAT(From({{variable, "8MiB"}}).Validate(), ElementsAre(EndsWith(replacement)));
  }
  EXPECT_THAT(From({{"RANKLOG_PROJECT", "a/b"}}).Validate(),
              ElementsAre(EndsWith("Init() writes - for each")));
  EXPECT_THAT(From({{"RANKLOG_FINISH_TIMEOUT_MS", "-1"}}).Validate(),
              ElementsAre(EndsWith("Init() uses 0")));
  const std::string id = internal::Repair(From({{"RANKLOG_RUN_ID", "a/b"}})).run_id;
  EXPECT_THAT(From({{"RANKLOG_RUN_ID", "a/b"}}).Validate(),
              ElementsAre(EndsWith("; Init() uses " + id)));
  Settings many;
  many.tags.assign(33, "tag");
  EXPECT_THAT(many.Validate(), ElementsAre("there are 33 tags; Init() uses the first 32"));
  EXPECT_THAT(From({{"RANKLOG_FINISH", "delivered:0s"}}).Validate(),
              ElementsAre(EndsWith("it counts as durable")));
}

// A mistake loses no row, and its replacement is the same on every rank.
TEST_F(SettingsTest, RepairGivesUsableSettings) {
  Settings settings = From({{"RANKLOG_DESTINATIONS", "Paper"}});
  settings.run_id = "exp/1";
  settings.project = "a/b" + std::string(200, 'p');
  settings.notes = "\xff";
  settings.name = std::string(1023, 'n') + "\xc3\xa9";
  settings.tags.assign(40, std::string(300, 't'));
  settings.resume = "maybe";
  settings.rank = 5;
  settings.world_size = 2;
  settings.local_rank = 9;
  settings.rank_statistics = {"none", "median", "mean"};
  settings.spool_bytes = 1;
  settings.flush_interval = std::chrono::milliseconds(0);
  settings.finish_timeout = std::chrono::hours(100);
  settings.delivery_timeout = std::chrono::hours(100);
  settings.address = "tcp:host";
  settings.log_strategy = static_cast<LogStrategy>(77);
  settings.credentials["\xff"] = "key";  // protobuf could not send it
  EXPECT_THAT(settings.Validate(), SizeIs(Ge(14)));
  const Settings repaired = internal::Repair(settings);
  EXPECT_THAT(repaired.Validate(), IsEmpty());
  EXPECT_THAT(repaired.run_id, MatchesRegex("exp-1-[a-z0-9]{8}"));
  EXPECT_EQ(repaired.run_id, internal::Repair(settings).run_id);
  settings.run_id = "exp-1";
  EXPECT_EQ(internal::Repair(settings).run_id, "exp-1");
  EXPECT_THAT(repaired.project, StartsWith("a-bpp"));
  EXPECT_EQ(repaired.notes, "?");
  EXPECT_EQ(repaired.name, std::string(1023, 'n'));
  EXPECT_EQ(repaired.rank, 5);
  EXPECT_EQ(repaired.world_size, 6);
  EXPECT_EQ(repaired.log_strategy, LogStrategy::kMain);
  EXPECT_THAT(repaired.credentials, IsEmpty());
  EXPECT_THAT(repaired.destinations, ElementsAre("local"));
  EXPECT_THAT(repaired.rank_statistics, ElementsAre("mean"));
}

TEST_F(SettingsTest, ReportsEveryErrorAtOnce) {
  Settings settings = From({{"RANK", "two"},
                            {"WORLD_SIZE", "2"},
                            {"RANKLOG_FLUSH_INTERVAL_MS", "soon"},
                            {"RANKLOG_LOG_STRATEGY", "some"},
                            {"RANKLOG_DESTINATIONS", "wandb,Paper"},
                            {"RANKLOG_START_DAEMON", "perhaps"}});
  settings.run_id = "a/b";
  settings.spool_bytes = 1;
  settings.project = "a/b";
  settings.notes = "\xff";
  EXPECT_THAT(settings.Validate(), SizeIs(9));
}

TEST_F(SettingsTest, RuntimeDirLosesWhiteSpaceAndSlash) {
  const testing::TempDir dir;
  const std::string socket = dir.File("ranklog/ranklogd.sock");
  for (const char* end : {"", " \n", "/"}) {
    From({{"XDG_RUNTIME_DIR", dir.path() + end}});
    EXPECT_THAT(internal::SocketPlaces(""),
                Contains(Field(&internal::SocketLocation::path, socket)))
        << end;
  }
  ASSERT_EQ(symlink(dir.path().c_str(), dir.File("link").c_str()), 0);
  From({{"XDG_RUNTIME_DIR", dir.File("link/")}});
  EXPECT_THAT(internal::SocketPlaces(""),
              Each(Field(&internal::SocketLocation::path, Not(HasSubstr("link")))));
}

// A daemon could not listen there, and connect() reads no more of the path.
TEST_F(SettingsTest, TooLongRuntimeDirIsSkipped) {
  const testing::TempDir dir;
  const size_t most = 107 - std::string("/ranklog/ranklogd.sock").size();
  const std::string longest = dir.File(std::string(most - dir.File("").size(), 'a'));
  for (const std::string& runtime : {longest, longest + "a"}) {
    ASSERT_EQ(mkdir(runtime.c_str(), 0700), 0);
    From({{"XDG_RUNTIME_DIR", runtime}});
    const auto found = Contains(Field(&internal::SocketLocation::path, StartsWith(runtime + "/")));
    if (runtime == longest) {
      EXPECT_THAT(internal::SocketPlaces(""), found);
    } else {
      EXPECT_THAT(internal::SocketPlaces(""), Not(found));
    }
  }
}

TEST_F(SettingsTest, InvalidAddressesAreErrors) {
  Settings settings;
  settings.address = "unix:/" + std::string(106, 'a');
  EXPECT_THAT(settings.Validate(), IsEmpty());
  settings.address += "a";
  EXPECT_THAT(settings.Validate(), ElementsAre(HasSubstr("108 bytes; the limit is 107")));
  settings.address = "tcp:localhost:1";
  EXPECT_THAT(settings.Validate(), ElementsAre(HasSubstr("; use unix:PATH")));
  settings.address = "unix:relative";
  EXPECT_THAT(settings.Validate(), SizeIs(1));
}

}  // namespace
}  // namespace ranklog
