// Wrong servers: their certificate proves nothing, or they redirect to another server. No such
// server, and no server behind it, may see a key.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <openssl/x509.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/http/curl_transport.h"
#include "service/deliver/http/machine/certificates.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tls_server.h"

namespace ranklog::deliver {
namespace {

using ::ranklog::testing::Listener;
using ::ranklog::testing::SelfSigned;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

constexpr char kBasicKey[] = "Basic YXBpOmtleQ==";  // api:key

void SayFine(const httplib::Request&, httplib::Response& response) {
  response.set_content("fine", "text/plain");
}

absl::StatusOr<HttpResponse> PostKeyTo(
    const std::string& url, const std::string& ca_file,
    const absl::optional<std::map<std::string, std::string>>& variables = absl::nullopt) {
  ASSIGN_OR_RETURN(const std::unique_ptr<CurlTransport> transport,
                   CurlTransport::Create({.ca_file = ca_file}));
  HttpRequest request;
  request.url = url;
  request.body = "rows";
  request.basic_user = "api";
  request.basic_password = "key";
  request.variables = variables;
  return transport->Send(request);
}

class UntrustedServerTest : public ::testing::Test {
 protected:
  static std::unique_ptr<httplib::Server> Tls(const SelfSigned& identity) {
    return std::make_unique<httplib::SSLServer>(identity.certificate(), identity.key());
  }
  const TempDir dir_;
};

TEST_F(UntrustedServerTest, UntrustedCertificateGetsNoKey) {
  const SelfSigned identity("IP:127.0.0.1");
  const Listener server(Tls(identity), SayFine);
  EXPECT_THAT(PostKeyTo(server.At("https"), ""),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(server.At("https")), HasSubstr("certificate"))));
  EXPECT_THAT(server.keys(), IsEmpty());

  // The key was withheld only for this reason: the same server gets it once its certificate is
  // trusted.
  identity.Write(dir_.File("ca.pem"));
  ASSERT_OK_AND_ASSIGN(const HttpResponse response,
                       PostKeyTo(server.At("https"), dir_.File("ca.pem")));
  EXPECT_EQ(response.body, "fine");
  EXPECT_THAT(server.keys(), ElementsAre(kBasicKey));
}

TEST_F(UntrustedServerTest, OtherHostsCertificateGetsNoKey) {
  const SelfSigned identity("IP:127.0.0.2,DNS:localhost");
  const Listener server(Tls(identity), SayFine);
  identity.Write(dir_.File("ca.pem"));
  EXPECT_THAT(PostKeyTo(server.At("https"), dir_.File("ca.pem")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("certificate")));
  EXPECT_THAT(server.keys(), IsEmpty());
}

TEST_F(UntrustedServerTest, IsTrustedByTheJobsVariables) {
  const SelfSigned identity("IP:127.0.0.1");
  const Listener server(Tls(identity), SayFine);
  const std::string file = dir_.File("ca.pem");
  identity.Write(file);
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    EXPECT_OK(PostKeyTo(server.At("https"), "", {{{name, file}}})) << name;
  }
  // An empty variable counts as unset. So does a path that exists only in the job's container.
  for (const char* elsewhere : {"", "/absent/ca.pem"}) {
    EXPECT_THAT(PostKeyTo(server.At("https"), "", {{{"SSL_CERT_FILE", elsewhere}}}),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("certificate")));
  }
}

TEST_F(UntrustedServerTest, IsTrustedByHashedCertificateDirectory) {
  const SelfSigned identity("IP:127.0.0.1");
  const Listener server(Tls(identity), SayFine);
  char name[16];  // a name as made by `openssl rehash`
  snprintf(name, sizeof name, "%08lx.0", X509_subject_name_hash(identity.certificate()));
  identity.Write(dir_.File(name));
  EXPECT_OK(PostKeyTo(server.At("https"), "", {{{"SSL_CERT_DIR", dir_.path()}}}));
}

class FindCertificatesTest : public ::testing::Test {
 protected:
  std::string Make(const std::string& name) {
    std::ofstream(dir_.File(name)) << "a certificate";
    return dir_.File(name);
  }
  const TempDir dir_;
};

TEST_F(FindCertificatesTest, FirstReadableBundleCounts) {
  const std::string second = Make("second");
  const std::string third = Make("third");
  ASSERT_OK_AND_ASSIGN(const Certificates found,
                       FindCertificates({}, {}, {dir_.File("first"), second, third}));
  EXPECT_EQ(found.file, second);
  EXPECT_EQ(found.directory, "");
}

TEST_F(FindCertificatesTest, JobCountsBeforeEnvironmentBeforeSystem) {
  const std::string system = Make("system");
  const std::string own = Make("own");
  const std::string job = Make("job");
  const auto file = [&](const CertificateVariables& of_job, const CertificateVariables& of_own) {
    return FindCertificates(of_job, of_own, {system})->file;
  };
  EXPECT_EQ(file({{"SSL_CERT_FILE", job}}, {{"SSL_CERT_FILE", own}}), job);
  EXPECT_EQ(file({{"SSL_CERT_FILE", "/absent"}}, {{"SSL_CERT_FILE", own}}), own);
  EXPECT_EQ(file({{"SSL_CERT_FILE", ""}}, {{"SSL_CERT_FILE", ""}}), system);
  EXPECT_EQ(file({}, {{"CURL_CA_BUNDLE", own}, {"SSL_CERT_FILE", job}}), own);
  // A typo in the daemon's own variable must be reported.
  EXPECT_EQ(file({}, {{"SSL_CERT_FILE", "/absent"}}), "/absent");
}

TEST_F(FindCertificatesTest, MissingBundleErrorListsPaths) {
  EXPECT_THAT(FindCertificates({}, {}, {dir_.File("a"), dir_.File("b")}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(dir_.File("a") + ", " + dir_.File("b")),
                             HasSubstr("install ca-certificates, or set SSL_CERT_FILE"))));
}

TEST_F(FindCertificatesTest, ListsBundlesOfDistributions) {
  EXPECT_THAT(SystemBundles(),
              IsSupersetOf({"/etc/ssl/certs/ca-certificates.crt",
                            "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}));
}

TEST_F(FindCertificatesTest, OwnVariablesAreThoseOfCurl) {
  unsetenv("CURL_CA_BUNDLE");
  setenv("SSL_CERT_FILE", "/a/file", 1);
  setenv("SSL_CERT_DIR", "/a/directory", 1);
  const CertificateVariables own = OwnCertificateVariables();
  unsetenv("SSL_CERT_FILE");
  unsetenv("SSL_CERT_DIR");
  ASSERT_OK_AND_ASSIGN(const Certificates found, FindCertificates({}, own, {}));
  EXPECT_EQ(found.file, "/a/file");
  EXPECT_EQ(found.directory, "/a/directory");
}

TEST(RedirectTest, RedirectIsNotFollowed) {
  for (const int code : {301, 302, 303, 307, 308}) {
    const Listener second(std::make_unique<httplib::Server>(), SayFine);
    const Listener first(
        std::make_unique<httplib::Server>(),
        [to = second.At("http"), code](const httplib::Request&, httplib::Response& response) {
          response.set_redirect(to, code);
        });
    ASSERT_OK_AND_ASSIGN(const HttpResponse response, PostKeyTo(first.At("http"), ""));
    EXPECT_EQ(response.code, code);
    EXPECT_THAT(first.keys(), ElementsAre(kBasicKey));
    EXPECT_THAT(second.keys(), IsEmpty()) << code;
  }
}

}  // namespace
}  // namespace ranklog::deliver
