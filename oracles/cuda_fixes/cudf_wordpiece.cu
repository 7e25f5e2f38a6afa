// https://github.com/rapidsai/cudf/pull/20588
// The lanes of a warp note where words begin, one lane goes through what they noted, and all read what it left.
// check --block 32, before the fix: TG108
__global__ void words(int *out, const char *text, int count) {
  __shared__ int starts[128];
  int lane = threadIdx.x, kept = 0;
  for (int k = lane; k < 128; k += 32) starts[k] = k < count && text[k] == ' ' ? k : -1;  // race
#ifdef FIXED
  __syncwarp();
#endif
  if (lane == 0)
    for (int k = 0; k < min(count, 128); k++)
      if (starts[k] >= 0) starts[kept++] = starts[k];  // race
  kept = __shfl_sync(~0u, kept, 0);
#ifdef FIXED
  __syncwarp();
#endif
  for (int k = lane; k < min(kept, count); k += 32) out[k] = starts[k];  // race
}
