// https://github.com/lablup/mlxcel/pull/923
// The end of a matrix product reuses the memory of its tiles for the result while the last copies into them are still in flight.
// check --block 128, before the fix: TG103
#include <cuda_pipeline_primitives.h>
__global__ void product(float *out, const float *in, int rounds) {
  __shared__ float room[2][128];
  int t = threadIdx.x;
  float sum = 0;
  __pipeline_memcpy_async(&room[0][t], &in[t], 4);  // race
  __pipeline_commit();
  for (int k = 0; k < rounds; k++) {
    __pipeline_memcpy_async(&room[(k + 1) % 2][t], &in[(k + 1) * 128 + t], 4);  // race
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    sum += room[k % 2][t ^ 32];
    __syncthreads();
  }
#ifdef FIXED
  __pipeline_wait_prior(0);
  __syncthreads();
#endif
  room[0][127 - t] = sum;  // race
  __syncthreads();
  out[t] = room[0][t ^ 1];  // race
}
