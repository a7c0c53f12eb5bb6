// The portable `ranklog` verifies HTTPS servers by the CA certificates of its distribution.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/absent.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tls_server.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class PortableCertificatesTest : public ::testing::Test {
 protected:
  PortableCertificatesTest() { identity_.Write(dir_.File("ca.pem")); }

  void SetUp() override {
    SKIP_WITHOUT(RunToEnd({"unshare", "--mount", "true"}).code == 0, "a namespace of mounts");
  }

  // Runs `ranklog login` on a system whose /etc contains only the certificate, at `bundle`.
  std::string LogIn(const std::string& bundle, ChildProcess::Options options = {}) {
    options.environment["HOME"] = dir_.path();
    for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"}) {
      if (options.environment.count(name) == 0) options.unset.emplace_back(name);
    }
    return RunToEnd({"unshare", "--mount", "sh", "-ec",
                     "mount -t tmpfs none /etc\n"
                     "if [ -n \"$1\" ]; then mkdir -p \"${1%/*}\"; cp \"$2\" \"$1\"; fi\n"
                     "printf '%040d' 0 | \"$3\" login --base-url \"$4\"",
                     "sh", bundle, dir_.File("ca.pem"), PORTABLE_CLI, url_},
                    options)
        .output;
  }

  const TempDir dir_;
  const SelfSigned identity_{"IP:127.0.0.1"};
  const Listener server_{
      std::make_unique<httplib::SSLServer>(identity_.certificate(), identity_.key()),
      [](const httplib::Request&, httplib::Response&) {}};
  const std::string url_ = "https://127.0.0.1:" + std::to_string(server_.port());
};

TEST_F(PortableCertificatesTest, DistributionBundleIsUsed) {  // S46
  size_t asked = 0;
  for (const char* bundle :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "/etc/ssl/cert.pem"}) {
    const std::string output = LogIn(bundle);
    EXPECT_GT(server_.keys().size(), asked) << bundle << ": " << output;
    asked = server_.keys().size();
  }
}

TEST_F(PortableCertificatesTest, VariablesOverrideDistribution) {
  size_t asked = 0;
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const std::string output = LogIn("", {{{name, dir_.File("ca.pem")}}, {}, ""});
    EXPECT_GT(server_.keys().size(), asked) << name << ": " << output;
    asked = server_.keys().size();
  }
}

TEST_F(PortableCertificatesTest, MissingCertificatesAreReported) {
  EXPECT_THAT(LogIn(""), HasSubstr("no CA certificates to verify the server"));
  EXPECT_THAT(server_.keys(), IsEmpty());
}

TEST_F(PortableCertificatesTest, WrongPathIsReported) {
  const std::string output =
      LogIn("/etc/ssl/cert.pem", {{{"SSL_CERT_FILE", "/absent.pem"}}, {}, ""});
  EXPECT_THAT(output, HasSubstr("/absent.pem"));
  EXPECT_THAT(server_.keys(), IsEmpty());
}

}  // namespace
}  // namespace ranklog::testing
