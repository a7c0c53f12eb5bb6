// Joins ingest, which is brought keys, to the credentials that the deliveries use.

#ifndef SERVICE_INGEST_INGEST_CREDENTIALS_H_
#define SERVICE_INGEST_INGEST_CREDENTIALS_H_

#include "service/deliver/credentials.h"
#include "service/ingest/attach.h"

namespace ranklog::ingest {

// What ingest may do with credentials. `store` outlives it.
Credentials IngestCredentials(deliver::CredentialStore* store);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_INGEST_CREDENTIALS_H_
