// https://github.com/alicevision/popsift/pull/82
// The histogram of a keypoint's gradients: the lanes of the block's one warp set it to zero, and others count into it.
// check --block 32, before the fix: TG106
const int BINS = 36;
__global__ void orientation(float *out, const float *angle, const float *weight, int count) {
  __shared__ float histogram[BINS];
  for (int k = threadIdx.x; k < BINS; k += 32) histogram[k] = 0;  // race
#ifdef FIXED
  __syncthreads();
#endif
  for (int k = threadIdx.x; k < count; k += 32) atomicAdd(&histogram[(int)angle[k] % BINS], weight[k]);  // race
  __syncthreads();
  for (int k = threadIdx.x; k < BINS; k += 32) out[k] = histogram[k];
}
