// https://github.com/rapidsai/cudf/pull/20853
// Positions of rows: all threads read how many there are, and the thread of the last row counts up, unordered with that.
// check --block 128, before the fix: TG102
__global__ void positions(int *out, const unsigned char *valid, int rows, int most) {
  __shared__ int found;
  __shared__ int row[1024];
  __shared__ int prefix[128];
  int t = threadIdx.x;
  if (t == 0) found = 0;
  __syncthreads();
  for (int first = 0; first < rows; first += 128) {
    prefix[t] = first + t < rows ? valid[first + t] & 1 : 0;
    __syncthreads();
    for (int by = 1; by < 128; by *= 2) {
      int other = t >= by ? prefix[t - by] : 0;
      __syncthreads();
      prefix[t] += other;
      __syncthreads();
    }
    int place = found + prefix[t];  // race
    if (place <= most) row[t] = first + t;
#ifdef FIXED
    __syncthreads();
#endif
    if (t == 127) found = min(place, most);  // race
    __syncthreads();
    out[first + t] = row[t];
  }
}
