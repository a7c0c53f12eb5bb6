// Locations of the CA certificates by which servers are verified.

#ifndef SERVICE_DELIVER_HTTP_MACHINE_CERTIFICATES_H_
#define SERVICE_DELIVER_HTTP_MACHINE_CERTIFICATES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace ranklog::deliver {

struct Certificates {
  std::string file;       // a bundle in PEM; empty: libcurl's default
  std::string directory;  // one file per certificate, named by its hash; empty: libcurl's default
};

// The variables of the curl command line: CURL_CA_BUNDLE, else SSL_CERT_FILE and SSL_CERT_DIR.
using CertificateVariables = std::map<std::string, std::string>;
CertificateVariables OwnCertificateVariables();

// Bundle paths of common distributions. The path that libcurl was compiled with comes first.
std::vector<std::string> SystemBundles();

// Returns the first match:
//   1. the paths in `job` if they are readable here; a job in a container may have other paths
//   2. the paths in `own`, readable or not; the error of libcurl names a wrong path
//   3. the first readable path of `bundles`
//
//   kFailedPrecondition  no match; the message says what to do
absl::StatusOr<Certificates> FindCertificates(const CertificateVariables& job,
                                              const CertificateVariables& own,
                                              absl::Span<const std::string> bundles);

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_HTTP_MACHINE_CERTIFICATES_H_
