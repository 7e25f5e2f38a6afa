// https://github.com/rapidsai/cudf/pull/20804
// A loop that goes on until an error in shared memory: the first thread sets it for the next round while others still ask whether this round is to begin.
// check --block 128, before the fix: TG102
__global__ void inflate(int *out, const int *kinds, int count) {
  __shared__ int error, kind, at;
  int t = threadIdx.x;
  if (t == 0) error = 0, at = 0;
  __syncthreads();
  while (!error) {  // race
#ifdef FIXED
    __syncthreads();
#endif
    if (t == 0) {
      kind = at < count ? kinds[at] : 0;
      error = at++ >= count;  // race
    }
    __syncthreads();
    if (!error && kind) out[t] += kind;
#ifndef FIXED
    __syncthreads();
#endif
  }
}
