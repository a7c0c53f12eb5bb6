#include "service/deliver/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/absent.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wandb_account.h"

namespace ranklog::deliver {
namespace {

using ranklog::testing::IsOkAndHolds;
using ranklog::testing::StatusIs;
using ranklog::testing::WandbAccount;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kUrl[] = "https://api.wandb.ai";
constexpr char kJob[] = "job";

std::string Key(char c) { return std::string(40, c); }

class CredentialStoreTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const std::string path = dir_.File(name);
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }

  testing::TempDir dir_;
};

TEST_F(CredentialStoreTest, SearchesSourcesInOrder) {
  CredentialStore::Options options;
  options.files = {Write("credentials", "machine api.wandb.ai password " + Key('f'))};
  EXPECT_THAT(CredentialStore(options).Find(kJob, WandbAccount(kUrl)),
              IsOkAndHolds(Credential{.secret = Key('f')}));
  options.netrc = {dir_.File("absent"),
                   Write("netrc", "machine api.wandb.ai login user password " + Key('n'))};
  EXPECT_THAT(CredentialStore(options).Find(kJob, WandbAccount(kUrl)),
              IsOkAndHolds(Credential{.secret = Key('n')}));
  options.environment["wandb"].secret = Key('e');
  CredentialStore store(options);
  EXPECT_THAT(store.Find(kJob, WandbAccount(kUrl)), IsOkAndHolds(Credential{.secret = Key('e')}));
  ASSERT_OK(store.Set(kJob, WandbAccount("https://api.wandb.ai/"), {.secret = Key('r')}));
  EXPECT_THAT(store.Find(kJob, WandbAccount(kUrl)), IsOkAndHolds(Credential{.secret = Key('r')}));
}

// A shell with a key and an address: the key is not for the servers of other runs.
TEST_F(CredentialStoreTest, EnvironmentsKeyIsForItsServer) {
  setenv("WANDB_API_KEY", Key('e').c_str(), 1);
  setenv("WANDB_BASE_URL", "http://own:8080/", 1);
  CredentialStore::Options options = CredentialStore::Options::FromEnvironment(dir_.path());
  unsetenv("WANDB_API_KEY");
  unsetenv("WANDB_BASE_URL");
  options.netrc.clear();
  options.files.clear();
  const CredentialStore store(options);
  EXPECT_OK(store.Find("", WandbAccount("http://own:8080")));
  EXPECT_THAT(store.Find("", WandbAccount(kUrl)),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("WANDB_API_KEY is for http://own:8080/, and there is no key")));
}

TEST_F(CredentialStoreTest, KeepsServersApart) {
  CredentialStore store({});
  ASSERT_OK(store.Set(kJob, WandbAccount("http://wandb.local:8080"), {.secret = Key('a')}));
  EXPECT_TRUE(store.Find(kJob, WandbAccount("http://wandb.local:8080/prefix")).ok());
  EXPECT_FALSE(store.Find(kJob, WandbAccount("http://wandb.local")).ok());
  EXPECT_FALSE(store.Find(kJob, WandbAccount(kUrl)).ok());
}

// Two jobs of one user may use two accounts.
TEST_F(CredentialStoreTest, KeepsJobsApart) {
  CredentialStore store({});
  ASSERT_OK(store.Set(kJob, WandbAccount(kUrl), {.secret = Key('a')}));
  EXPECT_FALSE(store.Find("other", WandbAccount(kUrl)).ok());
  ASSERT_OK(store.Set("other", WandbAccount(kUrl), {.secret = Key('b')}));
  EXPECT_THAT(store.Find(kJob, WandbAccount(kUrl)), IsOkAndHolds(Credential{.secret = Key('a')}));
  EXPECT_THAT(store.Find("other", WandbAccount(kUrl)),
              IsOkAndHolds(Credential{.secret = Key('b')}));
  EXPECT_NE(JobOf("p", "1r"), JobOf("p1", "r"));
}

TEST_F(CredentialStoreTest, KeepsVariablesPerJob) {
  CredentialStore store({});
  EXPECT_FALSE(store.VariablesOf(kJob).has_value());
  store.SetVariables(kJob, {{"http_proxy", "http://proxy"}});
  EXPECT_EQ(store.VariablesOf(kJob)->at("http_proxy"), "http://proxy");
  EXPECT_FALSE(store.VariablesOf("other").has_value());
}

TEST_F(CredentialStoreTest, SkipsRefusedKeys) {
  CredentialStore::Options options;
  options.environment["wandb"].secret = Key('e');
  options.netrc = {Write("netrc", "machine api.wandb.ai login user password " + Key('n'))};
  options.files = {Write("credentials", "machine api.wandb.ai password " + Key('f'))};
  CredentialStore store(options);
  ASSERT_OK(store.Set(kJob, WandbAccount(kUrl), {.secret = Key('r')}));
  std::set<Credential> refused;
  for (const char next : {'r', 'e', 'n', 'f'}) {
    EXPECT_THAT(store.Find(kJob, WandbAccount(kUrl), refused),
                IsOkAndHolds(Credential{.secret = Key(next)}));
    refused.insert({.secret = Key(next)});
  }
  EXPECT_THAT(store.Find(kJob, WandbAccount(kUrl), refused), StatusIs(absl::StatusCode::kNotFound));
}

// systemd grants access by an access list, which looks like mode 0440.
TEST_F(CredentialStoreTest, PassedCredentialsComeLast) {
  CredentialStore::Options options;
  options.files = {Write("credentials", "machine api.wandb.ai password " + Key('f'))};
  options.passed = {Write("passed", "machine api.wandb.ai password " + Key('p'), 0440)};
  EXPECT_THAT(CredentialStore(options).Find(kJob, WandbAccount(kUrl)),
              IsOkAndHolds(Credential{.secret = Key('f')}));
  EXPECT_THAT(CredentialStore(options).Find(kJob, WandbAccount(kUrl), {{.secret = Key('f')}}),
              IsOkAndHolds(Credential{.secret = Key('p')}));
  options.files.clear();
  EXPECT_THAT(CredentialStore(options).Find(kJob, WandbAccount(kUrl)),
              IsOkAndHolds(Credential{.secret = Key('p')}));
  options.passed = {dir_.File("absent")};
  EXPECT_THAT(CredentialStore(options).Find(kJob, WandbAccount(kUrl)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(dir_.File("absent"))));
}

TEST_F(CredentialStoreTest, ReadsSystemdCredentialsDirectory) {
  setenv("CREDENTIALS_DIRECTORY", dir_.path().c_str(), 1);
  const auto options = CredentialStore::Options::FromEnvironment("/state");
  unsetenv("CREDENTIALS_DIRECTORY");
  EXPECT_THAT(options.passed, ::testing::ElementsAre(dir_.File("credentials")));
  EXPECT_THAT(CredentialStore::Options::FromEnvironment("/state").passed, ::testing::IsEmpty());
}

TEST_F(CredentialStoreTest, MissingKeyErrorListsSearchedFiles) {
  CredentialStore::Options options;
  options.files = {dir_.File("credentials")};
  EXPECT_THAT(CredentialStore(options).Find(kJob, WandbAccount(kUrl)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(dir_.File("credentials"))));
}

// A command sends only those that it sets; a rank sends all.
TEST_F(CredentialStoreTest, AbsentVariablesKeepTheirValues) {
  CredentialStore store({});
  store.SetVariables(kJob, {{"no_proxy", "a"}, {"RANKLOG_ALLOW_HTTP", ""}});
  store.SetVariables(kJob, {{"RANKLOG_ALLOW_HTTP", "1"}});
  EXPECT_EQ(store.VariablesOf(kJob),
            (std::map<std::string, std::string>{{"no_proxy", "a"}, {"RANKLOG_ALLOW_HTTP", "1"}}));
}

// The owner of the key decides to which account the rows go.
TEST_F(CredentialStoreTest, RejectsFileOfAnotherUser) {
  SKIP_WITHOUT(geteuid() == 0, "root, to leave a file of another user");
  const std::string file = Write("credentials", "machine api.wandb.ai password " + Key('f'));
  ASSERT_EQ(chown(file.c_str(), 65534, 65534), 0);
  CredentialStore::Options options;
  options.files = {file};
  const auto refused = StatusIs(absl::StatusCode::kPermissionDenied,
                                HasSubstr("user 65534; replace it with a file of your own"));
  EXPECT_THAT(CredentialStore(options).Find(kJob, WandbAccount(kUrl)), refused);
  options.netrc = std::exchange(options.files, {});
  EXPECT_THAT(CredentialStore(options).Find(kJob, WandbAccount(kUrl)), refused);
}

TEST_F(CredentialStoreTest, DoesNotBlockOnAPipe) {
  const std::string pipe = dir_.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  CredentialStore::Options options;
  options.files = {pipe};
  const auto refused =
      StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("not a regular file; replace it"));
  EXPECT_THAT(CredentialStore(options).Find(kJob, WandbAccount(kUrl)), refused);
  options.netrc = std::exchange(options.files, {});
  EXPECT_THAT(CredentialStore(options).Find(kJob, WandbAccount(kUrl)), refused);
}

TEST_F(CredentialStoreTest, RejectsFileAccessibleToOthers) {
  for (const mode_t mode : {0644, 0640, 0620}) {
    CredentialStore::Options options;
    options.files = {Write("credentials", "machine api.wandb.ai password " + Key('f'), mode)};
    EXPECT_THAT(CredentialStore(options).Find(kJob, WandbAccount(kUrl)),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("chmod 600")));
  }
}

TEST_F(CredentialStoreTest, RefusedFileDoesNotHideALaterKey) {
  CredentialStore::Options options;
  options.files = {Write("refused", "machine api.wandb.ai password " + Key('f'), 0644),
                   dir_.File("later")};
  EXPECT_FALSE(CredentialStore({}).HasRefusedFile());
  EXPECT_TRUE(CredentialStore(options).HasRefusedFile());
  Write("later", "machine api.wandb.ai password " + Key('l'), 0600);
  EXPECT_THAT(CredentialStore(options).Find(kJob, WandbAccount(kUrl)),
              IsOkAndHolds(Credential{.secret = Key('l')}));
}

// Find() returns this error, not kNotFound.
TEST_F(CredentialStoreTest, InvalidKeyIsNotRepeated) {
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument, Not(HasSubstr("secret")));
  CredentialStore store({});
  EXPECT_THAT(store.Set(kJob, WandbAccount(kUrl), {.secret = "a secret"}), refused);
  EXPECT_THAT(store.Find(kJob, WandbAccount(kUrl)), refused);
  EXPECT_THAT(store.Set(kJob, WandbAccount("localhost:8080"), {.secret = Key('a')}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  CredentialStore::Options options;
  options.environment["wandb"].secret = "a secret";
  EXPECT_THAT(CredentialStore(options).Find(kJob, WandbAccount(kUrl)), refused);
}

TEST_F(CredentialStoreTest, TrimsSpaceAroundKey) {
  const auto variable = [](const std::string& name) {
    return name == "WANDB_API_KEY" ? " " + Key('a') + "\n" : "";
  };
  EXPECT_EQ(wandb::Wandb().CredentialIn(variable), Credential{.secret = Key('a')});
}

TEST_F(CredentialStoreTest, AcceptsAllKeyFormats) {
  const auto check = [](const std::string& key) {
    return wandb::Wandb().CheckCredential({.secret = key});
  };
  EXPECT_OK(check(Key('a')));
  EXPECT_OK(check("local-" + Key('a')));
  EXPECT_OK(check("wandb_v1_" + std::string(77, 'x')));
  EXPECT_OK(check("aaa.bbb.ccc"));
  EXPECT_OK(check("short"));  // the server decides
  EXPECT_THAT(check("a\nb"), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(CredentialStoreTest, ProjectsEntryComesBeforeThatOfServer) {
  CredentialStore::Options options;
  options.files = {Write("credentials", "machine api.wandb.ai password " + Key('s') +
                                            "\nmachine api.wandb.ai account \"my runs\" password " +
                                            Key('p'))};
  const CredentialStore store(options);
  EXPECT_THAT(store.Find(kJob, WandbAccount(kUrl, "my runs")),
              IsOkAndHolds(Credential{.secret = Key('p')}));
  EXPECT_THAT(store.Find(kJob, WandbAccount(kUrl, "others")),
              IsOkAndHolds(Credential{.secret = Key('s')}));
}

TEST_F(CredentialStoreTest, FindsKeyAddedLater) {
  CredentialStore::Options options;
  options.files = {dir_.File("credentials")};
  const CredentialStore store(options);
  EXPECT_FALSE(store.Find(kJob, WandbAccount(kUrl)).ok());
  Write("credentials", "machine api.wandb.ai password " + Key('f'));
  EXPECT_TRUE(store.Find(kJob, WandbAccount(kUrl)).ok());
}

TEST_F(CredentialStoreTest, IsUsedFromManyThreads) {
  CredentialStore store({});
  std::thread setter([&] {
    for (int i = 0; i < 1000; ++i)
      ASSERT_OK(store.Set(kJob, WandbAccount(kUrl), {.secret = Key('a')}));
  });
  for (int i = 0; i < 1000; ++i) {
    const Credential key{.secret = Key('a')};
    EXPECT_EQ(store.Find(kJob, WandbAccount(kUrl)).value_or(key), key);
  }
  setter.join();
}

// An MLflow server may need no key, until it refuses a request without one.
TEST(OptionalKeyTest, NoneIsFoundUnlessItWasRefused) {
  const CredentialStore store(CredentialStore::Options{});
  const Account account = {
      .destination = *FindDestination("mlflow"), .server = "http://127.0.0.1:5000", .project = "p"};
  EXPECT_THAT(store.Find("", account), testing::IsOkAndHolds(Credential()));
  EXPECT_THAT(store.Find("", account, {Credential()}),
              testing::StatusIs(absl::StatusCode::kNotFound));
}

// As MLflow's own client: a user with a password counts before a token.
TEST(OptionalKeyTest, UserAndPasswordCountBeforeAToken) {
  std::map<std::string, std::string> variables = {{"MLFLOW_TRACKING_TOKEN", "t"},
                                                  {"MLFLOW_TRACKING_USERNAME", "me"}};
  const Destination& mlflow = *FindDestination("mlflow");
  const auto variable = [&](const std::string& name) { return variables[name]; };
  const Credential token = {.user = "", .secret = "t"};
  EXPECT_EQ(mlflow.CredentialIn(variable), token);
  variables["MLFLOW_TRACKING_PASSWORD"] = "p";
  const Credential account = {.user = "me", .secret = "p"};
  EXPECT_EQ(mlflow.CredentialIn(variable), account);
  variables = mlflow.VariablesOf(token);
  EXPECT_EQ(mlflow.CredentialIn(variable), token);
}

}  // namespace
}  // namespace ranklog::deliver
