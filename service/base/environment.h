#ifndef SERVICE_BASE_ENVIRONMENT_H_
#define SERVICE_BASE_ENVIRONMENT_H_

#include "ranklog/v1/environment.h"

namespace ranklog {

using v1::EnvironmentVariable;

}  // namespace ranklog

#endif  // SERVICE_BASE_ENVIRONMENT_H_
