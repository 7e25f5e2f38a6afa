// https://github.com/alicevision/popsift/commit/de5311e
// A barrier in a loop that the threads of a block go around different numbers of times.
// check --block 64, before the fix: TG407
__global__ void describe(float *out, const float *in, int width, int height) {
  __shared__ float sums[64];
  int loops = width * height;
  float sum = 0;
#ifdef FIXED
  for (int first = 0; first < loops; first += 64) {
    int i = first + threadIdx.x;
    if (i < loops) sum += in[i];
    __syncthreads();
  }
#else
  for (int i = threadIdx.x; i < loops; i += 64) {
    sum += in[i];
    __syncthreads();  // race
  }
#endif
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float all = 0;
    for (int k = 0; k < 64; k++) all += sums[k];
    *out = all;
  }
}
