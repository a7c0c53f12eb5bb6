// Joins ingest, which is brought keys, to the credentials that the deliveries use.

#ifndef SERVICE_DAEMON_INGEST_CREDENTIALS_H_
#define SERVICE_DAEMON_INGEST_CREDENTIALS_H_

#include "service/deliver/credentials.h"
#include "service/ingest/attach.h"

namespace ranklog::daemon {

// What ingest may do with credentials. `store` outlives it.
ingest::Credentials IngestCredentials(deliver::CredentialStore* store);

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_INGEST_CREDENTIALS_H_
