// A barrier is missing: tiles are read while other warps write them.
// Transposes a matrix by tiles of 32x32, in blocks of 32x8 threads; one column more keeps banks apart.
//
//     tidegate check transpose_race.cu --block 32x8
template <int Tile, int Rows>
__device__ void transpose_tiles(float *out, const float *in, int width, int height, int tiles) {
  __shared__ float tile[Tile][Tile + 1];
  for (int n = 0; n < tiles; n++) {
    int from = (blockIdx.x * tiles + n) * Tile, top = blockIdx.y * Tile;
    for (int row = threadIdx.y; row < Tile; row += Rows)
      tile[row][threadIdx.x] = in[(top + row) * width + from + threadIdx.x];
    for (int row = threadIdx.y; row < Tile; row += Rows)
      out[(from + row) * height + top + threadIdx.x] = tile[threadIdx.x][row];
    __syncthreads();  // the next tile is written over this one
  }
}

__global__ void transpose(float *out, const float *in, int width, int height, int tiles) {
  transpose_tiles<32, 8>(out, in, width, height, tiles);
}
