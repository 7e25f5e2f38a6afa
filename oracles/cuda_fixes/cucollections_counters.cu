// https://github.com/NVIDIA/cuCollections/pull/337
// The counters of groups of eight lanes are set to zero by the first lane, and the lanes of the group count without waiting for it.
// check --block 128, before the fix: TG106
__global__ void retrieve(int *out, const int *keys, int count) {
  __shared__ int counter[16];
  int group = threadIdx.x / 8, lane = threadIdx.x % 8;
  if (lane == 0) counter[group] = 0;  // race
#ifdef FIXED
  __syncthreads();
#endif
  for (int k = threadIdx.x; k < count; k += 128)
    if (keys[k] > 0) atomicAdd(&counter[group], 1);  // race
  __syncthreads();
  if (lane == 0) out[group] = counter[group];
}
