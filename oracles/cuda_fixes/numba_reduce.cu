// https://github.com/numba/numba/pull/6127
// Numba's reduction within a warp: halves are added in shared memory, and lanes were expected to run in lockstep.
// check --block 128, before the fix: TG108
__global__ void reduce(float *out, const float *in) {
  __shared__ float partial[4][33];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  partial[warp][lane] = in[blockIdx.x * 128 + threadIdx.x];  // race
#ifdef FIXED
  __syncwarp();
#endif
  for (int width = 16; width > 0; width /= 2) {
    if (lane < width) partial[warp][lane] += partial[warp][lane + width];  // race
#ifdef FIXED
    __syncwarp();
#endif
  }
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = partial[0][0] + partial[1][0] + partial[2][0] + partial[3][0];
}
