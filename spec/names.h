// The words that a scenario file writes for values of the schema's enums.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipeledger {

enum class AttentionBackend;
enum class Convention;
enum class CpCommType;
enum class CrossEntropyFusionImpl;
enum class DdpImpl;
enum class DeviceKind;
enum class Dtype;
enum class EngineKind;
enum class Fabric;
enum class Fp8Format;
enum class Fp8Recipe;
enum class MoeTokenDispatcherType;
enum class Normalization;
enum class OffloadModule;
enum class Optimizer;
enum class Precision;
enum class ProjectorType;
enum class RecomputeGranularity;
enum class RecomputeMethod;
enum class RecomputeModule;
enum class Runtime;
enum class Sharding;
enum class SoftmaxType;
enum class TransformerImpl;

/// As a scenario file spells it: "train-ledger", "optim_grads". Lives as long as the program.
std::string_view name_of(AttentionBackend value);
std::string_view name_of(Convention value);
std::string_view name_of(CpCommType value);
std::string_view name_of(CrossEntropyFusionImpl value);
std::string_view name_of(DdpImpl value);
std::string_view name_of(DeviceKind value);
std::string_view name_of(Dtype value);
std::string_view name_of(EngineKind value);
std::string_view name_of(Fabric value);
std::string_view name_of(Fp8Format value);
std::string_view name_of(Fp8Recipe value);
std::string_view name_of(MoeTokenDispatcherType value);
std::string_view name_of(Normalization value);
std::string_view name_of(OffloadModule value);
std::string_view name_of(Optimizer value);
std::string_view name_of(Precision value);
std::string_view name_of(ProjectorType value);
std::string_view name_of(RecomputeGranularity value);
std::string_view name_of(RecomputeMethod value);
std::string_view name_of(RecomputeModule value);
std::string_view name_of(Runtime value);
std::string_view name_of(Sharding value);
std::string_view name_of(SoftmaxType value);
std::string_view name_of(TransformerImpl value);

}  // namespace pipeledger
