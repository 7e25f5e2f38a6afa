// https://github.com/rapidsai/cuml/commit/01daa30818
// Many sums at once: groups of eight lanes reduce in rounds through one array, and a group writes the sums of the next round before another has read those of this one.
// check --block 256, before the fix: TG102
const int LANES = 8, GROUPS = 4;  // lanes of a group, groups of a warp
__global__ void batched_reduce(float *out, const float *in) {
  __shared__ float sums[256 / GROUPS];
  int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  float value = in[threadIdx.x];
  for (int left = 256 / LANES; left > 0;) {
    int aligned = (left + GROUPS - 1) / GROUPS * GROUPS;
    if (group < aligned) {
      for (int by = 8; by < 32; by *= 2) value += __shfl_xor_sync(~0u, value, by);
      if (threadIdx.x % 32 < LANES) sums[group / GROUPS * LANES + lane] = value;  // race
    }
    __syncthreads();
    left /= GROUPS;
    if (left > 0) value = group < left ? sums[group * LANES + lane] : 0;  // race
#ifdef FIXED
    __syncthreads();
#endif
  }
  if (threadIdx.x < LANES) out[threadIdx.x] = value;
}
