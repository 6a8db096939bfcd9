// Which enum of the schema each of ours is. Both list their values in the same order, which the
// casts between them rely on.
#pragma once

#include "spec/scenario.h"

namespace pipeledger {

namespace proto {
enum Cluster_Fabric : int;
enum Device_Kind : int;
enum Model_Normalization : int;
enum Model_SoftmaxType : int;
enum Parallel_CpCommType : int;
enum Sim_Convention_Name : int;
enum Sim_Engine : int;
enum Sim_Runtime : int;
enum Train_AttentionBackend : int;
enum Train_CrossEntropyFusionImpl : int;
enum Train_DdpImpl : int;
enum Train_Dtype_Name : int;
enum Train_Fp8Format : int;
enum Train_Fp8Recipe : int;
enum Train_MoeTokenDispatcherType : int;
enum Train_OffloadModule_Name : int;
enum Train_Optimizer : int;
enum Train_Precision : int;
enum Train_RecomputeGranularity : int;
enum Train_RecomputeMethod : int;
enum Train_RecomputeModule_Name : int;
enum Train_Sharding : int;
enum Train_TransformerImpl : int;
enum Vision_ProjectorType : int;
}  // namespace proto

template <class Ours, class Schema, Ours last>
struct SchemaEnumOf {
  using type = Schema;
  static constexpr int kLast = static_cast<int>(last);
};

/// `SchemaEnum<Precision>::type` is proto::Train::Precision, `kLast` its last value.
template <class Ours>
struct SchemaEnum;

template <>
struct SchemaEnum<AttentionBackend>
    : SchemaEnumOf<AttentionBackend, proto::Train_AttentionBackend, AttentionBackend::fused> {};
template <>
struct SchemaEnum<Convention>
    : SchemaEnumOf<Convention, proto::Sim_Convention_Name, Convention::calculator> {};
template <>
struct SchemaEnum<CpCommType>
    : SchemaEnumOf<CpCommType, proto::Parallel_CpCommType, CpCommType::a2a_p2p> {};
template <>
struct SchemaEnum<CrossEntropyFusionImpl>
    : SchemaEnumOf<CrossEntropyFusionImpl, proto::Train_CrossEntropyFusionImpl,
                   CrossEntropyFusionImpl::linear> {};
template <>
struct SchemaEnum<DdpImpl> : SchemaEnumOf<DdpImpl, proto::Train_DdpImpl, DdpImpl::torch_fsdp2> {};
template <>
struct SchemaEnum<DeviceKind>
    : SchemaEnumOf<DeviceKind, proto::Device_Kind, DeviceKind::nic_switch> {};
template <>
struct SchemaEnum<Dtype> : SchemaEnumOf<Dtype, proto::Train_Dtype_Name, Dtype::fp8> {};
template <>
struct SchemaEnum<EngineKind> : SchemaEnumOf<EngineKind, proto::Sim_Engine, EngineKind::fast> {};
template <>
struct SchemaEnum<Fabric> : SchemaEnumOf<Fabric, proto::Cluster_Fabric, Fabric::fat_tree> {};
template <>
struct SchemaEnum<Fp8Format> : SchemaEnumOf<Fp8Format, proto::Train_Fp8Format, Fp8Format::hybrid> {
};
template <>
struct SchemaEnum<Fp8Recipe> : SchemaEnumOf<Fp8Recipe, proto::Train_Fp8Recipe, Fp8Recipe::mxfp8> {};
template <>
struct SchemaEnum<MoeTokenDispatcherType>
    : SchemaEnumOf<MoeTokenDispatcherType, proto::Train_MoeTokenDispatcherType,
                   MoeTokenDispatcherType::flex> {};
template <>
struct SchemaEnum<Normalization>
    : SchemaEnumOf<Normalization, proto::Model_Normalization, Normalization::RMSNorm> {};
template <>
struct SchemaEnum<OffloadModule>
    : SchemaEnumOf<OffloadModule, proto::Train_OffloadModule_Name, OffloadModule::moe_act> {};
template <>
struct SchemaEnum<Optimizer> : SchemaEnumOf<Optimizer, proto::Train_Optimizer, Optimizer::muon> {};
template <>
struct SchemaEnum<Precision> : SchemaEnumOf<Precision, proto::Train_Precision, Precision::fp32> {};
template <>
struct SchemaEnum<ProjectorType>
    : SchemaEnumOf<ProjectorType, proto::Vision_ProjectorType, ProjectorType::affine> {};
template <>
struct SchemaEnum<RecomputeGranularity>
    : SchemaEnumOf<RecomputeGranularity, proto::Train_RecomputeGranularity,
                   RecomputeGranularity::full> {};
template <>
struct SchemaEnum<RecomputeMethod>
    : SchemaEnumOf<RecomputeMethod, proto::Train_RecomputeMethod, RecomputeMethod::block> {};
template <>
struct SchemaEnum<RecomputeModule>
    : SchemaEnumOf<RecomputeModule, proto::Train_RecomputeModule_Name,
                   RecomputeModule::gdn_norm_out> {};
template <>
struct SchemaEnum<Runtime> : SchemaEnumOf<Runtime, proto::Sim_Runtime, Runtime::torch> {};
template <>
struct SchemaEnum<Sharding>
    : SchemaEnumOf<Sharding, proto::Train_Sharding, Sharding::optim_grads_params> {};
template <>
struct SchemaEnum<SoftmaxType>
    : SchemaEnumOf<SoftmaxType, proto::Model_SoftmaxType, SoftmaxType::learnable> {};
template <>
struct SchemaEnum<TransformerImpl>
    : SchemaEnumOf<TransformerImpl, proto::Train_TransformerImpl, TransformerImpl::local> {};

}  // namespace pipeledger
