// Packed weights: w = scale * q + bias, with `q` of BITS bits in a little-endian stream of words for each row, and a
// scale and bias for every GROUP elements. S: type of scales and biases.

#define WORDS(n) ((n) * BITS / 32)

// Element `e` of a row.
DEV u32 unpack(const u32* row, u64 e) {
  u64 bit = e * BITS;
  u32 shift = (u32)(bit & 31);
  u32 v = row[bit >> 5] >> shift;
#if 32 % BITS != 0
  if (shift + BITS > 32) v |= row[(bit >> 5) + 1] << (32 - shift);
#endif
  return v & ((1u << BITS) - 1u);
}

// Byte `i` of a word as a float, exactly: under the exponent of 2^23 it is the last digits.
template <int i> DEV float byte_float(u32 w) {
  return __uint_as_float(__byte_perm(w, 0x4b000000u, 0x7440 | i)) - 8388608.0f;
}

#ifdef KERNEL_dequantize
// OUT: results. A thread for each EACH elements, which lie in one group.
extern "C" __global__ void __launch_bounds__(256)
dequantize(const u32* words, const S* scales, const S* biases, OUT* y, u64 n, u64 total) {
  BEGIN;
  u64 t = ((u64)blockIdx.x * 256 + threadIdx.x) * EACH;
  if (t >= total) return;
  u64 row = t / n, e = t - row * n, g = t / GROUP;
  const u32* w = words + row * WORDS(n);
  float s = get<S>(scales[g]), b = get<S>(biases[g]);
  Vec<OUT, EACH> r;
#if EACH == 8 && BITS == 4
  u32 v = w[e >> 3], low = v & 0x0f0f0f0fu, high = (v >> 4) & 0x0f0f0f0fu;
#define PAIR(i)                                          \
  r.v[2 * i] = put<OUT>(s * byte_float<i>(low) + b);     \
  r.v[2 * i + 1] = put<OUT>(s * byte_float<i>(high) + b);
  PAIR(0) PAIR(1) PAIR(2) PAIR(3)
#else
#pragma unroll
  for (int j = 0; j < EACH; j++) r.v[j] = put<OUT>(s * (float)unpack(w, e + j) + b);
#endif
  *(Vec<OUT, EACH>*)(y + t) = r;
}
#endif

#ifdef KERNEL_gemv
// y = x @ w.T for BITS 4 or 8 and groups of whole pieces of 16 bytes. A warp does R rows of `w` and M of `x`, so that
// what is loaded and unpacked serves several products. T: x and y.
#define PER_WORD (32 / BITS)
#define PIECE (128 / BITS)
extern "C" __global__ void __launch_bounds__(128)
gemv(const T* x, const u32* words, const S* scales, const S* biases, T* y, u64 n, u64 outs, u64 rows) {
  BEGIN;
  u64 o = ((u64)blockIdx.x * 4 + threadIdx.y) * R, m0 = (u64)blockIdx.y * M;
  if (o >= outs) return;
  const int lane = threadIdx.x;
  float acc[R][M] = {};
  for (u64 e = (u64)lane * PIECE; e < n; e += 32 * PIECE) {
    uint4 w[R];
    float s[R], b[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
      u64 row = o + r < outs ? o + r : outs - 1;
      w[r] = __ldcs((const uint4*)(words + row * WORDS(n) + e / PER_WORD));
      s[r] = get<S>(scales[row * (n / GROUP) + e / GROUP]);
      b[r] = get<S>(biases[row * (n / GROUP) + e / GROUP]);
    }
    float dot[R][M] = {}, sum[M] = {};
#pragma unroll
    for (int k = 0; k < 4; k++) {
      float v[M][PER_WORD];
#pragma unroll
      for (int m = 0; m < M; m++) {
        const T* from = x + (m0 + m < rows ? m0 + m : rows - 1) * n + e + k * PER_WORD;
#if ALIGNED
        Vec<T, PER_WORD> part = *(const Vec<T, PER_WORD>*)from;
#pragma unroll
        for (int j = 0; j < PER_WORD; j++) v[m][j] = get<T>(part.v[j]);
#else
#pragma unroll
        for (int j = 0; j < PER_WORD; j++) v[m][j] = get<T>(from[j]);
#endif
#pragma unroll
        for (int j = 0; j < PER_WORD; j++) sum[m] += v[m][j];
      }
#pragma unroll
      for (int r = 0; r < R; r++) {
        u32 word = k == 0 ? w[r].x : k == 1 ? w[r].y : k == 2 ? w[r].z : w[r].w;
        float q[PER_WORD];
#if BITS == 4
        u32 low = word & 0x0f0f0f0fu, high = (word >> 4) & 0x0f0f0f0fu;
        q[0] = byte_float<0>(low); q[1] = byte_float<0>(high);
        q[2] = byte_float<1>(low); q[3] = byte_float<1>(high);
        q[4] = byte_float<2>(low); q[5] = byte_float<2>(high);
        q[6] = byte_float<3>(low); q[7] = byte_float<3>(high);
#else
        q[0] = byte_float<0>(word); q[1] = byte_float<1>(word);
        q[2] = byte_float<2>(word); q[3] = byte_float<3>(word);
#endif
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
          for (int j = 0; j < PER_WORD; j++) dot[r][m] = fmaf(q[j], v[m][j], dot[r][m]);
      }
    }
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
      for (int m = 0; m < M; m++) acc[r][m] += s[r] * dot[r][m] + b[r] * sum[m];
  }
#pragma unroll
  for (int r = 0; r < R; r++)
#pragma unroll
    for (int m = 0; m < M; m++) {
      float all = warp_all<OpAdd>(acc[r][m]);
      if (lane == 0 && o + r < outs && m0 + m < rows) y[(m0 + m) * outs + o + r] = put<T>(all);
    }
}
#endif

#ifdef KERNEL_few
// y = x @ w.T for up to 8 * NT rows of halves, BITS 4 or 8, on tensor cores. A block does 16 rows of `w`; its WARPS take
// turns at spans of 128 bytes of each row, and their sums are added up at the end. Each fetches STAGES spans ahead. A span
// is SPAN pieces of CHUNK columns, the last one perhaps fewer. T: f16 or bf16, as x and y; ALIGNED: whether the scales of
// a span can be fetched at once.
//
// A product of 16 rows by 16 columns does not care about the order of its columns, so each thread takes CHUNK / 4
// neighbouring ones of `w` and `x`, in the order in which they come out of a word: a quad does one piece, which has one
// scale. Numbers q of 4 bits are read as OFFSET + q, which takes one instruction for two of them; a product with ones
// gives the sum of `x`, which the offset and the bias are multiplied by.
#define EACH (CHUNK / 4)
#define WORDS_EACH (EACH * BITS / 32)
#define STEPS (CHUNK / 16)
#define SPAN (1024 / (CHUNK * BITS))
#define SCALES (SPAN * CHUNK > GROUP ? SPAN * CHUNK / GROUP : 1)
#define HALF_IS_BF16 (sizeof(Tag<T>) == 1)
template <class V> struct Tag { u16 v; };
template <> struct Tag<bf16> { u8 v; };

DEV void product(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  if (HALF_IS_BF16)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// The pairs of one word or half of it: those of the first and of the last eight columns of step `k`.
DEV void pairs(const u32* w, int k, u32& first, u32& last) {
#if BITS == 4
  const u32 high = HALF_IS_BF16 ? 0x43004300u : 0x64006400u;
  u32 v = w[k >> 1] >> (8 * (k & 1));
  // (v & mask) | high in one instruction.
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(first) : "r"(v), "r"(0x000f000fu), "r"(high));
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(last) : "r"(v >> 4), "r"(0x000f000fu), "r"(high));
#else
  u32 v = w[k];
  if (HALF_IS_BF16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(first) : "f"(byte_float<1>(v)), "f"(byte_float<0>(v)));
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(last) : "f"(byte_float<3>(v)), "f"(byte_float<2>(v)));
  } else {
    first = __byte_perm(v, 0x64646464u, 0x4140);
    last = __byte_perm(v, 0x64646464u, 0x4342);
  }
#endif
}

// Copies to shared memory that go on while the thread computes.
template <int BYTES> DEV void copy_ahead(void* to, const void* from) {
  u32 at = (u32)__cvta_generic_to_shared(to);
  if (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(from) : "memory");
  else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(at), "l"(from), "n"(BYTES < 16 ? BYTES : 4) : "memory");
}

// What a warp has of one span: 128 bytes of each of 16 rows in units of 16 bytes, and its scales and biases.
struct alignas(16) Stage {
  uint4 words[16][8];
  Vec<S, SCALES> scales[2][16];
};
// Where a unit of a row is, so that the threads of a warp read from different banks.
DEV int place(int row, int unit) { return WORDS_EACH == 1 ? unit ^ (row & 7) : unit ^ ((row & 3) << 1); }

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS)
few(const T* x, const u32* words, const S* scales, const S* biases, T* y, u64 n, u64 outs, u64 rows) {
  BEGIN;
  __shared__ union { Stage stages[WARPS][STAGES]; float parts[WARPS][NT][16][8]; } shared;
  const float offset = BITS == 4 ? (HALF_IS_BF16 ? 128.0f : 1024.0f) : (HALF_IS_BF16 ? 0.0f : 1024.0f);
  const u32 ones = HALF_IS_BF16 ? 0x3f803f80u : 0x3c003c00u;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const u64 o0 = (u64)blockIdx.x * 16, groups = n / GROUP, pieces = n / CHUNK, spans = (pieces + SPAN - 1) / SPAN;
  const u64 units = n * BITS / 128;  // of a row
  Stage* mine = shared.stages[warp];

  auto fetch = [&](u64 span, Stage& to) {
    if (span < spans) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        int row = j * 4 + (lane >> 3), unit = lane & 7;
        u64 o = o0 + row < outs ? o0 + row : outs - 1;
        if (span * 8 + unit < units)
          copy_ahead<16>(&to.words[row][place(row, unit)], (const uint4*)words + o * units + span * 8 + unit);
      }
      int row = lane & 15;
      u64 o = o0 + row < outs ? o0 + row : outs - 1, first = span * SPAN * CHUNK / GROUP;
      const S* from = (lane < 16 ? scales : biases) + o * groups + first;
      Vec<S, SCALES>* at = &to.scales[lane >> 4][row];
      const int bytes = SCALES * sizeof(S);
      if (ALIGNED && bytes >= 4 && first + SCALES <= groups) {
        if (bytes <= 16) copy_ahead<bytes>(at, from);
        else
#pragma unroll
          for (int k = 0; k < bytes / 16; k++) copy_ahead<16>((uint4*)at + k, (const uint4*)from + k);
      } else
#pragma unroll
        for (int k = 0; k < SCALES; k++) if (first + k < groups) at->v[k] = from[k];
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  float acc[NT][4] = {};
#pragma unroll
  for (int k = 0; k < STAGES; k++) fetch(warp + k * WARPS, mine[k]);
  int stage = 0;
  for (u64 span = warp; span < spans; span += WARPS) {
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 1) : "memory");
    __syncwarp();
    Vec<u32, WORDS_EACH> w[SPAN][2];
    Vec<S, SCALES> ss[2], bs[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
      int row = h * 8 + g;
#pragma unroll
      for (int i = 0; i < SPAN; i++) {
        int word = i * (CHUNK * BITS / 32) + t * WORDS_EACH;
        w[i][h] = *(const Vec<u32, WORDS_EACH>*)((const u32*)&mine[stage].words[row][place(row, word >> 2)] + (word & 3));
      }
      ss[h] = mine[stage].scales[0][row];
      bs[h] = mine[stage].scales[1][row];
    }
    __syncwarp();
    fetch(span + STAGES * WARPS, mine[stage]);
    stage = stage + 1 == STAGES ? 0 : stage + 1;
#pragma unroll
    for (int i = 0; i < SPAN; i++) {
      const u64 c = span * SPAN + i;
      if (c >= pieces) break;
      u32 xs[NT][STEPS][2];
#pragma unroll
      for (int j = 0; j < NT; j++) {
        u64 m = (u64)j * 8 + g;
        uint4 v[EACH / 8];
#pragma unroll
        for (int k = 0; k < EACH / 8; k++)
          v[k] = m < rows ? ((const uint4*)(x + m * n + c * CHUNK + t * EACH))[k] : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int k = 0; k < EACH / 8; k++) {
#if BITS == 4
          xs[j][2 * k][0] = __byte_perm(v[k].x, v[k].z, 0x5410);
          xs[j][2 * k][1] = __byte_perm(v[k].x, v[k].z, 0x7632);
          xs[j][2 * k + 1][0] = __byte_perm(v[k].y, v[k].w, 0x5410);
          xs[j][2 * k + 1][1] = __byte_perm(v[k].y, v[k].w, 0x7632);
#else
          xs[j][2 * k][0] = v[k].x;
          xs[j][2 * k][1] = v[k].y;
          xs[j][2 * k + 1][0] = v[k].z;
          xs[j][2 * k + 1][1] = v[k].w;
#endif
        }
      }
      float sum[NT][4] = {}, dot[NT][4] = {};
#pragma unroll
      for (int k = 0; k < STEPS; k++) {
        u32 a0, a1, a2, a3;
        pairs(w[i][0].v, k, a0, a2);
        pairs(w[i][1].v, k, a1, a3);
#pragma unroll
        for (int j = 0; j < NT; j++) {
          product(sum[j], ones, ones, ones, ones, xs[j][k][0], xs[j][k][1]);
          product(dot[j], a0, a1, a2, a3, xs[j][k][0], xs[j][k][1]);
        }
      }
      const int group = i * CHUNK / GROUP;
      float s0 = get<S>(ss[0].v[group]), s1 = get<S>(ss[1].v[group]);
      float b0 = fmaf(-offset, s0, get<S>(bs[0].v[group])), b1 = fmaf(-offset, s1, get<S>(bs[1].v[group]));
#pragma unroll
      for (int j = 0; j < NT; j++) {
        acc[j][0] = fmaf(s0, dot[j][0], fmaf(b0, sum[j][0], acc[j][0]));
        acc[j][1] = fmaf(s0, dot[j][1], fmaf(b0, sum[j][1], acc[j][1]));
        acc[j][2] = fmaf(s1, dot[j][2], fmaf(b1, sum[j][0], acc[j][2]));
        acc[j][3] = fmaf(s1, dot[j][3], fmaf(b1, sum[j][1], acc[j][3]));
      }
    }
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
#pragma unroll
  for (int j = 0; j < NT; j++) {
    float (*to)[8] = shared.parts[warp][j];
    to[g][2 * t] = acc[j][0];
    to[g][2 * t + 1] = acc[j][1];
    to[g + 8][2 * t] = acc[j][2];
    to[g + 8][2 * t + 1] = acc[j][3];
  }
  __syncthreads();
  for (int e = threadIdx.x; e < NT * 128; e += 32 * WARPS) {
    int o = e & 15, m = e >> 4;
    if ((u64)m >= rows) break;
    float all = 0.0f;
#pragma unroll
    for (int k = 0; k < WARPS; k++) all += shared.parts[k][m >> 3][o][m & 7];
    if (o0 + o < outs) y[(u64)m * outs + o0 + o] = put<T>(all);
  }
}
#endif

#ifdef KERNEL_gemv_any
// The same for any width and group: a warp for each result.
extern "C" __global__ void __launch_bounds__(128)
gemv_any(const T* x, const u32* words, const S* scales, const S* biases, T* y, u64 n, u64 outs, u64 rows) {
  BEGIN;
  u64 o = (u64)blockIdx.x * 4 + threadIdx.y, m = blockIdx.y;
  if (o >= outs) return;
  const u32* w = words + o * WORDS(n);
  float acc = 0.0f;
  for (u64 e = threadIdx.x; e < n; e += 32) {
    u64 g = o * (n / GROUP) + e / GROUP;
    acc += get<T>(x[m * n + e]) * (get<S>(scales[g]) * (float)unpack(w, e) + get<S>(biases[g]));
  }
  acc = warp_all<OpAdd>(acc);
  if (threadIdx.x == 0) y[m * outs + o] = put<T>(acc);
}
#endif
