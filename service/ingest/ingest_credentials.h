// Connects ingest, which receives keys, to the credentials that the deliveries use.

#ifndef SERVICE_INGEST_INGEST_CREDENTIALS_H_
#define SERVICE_INGEST_INGEST_CREDENTIALS_H_

#include "service/deliver/credentials.h"
#include "service/deliver/destination.h"
#include "service/ingest/attach.h"

namespace ranklog::ingest {

// The credential functions for ingest. `store` must outlive them.
Credentials IngestCredentials(deliver::CredentialStore* store);

// Whether a key for the destination was found or given for the session, even if it cannot be used.
bool KnowsKey(const deliver::CredentialStore& store, const deliver::Destination& destination,
              const model::Session& session);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_INGEST_CREDENTIALS_H_
