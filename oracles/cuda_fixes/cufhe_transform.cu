// https://github.com/vernamlab/cuFHE/pull/4
// A transform reads its input from shared memory in rows and writes its intermediate values to the same memory in columns, with a barrier between its steps but none before the first write.
// check --block 128, before the fix: TG102
__device__ void transform(unsigned *values, unsigned *room, int t) {
  unsigned *to = &room[(t & 7) << 7 | t >> 3 << 3];
#ifdef FIXED
  __syncthreads();
#endif
  for (int k = 0; k < 8; k++) to[k] = values[k] * 5;  // race
  __syncthreads();
  for (int k = 0; k < 8; k++) values[k] = room[k << 7 | t] + 1;
}
__global__ void forward(unsigned *out, const unsigned *in) {
  __shared__ unsigned data[1024];
  unsigned values[8];
  int t = threadIdx.x;
  for (int k = 0; k < 8; k++) data[k << 7 | t] = in[k << 7 | t];
  __syncthreads();
  for (int k = 0; k < 8; k++) values[k] = data[t << 3 | k];  // race
  transform(values, data, t);
  for (int k = 0; k < 8; k++) out[k << 7 | t] = values[k];
}
