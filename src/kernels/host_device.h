#pragma once
// What a function is marked with that the host and a kernel both call.
#ifdef __CUDACC__
#define TF_HOST_DEVICE __host__ __device__
#else
#define TF_HOST_DEVICE
#endif
