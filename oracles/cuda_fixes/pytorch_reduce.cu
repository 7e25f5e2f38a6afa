// https://github.com/pytorch/pytorch/pull/162995
// A reduction over both sides of a block: the sums across follow the sums down in the same memory, without a barrier between them.
// check --block 64x8, before the fix: TG102
__global__ void reduce(float *out, const float *in) {
  __shared__ float room[512];
  int x = threadIdx.x, y = threadIdx.y, at = y * 64 + x;
  float value = in[blockIdx.x * 512 + at];
  room[at] = value;
  for (int by = 4; by > 0; by /= 2) {
    __syncthreads();
    if (y < by) {
      value += room[at + by * 64];  // race
      room[at] = value;
    }
  }
#ifdef FIXED
  __syncthreads();
#endif
  room[at] = value;  // race
  for (int by = 32; by > 0; by /= 2) {
    __syncthreads();
    if (x < by) {
      value += room[at + by];
      room[at] = value;
    }
  }
  if (x == 0 && y == 0) out[blockIdx.x] = value;
}
