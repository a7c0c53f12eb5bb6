// Connects ingest, which receives keys, to the credentials that the deliveries use.

#ifndef SERVICE_INGEST_INGEST_CREDENTIALS_H_
#define SERVICE_INGEST_INGEST_CREDENTIALS_H_

#include "service/deliver/credentials.h"
#include "service/ingest/attach.h"

namespace ranklog::ingest {

// The credential functions for ingest. `store` must outlive them.
Credentials IngestCredentials(deliver::CredentialStore* store);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_INGEST_CREDENTIALS_H_
