// https://github.com/rapidsai/cudf/pull/20975
// The first thread moves the end of a page, and all threads go on from there.
// check --block 128, before the fix: TG101
__global__ void encode(unsigned char *out, const unsigned char *in, int width, int count) {
  __shared__ unsigned end;
  int t = threadIdx.x;
  if (t == 0) end = 0;
  __syncthreads();
  for (int k = t; k < count; k += 128) out[k] = in[k];
  __syncthreads();
  if (t == 0) end += (width - 1) * count;  // race
#ifdef FIXED
  __syncthreads();
#endif
  for (unsigned k = end + t; k < width * count; k += 128) out[k] = 0;  // race
}
