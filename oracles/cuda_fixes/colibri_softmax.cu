// https://github.com/JustVugg/colibri/pull/1098
// The greatest and the sum of a softmax go through one array: the first warp's partial sums replace the maximum that others still read.
// check --block 256, before the fix: TG102
__global__ void softmax(float *out, const float *in, int count) {
  __shared__ float parts[8];
  int t = threadIdx.x;
  float most = -1e30f, sum = 0;
  for (int k = t; k < count; k += 256) most = fmaxf(most, in[k]);
  for (int by = 16; by > 0; by /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, by));
  if (t % 32 == 0) parts[t / 32] = most;
  __syncthreads();
  for (int k = 0; k < 8; k++) most = fmaxf(most, parts[k]);  // race
#ifdef FIXED
  __syncthreads();
#endif
  for (int k = t; k < count; k += 256) sum += __expf(in[k] - most);
  for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(~0u, sum, by);
  if (t % 32 == 0) parts[t / 32] = sum;  // race
  __syncthreads();
  sum = 0;
  for (int k = 0; k < 8; k++) sum += parts[k];
  for (int k = t; k < count; k += 256) out[k] = __expf(in[k] - most) / sum;
}
