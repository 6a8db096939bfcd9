#include "spec/names.h"

#include "spec/scenario.h"
#include "spec/scenario.pb.h"
#include "spec/schema_options.h"

namespace pipeledger {
namespace {

std::string_view word(const google::protobuf::EnumDescriptor& type, int value) {
  const google::protobuf::EnumValueDescriptor* found = type.FindValueByNumber(value);
  return found == nullptr ? std::string_view() : std::string_view(word_of(*found));
}

}  // namespace

// The values of each enum stand in the order of the schema's; resolve.cc holds the two equal.
std::string_view name_of(AttentionBackend value) {
  return word(*proto::Train::AttentionBackend_descriptor(), static_cast<int>(value));
}
std::string_view name_of(Convention value) {
  return word(*proto::Sim::Convention::Name_descriptor(), static_cast<int>(value));
}
std::string_view name_of(CpCommType value) {
  return word(*proto::Parallel::CpCommType_descriptor(), static_cast<int>(value));
}
std::string_view name_of(CrossEntropyFusionImpl value) {
  return word(*proto::Train::CrossEntropyFusionImpl_descriptor(), static_cast<int>(value));
}
std::string_view name_of(DdpImpl value) {
  return word(*proto::Train::DdpImpl_descriptor(), static_cast<int>(value));
}
std::string_view name_of(DeviceKind value) {
  return word(*proto::Device::Kind_descriptor(), static_cast<int>(value));
}
std::string_view name_of(Dtype value) {
  return word(*proto::Train::Dtype::Name_descriptor(), static_cast<int>(value));
}
std::string_view name_of(EngineKind value) {
  return word(*proto::Sim::Engine_descriptor(), static_cast<int>(value));
}
std::string_view name_of(Fabric value) {
  return word(*proto::Cluster::Fabric_descriptor(), static_cast<int>(value));
}
std::string_view name_of(Fp8Format value) {
  return word(*proto::Train::Fp8Format_descriptor(), static_cast<int>(value));
}
std::string_view name_of(Fp8Recipe value) {
  return word(*proto::Train::Fp8Recipe_descriptor(), static_cast<int>(value));
}
std::string_view name_of(MoeTokenDispatcherType value) {
  return word(*proto::Train::MoeTokenDispatcherType_descriptor(), static_cast<int>(value));
}
std::string_view name_of(Normalization value) {
  return word(*proto::Model::Normalization_descriptor(), static_cast<int>(value));
}
std::string_view name_of(OffloadModule value) {
  return word(*proto::Train::OffloadModule::Name_descriptor(), static_cast<int>(value));
}
std::string_view name_of(Optimizer value) {
  return word(*proto::Train::Optimizer_descriptor(), static_cast<int>(value));
}
std::string_view name_of(Precision value) {
  return word(*proto::Train::Precision_descriptor(), static_cast<int>(value));
}
std::string_view name_of(ProjectorType value) {
  return word(*proto::Vision::ProjectorType_descriptor(), static_cast<int>(value));
}
std::string_view name_of(RecomputeGranularity value) {
  return word(*proto::Train::RecomputeGranularity_descriptor(), static_cast<int>(value));
}
std::string_view name_of(RecomputeMethod value) {
  return word(*proto::Train::RecomputeMethod_descriptor(), static_cast<int>(value));
}
std::string_view name_of(RecomputeModule value) {
  return word(*proto::Train::RecomputeModule::Name_descriptor(), static_cast<int>(value));
}
std::string_view name_of(Runtime value) {
  return word(*proto::Sim::Runtime_descriptor(), static_cast<int>(value));
}
std::string_view name_of(Sharding value) {
  return word(*proto::Train::Sharding_descriptor(), static_cast<int>(value));
}
std::string_view name_of(TransformerImpl value) {
  return word(*proto::Train::TransformerImpl_descriptor(), static_cast<int>(value));
}

}  // namespace pipeledger
