// https://github.com/zjin-lcf/HeCBench/pull/90
// Tiles of points: a fast warp loads the next tile over the one that a slow warp still reads.
// check --block 256, before the fix: TG106
__global__ void interpolate(float *out, const float *x, const float *z, int count, int tiles) {
  __shared__ float sx[256], sz[256];
  int t = threadIdx.x;
  float up = 0, down = 0, mine = out[blockIdx.x * 256 + t];
  for (int tile = 0; tile < tiles; tile++) {
    if (t < count - 256 * tile) {
      sx[t] = x[256 * tile + t];  // race
      sz[t] = z[256 * tile + t];  // race
    }
    __syncthreads();
    for (int k = 0; k < 256; k++) {
      float near = 1 / ((mine - sx[k]) * (mine - sx[k]));  // race
      down += near;
      up += near * sz[k];  // race
    }
#ifdef FIXED
    __syncthreads();
#endif
  }
  out[blockIdx.x * 256 + t] = up / down;
}
