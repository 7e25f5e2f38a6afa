// https://github.com/rapidsai/cuml/pull/3215
// The votes of a forest: each class adds up its votes, then the classes are compared in the same memory, while others still add.
// check --block 256, before the fix: TG102
const int CLASSES = 16;
__global__ void vote(int *best, const float *in) {
  __shared__ float2 room[256];
  float *votes = (float *)room;
  int t = threadIdx.x;
  votes[t] = in[blockIdx.x * 256 + t];
  __syncthreads();
  float sum = 0;
  if (t < CLASSES)
    for (int k = t; k < 256; k += CLASSES) sum += votes[k];  // race
#ifdef FIXED
  __syncthreads();
#endif
  room[t] = make_float2(t, sum);  // race
  __syncthreads();
  if (t == 0) {
    float2 most = room[0];
    for (int k = 1; k < CLASSES; k++)
      if (room[k].y > most.y) most = room[k];
    best[blockIdx.x] = (int)most.x;
  }
}
