// https://github.com/rapidsai/cudf/pull/21051
// All threads ask how far a decoder is; the first warp moves it on, unordered with the question of the others.
// check --block 128, before the fix: TG102
__global__ void skip(int *out, const int *lengths, int wanted) {
  __shared__ int current;
  __shared__ int values[32];
  int t = threadIdx.x;
  if (t == 0) current = 0;
  __syncthreads();
  while (current < wanted) {  // race
#ifdef FIXED
    __syncthreads();
#endif
    if (t < 32) {
      values[t] = lengths[current + t];
      __syncwarp();
      if (t == 0) current += 32;  // race
    }
    __syncthreads();
  }
  if (t < 32) out[t] = values[t];
}
