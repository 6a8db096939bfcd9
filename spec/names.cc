#include "spec/names.h"

#include <google/protobuf/generated_enum_reflection.h>

#include "base/check.h"
#include "spec/scenario.pb.h"
#include "spec/schema_enums.h"
#include "spec/schema_options.h"

namespace pipeledger {
namespace {

template <class Enum>
std::string_view word(Enum value) {
  using Schema = SchemaEnum<Enum>;
  const google::protobuf::EnumDescriptor& type =
      *google::protobuf::GetEnumDescriptor<typename Schema::type>();
  PIPELEDGER_CHECK(type.value_count() == Schema::kLast + 1, "enum={}", type.full_name());
  const int number = static_cast<int>(value);
  PIPELEDGER_CHECK(number >= 0 && number <= Schema::kLast, "{}={}", type.full_name(), number);
  return word_of(*type.value(number));
}

}  // namespace

std::string_view name_of(AttentionBackend value) { return word(value); }
std::string_view name_of(Convention value) { return word(value); }
std::string_view name_of(CpCommType value) { return word(value); }
std::string_view name_of(CrossEntropyFusionImpl value) { return word(value); }
std::string_view name_of(DdpImpl value) { return word(value); }
std::string_view name_of(DeviceKind value) { return word(value); }
std::string_view name_of(Dtype value) { return word(value); }
std::string_view name_of(EngineKind value) { return word(value); }
std::string_view name_of(Fabric value) { return word(value); }
std::string_view name_of(Fp8Format value) { return word(value); }
std::string_view name_of(Fp8Recipe value) { return word(value); }
std::string_view name_of(MoeTokenDispatcherType value) { return word(value); }
std::string_view name_of(Normalization value) { return word(value); }
std::string_view name_of(OffloadModule value) { return word(value); }
std::string_view name_of(Optimizer value) { return word(value); }
std::string_view name_of(Precision value) { return word(value); }
std::string_view name_of(ProjectorType value) { return word(value); }
std::string_view name_of(RecomputeGranularity value) { return word(value); }
std::string_view name_of(RecomputeMethod value) { return word(value); }
std::string_view name_of(RecomputeModule value) { return word(value); }
std::string_view name_of(Runtime value) { return word(value); }
std::string_view name_of(Sharding value) { return word(value); }
std::string_view name_of(SoftmaxType value) { return word(value); }
std::string_view name_of(TransformerImpl value) { return word(value); }

}  // namespace pipeledger
