// https://github.com/flashinfer-ai/flashinfer/pull/3439
// The warps of a state-space model's step load a part of the state each, and read all of it: a barrier of the warp was not enough.
// check --block 128, before the fix: TG101
const int WARPS = 4, ROWS = 32, COLUMNS = 32;
__global__ void step(float *out, const float *in) {
  __shared__ float state[ROWS][COLUMNS];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int row = warp; row < ROWS; row += WARPS) state[row][lane] = in[row * COLUMNS + lane];  // race
#ifdef FIXED
  __syncthreads();
#else
  __syncwarp();
#endif
  float sum = 0;
  for (int row = 0; row < ROWS; row++) sum += state[row][lane] * in[warp * ROWS + row];  // race
  out[threadIdx.x] = sum;
}
