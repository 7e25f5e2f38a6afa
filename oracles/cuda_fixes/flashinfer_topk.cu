// https://github.com/flashinfer-ai/flashinfer/pull/3529
// The k greatest by digits: a round's histogram is set to zero while slow threads still read the last round's from it.
// check --block 256, before the fix: TG102
__global__ void threshold(int *out, const unsigned *keys, int count, int wanted) {
  __shared__ int histogram[257];
  __shared__ int bin;
  int t = threadIdx.x, left = wanted, found = 0;
  for (int round = 0; round < 4; round++) {
    for (int k = t; k < 257; k += 256) histogram[k] = 0;  // race
    if (t == 0) bin = 0;  // race
    __syncthreads();
    for (int k = t; k < count; k += 256) atomicAdd(&histogram[keys[k] >> (24 - 8 * round) & 255], 1);
    __syncthreads();
    for (int by = 1; by < 256; by *= 2) {
      int other = t + by < 256 ? histogram[t + by] : 0;
      __syncthreads();
      histogram[t] += other;
      __syncthreads();
    }
    if (histogram[t] > left && histogram[t + 1] <= left) bin = t;
    __syncthreads();
    int chosen = bin;  // race
    found = found << 8 | chosen;
    left -= histogram[chosen + 1];  // race
#ifdef FIXED
    __syncthreads();
#endif
  }
  if (t == 0) *out = found;
}
