// https://github.com/csarofeen/pytorch/pull/2470
// A ring of copies: the wait in the loop stands before the commit of the round's copy, and so leaves one group too many in flight.
// check --block 128, before the fix: TG101
#include <cuda_pipeline_primitives.h>
const int STAGES = 4;
__global__ void pipeline(float *out, const float *in, int rounds) {
  __shared__ float ring[STAGES][128];
  int t = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < STAGES - 1; k++) {
    __pipeline_memcpy_async(&ring[k][t], &in[k * 128 + t], 4);  // race
    __pipeline_commit();
  }
  __pipeline_wait_prior(STAGES - 2);
  __syncthreads();
  for (int k = 0; k < rounds; k++) {
    __pipeline_memcpy_async(&ring[(k + STAGES - 1) % STAGES][t], &in[(k + STAGES - 1) * 128 + t], 4);  // race
#ifdef FIXED
    __pipeline_commit();
#endif
    sum += ring[k % STAGES][t ^ 32];  // race
    __pipeline_wait_prior(STAGES - 2);
#ifndef FIXED
    __pipeline_commit();
#endif
    __syncthreads();
  }
  __pipeline_wait_prior(0);
  out[t] = sum;
}
