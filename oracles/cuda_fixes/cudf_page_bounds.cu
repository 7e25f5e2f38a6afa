// https://github.com/rapidsai/cudf/pull/20868
// The first thread stores a count, and all threads read it back at once instead of taking it from the reduction.
// check --block 128, before the fix: TG101
struct Page { int values, nulls; };
__global__ void page_bounds(int *out, const unsigned char *levels, int count) {
  __shared__ Page page;
  __shared__ int parts[4];
  int t = threadIdx.x, nulls = 0;
  for (int k = t; k < count; k += 128) nulls += levels[k] == 0;
  for (int by = 16; by > 0; by /= 2) nulls += __shfl_xor_sync(~0u, nulls, by);
  if (t % 32 == 0) parts[t / 32] = nulls;
  __syncthreads();
  int all = parts[0] + parts[1] + parts[2] + parts[3];
  if (t == 0) page.nulls = all, page.values = count - all;  // race
#ifdef FIXED
  out[t] = count - all;
#else
  out[t] = count - page.nulls;  // race
#endif
}
