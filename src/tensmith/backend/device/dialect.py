"""What makes the dialect of the kernels OpenCL C, or CUDA C.

A kernel is written once:

    KERNEL(64) each_0(GLOBAL const f32 *RESTRICT x0, GLOBAL f32 *RESTRICT y) { ... }

runs in groups of as many threads as its head says, GROUP and THREAD being their numbers, shares LOCAL arrays
within a group and waits for it at BARRIER. Halves are only loaded and stored, through floats. All sizes are
constants. UNROLL stands before loops over registers, which CUDA must unroll; on CPUs, OpenCL drivers put
threads into vector lanes, and do so only where the loops remain. A language's prelude defines these words.
"""

from __future__ import annotations

# OpenCL C 1.2; halves need no extension where they are only loaded and stored (6.1.1.1, vload_half).
OPENCL = """\
#define KERNEL(threads) __kernel __attribute__((reqd_work_group_size(threads, 1, 1))) void
#define GLOBAL __global
#define LOCAL __local
#define RESTRICT restrict
#define FUNCTION static
#define GROUP (int)get_group_id(0)
#define THREAD (int)get_local_id(0)
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define UNROLL
#define load_half(p, i) vload_half(i, p)
#define store_half(p, i, x) vstore_half(x, i, p)
typedef float f32; typedef half f16;
typedef char i8; typedef short i16; typedef int i32; typedef long i64;
typedef uchar u8; typedef ushort u16; typedef uint u32; typedef ulong u64;
"""

# CUDA C++ as NVRTC compiles it, without any header; halves through PTX's cvt.
CUDA = """\
#define KERNEL(threads) extern "C" __global__ __launch_bounds__(threads) void
#define GLOBAL
#define LOCAL __shared__
#define RESTRICT __restrict__
#define FUNCTION static __device__
#define GROUP (int)blockIdx.x
#define THREAD (int)threadIdx.x
#define BARRIER __syncthreads()
#define UNROLL _Pragma("unroll")
#define INFINITY __int_as_float(0x7f800000)
typedef float f32; typedef unsigned short f16;
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
typedef unsigned long long u64;
static __device__ float load_half(const f16 *p, int i)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(p[i]));
    return x;
}
static __device__ void store_half(f16 *p, int i, float x)
{
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(p[i]) : "f"(x));
}
"""
