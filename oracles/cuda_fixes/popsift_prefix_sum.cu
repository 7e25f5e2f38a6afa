// https://github.com/alicevision/popsift/commit/c238a92
// A running total over chunks: one thread adds the chunk to it before all have read it.
// check --block 32x32, before the fix: TG106
__global__ void prefix_sum(int *out, const int *in, int count) {
  __shared__ int total;
  __shared__ int sums[32];
  int x = threadIdx.x, y = threadIdx.y;
  if (x == 0 && y == 0) total = 0;
  __syncthreads();
  for (int first = 0; first < count; first += 1024) {
    int at = first + y * 32 + x, self = at < count ? in[at] : 0, inside = self, chunk = 0;
    for (int by = 1; by < 32; by *= 2) {
      int other = __shfl_up_sync(~0u, inside, by);
      inside += x < by ? 0 : other;
    }
    if (x == 31) sums[y] = inside;
    __syncthreads();
    if (y == 0) {
      chunk = sums[x];
      for (int by = 1; by < 32; by *= 2) {
        int other = __shfl_up_sync(~0u, chunk, by);
        chunk += x < by ? 0 : other;
      }
      int before = chunk - sums[x];
      __syncwarp();
      sums[x] = before;
    }
    __syncthreads();
    if (at < count) out[at] = total + sums[y] + inside - self;  // race
#ifdef FIXED
    __syncthreads();
#endif
    if (y == 0 && x == 31) total += chunk;  // race
#ifndef FIXED
    __syncthreads();
#endif
  }
#ifdef FIXED
  __syncthreads();
#endif
  if (x == 0 && y == 0) out[count] = total;
}
