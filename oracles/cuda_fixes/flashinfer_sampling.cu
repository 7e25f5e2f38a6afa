// https://github.com/flashinfer-ai/flashinfer/pull/3624
// A reduction over a long row: each round of a loop gives CUB's block reduction the same memory, which takes a barrier between uses.
// check --block 256, before the fix: TG102
#include <cub/block/block_reduce.cuh>
__global__ void reduce_row(float *out, const float *logits, int count) {
  using Reduce = cub::BlockReduce<float, 256, cub::BLOCK_REDUCE_WARP_REDUCTIONS>;
  __shared__ Reduce::TempStorage room;
  float sum = 0;
  for (int first = 0; first < count; first += 256) {
    int at = first + threadIdx.x;
    sum += Reduce(room).Sum(at < count ? logits[blockIdx.x * count + at] : 0.f);  // race
#ifdef FIXED
    __syncthreads();
#endif
  }
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
