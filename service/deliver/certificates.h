// Where the certificates of authorities (CAs) lie that servers are checked by.

#ifndef SERVICE_DELIVER_CERTIFICATES_H_
#define SERVICE_DELIVER_CERTIFICATES_H_

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

// The variables of curl's command line: CURL_CA_BUNDLE, else SSL_CERT_FILE and SSL_CERT_DIR.
using CertificateVariables = std::map<std::string, std::string>;
CertificateVariables OwnCertificateVariables();

// Where distributions keep their bundle. First the one that libcurl was compiled with.
std::vector<std::string> SystemBundles();

// Takes the first of these:
//   1. what `job` names, if it can be read here: a job in a container may name a path of its own
//   2. what `own` names, readable or not: libcurl refuses a wrong path, and names it
//   3. the first of `bundles` that can be read
//   kFailedPrecondition  there is none of these; the message says what to do
absl::StatusOr<Certificates> FindCertificates(const CertificateVariables& job,
                                              const CertificateVariables& own,
                                              absl::Span<const std::string> bundles);

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_CERTIFICATES_H_
