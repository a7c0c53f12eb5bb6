// Writes JSON values as YAML.

#ifndef SERVICE_DELIVER_WANDB_DOCUMENTS_YAML_H_
#define SERVICE_DELIVER_WANDB_DOCUMENTS_YAML_H_

#include <string>

#include "service/model/item.h"

namespace ranklog::deliver::wandb {

// YAML 1.1 in block style, with every text and key in double quotes, as in JSON. NaN and infinities
// are .nan and .inf.
std::string ToYaml(const model::Json& value);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_DOCUMENTS_YAML_H_
