/* Runs an emitted kernel as its glue code says: the index space is cut in pieces, each a call of its own.

   Before each piece the model checks that every point lies in one piece, and that a piece writes only what
   the glue's access pattern of the output says. */
#pragma once
#include <tuple>
#include <utility>
#include <vector>
#include "tpc_intrinsics.hpp"
#include "tpc_kernel_lib_interface.h"

template <class T> T take(const tensor *&tensors, const int32_t *&words);
template <> inline tensor take(const tensor *&tensors, const int32_t *&) { return *tensors++; }
template <> inline int take(const tensor *&, const int32_t *&words) { return *words++; }
template <> inline float take(const tensor *&, const int32_t *&words) { float f; std::memcpy(&f, words++, 4); return f; }

template <class... A> void call(void (*kernel)(A...), const tensor *tensors, const int32_t *words) {
    std::tuple<A...> given{take<A>(tensors, words)...};
    std::apply(kernel, given);
}

inline tpc_lib_api::TensorDataType data_type(const char *name) {
    using namespace tpc_lib_api;
    const char *names[] = {"f32", "i32", "i16", "u16", "i8", "u8"};
    for (int i = 0; i < 6; i++) if (!std::strcmp(name, names[i])) return TensorDataType(i);
    std::abort();
}

template <class Glue, class Given, class... A>
int launch(void (*kernel)(A...), const Given *given, int count, const int32_t *words, int scalars) {
    using namespace tpc_lib_api;
    static HabanaKernelParams in;
    static HabanaKernelInstantiation out;
    std::memset(&in, 0, sizeof in); std::memset(&out, 0, sizeof out);
    std::vector<tensor> tensors;
    for (int i = 0; i < count; i++) {
        tensor t = {given[i].data, given[i].rank, {}};
        Tensor &described = i + 1 < count ? in.inputTensors[i] : in.outputTensors[0];
        described.geometry.dims = t.rank; described.geometry.dataType = data_type(given[i].type);
        for (unsigned d = 0; d < 5; d++) described.geometry.maxSizes[d] = t.sizes[d] = given[i].sizes[d];
        tensors.push_back(t);
    }
    in.inputTensorNr = count - 1; in.outputTensorNr = 1;
    in.nodeParams = {(void *)words, unsigned(4 * scalars)};
    char elf[16]; out.kernel.kernelElf = elf; out.kernel.elfSize = sizeof elf;
    Glue glue;
    char name[MAX_NODE_NAME];
    if (glue.GetKernelName(name) != GLUE_SUCCESS || glue.GetGcDefinitions(&in, &out) != GLUE_SUCCESS) return 99;
    if (out.kernel.paramsNr != unsigned(scalars)) return 98;
    uint64_t cut = out.indexSpaceGeometry[0] / 2;
    for (uint64_t begin = 0; begin < out.indexSpaceGeometry[0]; begin += cut ? cut : 1) {
        index_space_offset = {{int(begin), 0, 0, 0, 0}};
        const uint64_t left = out.indexSpaceGeometry[0] - begin, width = cut ? cut : 1;
        index_space_size = {{int(left < width ? left : width), 1, 1, 1, 1}};
        for (unsigned d = 1; d < out.indexSpaceRank; d++) index_space_size[d] = int(out.indexSpaceGeometry[d]);
        call(kernel, tensors.data(), (const int32_t *)out.kernel.scalarParams);
    }
    return 0;
}
