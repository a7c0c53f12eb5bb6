#include "service/deliver/http/machine/certificates.h"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/environment.h"

namespace ranklog::deliver {
namespace {

// Go's crypto/x509 uses the same paths.
constexpr const char* kBundles[] = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",                             // SUSE
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // RHEL from 7 on
    "/etc/ssl/cert.pem",                                  // Alpine
};

bool Readable(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

Certificates Named(const CertificateVariables& variables) {
  const auto value = [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
  if (std::string file = value("CURL_CA_BUNDLE"); !file.empty()) return {std::move(file), ""};
  return {value("SSL_CERT_FILE"), value("SSL_CERT_DIR")};
}

}  // namespace

CertificateVariables OwnCertificateVariables() {
  CertificateVariables variables;
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"}) {
    if (std::string value = EnvironmentVariable(name); !value.empty())
      variables[name] = std::move(value);
  }
  return variables;
}

std::vector<std::string> SystemBundles() {
  std::vector<std::string> bundles(std::begin(kBundles), std::end(kBundles));
  const curl_version_info_data* const curl = curl_version_info(CURLVERSION_NOW);
  if (curl->age >= CURLVERSION_SEVENTH && curl->cainfo != nullptr) {
    bundles.insert(bundles.begin(), curl->cainfo);
  }
  return bundles;
}

absl::StatusOr<Certificates> FindCertificates(const CertificateVariables& job,
                                              const CertificateVariables& own,
                                              absl::Span<const std::string> bundles) {
  Certificates found = Named(job);
  if (!Readable(found.file)) found.file.clear();
  if (!Readable(found.directory)) found.directory.clear();
  if (found.file.empty() && found.directory.empty()) found = Named(own);
  if (!found.file.empty() || !found.directory.empty()) return found;
  const auto* const bundle = std::find_if(bundles.begin(), bundles.end(), Readable);
  if (bundle == bundles.end()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no CA certificates to verify the server: none of ", absl::StrJoin(bundles, ", "),
        " is readable; install ca-certificates, or set SSL_CERT_FILE"));
  }
  return Certificates{*bundle, ""};
}

}  // namespace ranklog::deliver
