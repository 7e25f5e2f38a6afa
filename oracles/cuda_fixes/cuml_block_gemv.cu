// https://github.com/NVIDIA/cuml/pull/6578
// A block's product of a matrix and a vector: rows go around a loop, and the next round's partial sums replace those that the first column still adds up.
// check --block 256, before the fix: TG106
const int ROWS = 32, COLUMNS = 8;
__global__ void block_gemv(float *y, const float *a, const float *x, int m, int n) {
  __shared__ float partial[ROWS * COLUMNS];
  int row = threadIdx.x % ROWS, column = threadIdx.x / ROWS;
  for (int first = 0; first < m; first += ROWS) {
    int i = first + row;
    if (i < m) {
      float sum = 0;
      for (int j = column; j < n; j += COLUMNS) sum += a[j * m + i] * x[j];
      partial[threadIdx.x] = sum;  // race
    }
    __syncthreads();
    if (i < m && column == 0) {
      float sum = 0;
      for (int j = 0; j < COLUMNS; j++) sum += partial[j * ROWS + row];  // race
      y[i] = sum;
    }
#ifdef FIXED
    __syncthreads();
#endif
  }
}
