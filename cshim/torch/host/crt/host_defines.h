// Stands in for CUDA's header of this name where the toolkit is not installed. What it
// says to the CUDA compiler means nothing to a host compiler, except alignment.
#ifndef STALLOC_TORCH_HOST_DEFINES_H
#define STALLOC_TORCH_HOST_DEFINES_H
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __no_return__ __attribute__((noreturn))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __annotate__(a)
#define __location__(a)
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __grid_constant__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __builtin_align__(n) __align__(n)
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#endif
