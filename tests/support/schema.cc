#include "tests/support/schema.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>

#include <cstdlib>
#include <fstream>
#include <memory>

namespace ranklog::testing {
namespace {

namespace protobuf = google::protobuf;

class ParsedMessage {
 public:
  ParsedMessage(const std::string& type, const std::string& bytes) {
    std::ifstream file(RANKLOG_DESCRIPTORS, std::ios::binary);
    protobuf::FileDescriptorSet files;
    if (!files.ParseFromIstream(&file)) std::abort();
    const protobuf::FileDescriptor* const schema = pool_.BuildFile(files.file(0));
    message_.reset(factory_.GetPrototype(schema->FindMessageTypeByName(type))->New());
    if (!message_->ParseFromString(bytes)) std::abort();
  }

  protobuf::Message& operator*() { return *message_; }
  protobuf::Message* operator->() { return message_.get(); }

 private:
  protobuf::DescriptorPool pool_;
  protobuf::DynamicMessageFactory factory_;
  std::unique_ptr<protobuf::Message> message_;
};

bool IsSet(const protobuf::Message& message, const protobuf::FieldDescriptor* field) {
  return field->is_repeated() ? message.GetReflection()->FieldSize(message, field) > 0
                              : message.GetReflection()->HasField(message, field);
}

}  // namespace

std::vector<std::string> UnsetFields(const std::string& type, const std::string& bytes) {
  ParsedMessage message(type, bytes);
  std::vector<std::string> unset;
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const protobuf::FieldDescriptor* const field = message->GetDescriptor()->field(i);
    if (!IsSet(*message, field)) unset.push_back(field->name());
  }
  return unset;
}

std::map<std::string, std::string> WithoutEachField(const std::string& type,
                                                    const std::string& bytes) {
  std::map<std::string, std::string> reduced;
  ParsedMessage original(type, bytes);
  for (int i = 0; i < original->GetDescriptor()->field_count(); ++i) {
    const protobuf::FieldDescriptor* const field = original->GetDescriptor()->field(i);
    if (!IsSet(*original, field)) continue;
    const std::unique_ptr<protobuf::Message> copy(original->New());
    copy->CopyFrom(*original);
    copy->GetReflection()->ClearField(copy.get(), field);
    reduced[field->name()] = copy->SerializeAsString();
  }
  return reduced;
}

}  // namespace ranklog::testing
