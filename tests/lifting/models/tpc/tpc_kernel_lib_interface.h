/* The part of the public kernel library interface that emitted glue code fills in. */
#pragma once
#include <stdint.h>
namespace tpc_lib_api {
enum { MAX_NODE_NAME = 64, MAX_TENSOR_DIM = 5, MAX_TENSORS = 16, MAX_SCALARS = 32 };
enum TensorDataType { DATA_F32, DATA_I32, DATA_I16, DATA_U16, DATA_I8, DATA_U8 };
enum GlueCodeReturn {
    GLUE_SUCCESS, GLUE_INCOMPATIBLE_INPUT_COUNT, GLUE_INCOMPATIBLE_OUTPUT_COUNT, GLUE_INCOMPATIBLE_DATA_TYPE,
    GLUE_INSUFFICIENT_ELF_BUFFER
};
struct TensorGeometry { unsigned dims; uint64_t maxSizes[MAX_TENSOR_DIM]; TensorDataType dataType; };
struct Tensor { TensorGeometry geometry; };
struct DimIndexSpaceMapping { uint32_t indexSpaceDim; float a; float start_b; float end_b; };
struct TensorAccessPattern { bool allRequired; DimIndexSpaceMapping mapping[MAX_TENSOR_DIM]; };
struct NodeParams { void *nodeParams; unsigned nodeParamsSize; };
struct DeviceKernel { void *kernelElf; unsigned elfSize; unsigned paramsNr; uint32_t scalarParams[MAX_SCALARS]; };
struct HabanaKernelParams {
    unsigned inputTensorNr, outputTensorNr;
    Tensor inputTensors[MAX_TENSORS], outputTensors[MAX_TENSORS];
    NodeParams nodeParams;
};
struct HabanaKernelInstantiation {
    unsigned indexSpaceRank;
    uint64_t indexSpaceGeometry[MAX_TENSOR_DIM];
    TensorAccessPattern inputTensorAccessPattern[MAX_TENSORS], outputTensorAccessPattern[MAX_TENSORS];
    DeviceKernel kernel;
};
}
