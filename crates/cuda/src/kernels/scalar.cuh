// Elementwise functions, each with the results that the operations define.

#define INTEGERS(F) F(u8, u8) F(u16, u16) F(u32, u32) F(u64, u64) F(i8, u8) F(i16, u16) F(i32, u32) F(i64, u64)

// Arithmetic wraps; quotients round down; a divisor of 0 gives 0; shifts by the width or more leave the sign.
#define INTEGER(T, U)                                                                                     \
  DEV T add(T a, T b) { return (T)(U)((U)a + (U)b); }                                                     \
  DEV T sub(T a, T b) { return (T)(U)((U)a - (U)b); }                                                     \
  DEV T mul(T a, T b) { return (T)(U)((u64)(U)a * (u64)(U)b); }                                           \
  DEV T neg(T a) { return (T)(U)(0 - (U)a); }                                                             \
  DEV T div_wrapping(T a, T b) { return (T)-1 < (T)0 && b == (T)-1 ? neg(a) : (T)(a / b); }               \
  DEV T rem_wrapping(T a, T b) { return (T)-1 < (T)0 && b == (T)-1 ? (T)0 : (T)(a % b); }                 \
  DEV T floor_divide(T a, T b) {                                                                          \
    if (b == 0) return 0;                                                                                 \
    T q = div_wrapping(a, b), r = rem_wrapping(a, b);                                                     \
    return r != 0 && (r < 0) != (b < 0) ? (T)(q - 1) : q;                                                 \
  }                                                                                                       \
  DEV T remainder_(T a, T b) {                                                                            \
    if (b == 0) return 0;                                                                                 \
    T r = rem_wrapping(a, b);                                                                             \
    return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;                                                 \
  }                                                                                                       \
  DEV T power(T a, T b) {                                                                                 \
    if (b < 0) {                                                                                          \
      if (a == 1) return 1;                                                                               \
      return (T)-1 < (T)0 && a == (T)-1 ? ((b & 1) ? a : (T)1) : (T)0;                                    \
    }                                                                                                     \
    T r = 1;                                                                                              \
    for (T e = b; e != 0; e = (T)(e >> 1)) {                                                              \
      if (e & 1) r = mul(r, a);                                                                           \
      a = mul(a, a);                                                                                      \
    }                                                                                                     \
    return r;                                                                                             \
  }                                                                                                       \
  DEV T left_shift(T a, T b) { return b < 0 || (u64)b >= sizeof(T) * 8 ? (T)0 : (T)(U)((U)a << b); }      \
  DEV T right_shift(T a, T b) {                                                                           \
    return b < 0 || (u64)b >= sizeof(T) * 8 ? (T)(a < 0 ? -1 : 0) : (T)(a >> b);                          \
  }                                                                                                       \
  DEV T maximum(T a, T b) { return a > b ? a : b; }                                                       \
  DEV T minimum(T a, T b) { return a < b ? a : b; }                                                       \
  DEV T bit_and(T a, T b) { return (T)(a & b); }                                                          \
  DEV T bit_or(T a, T b) { return (T)(a | b); }                                                           \
  DEV T bit_xor(T a, T b) { return (T)(a ^ b); }                                                          \
  DEV T bit_not(T a) { return (T)~a; }                                                                    \
  DEV T absolute(T a) { return a < 0 ? neg(a) : a; }                                                      \
  DEV T sign(T a) { return (T)((a > 0) - (a < 0)); }                                                      \
  DEV T ceil_(T a) { return a; }                                                                          \
  DEV T floor_(T a) { return a; }                                                                         \
  DEV T round_(T a) { return a; }                                                                         \
  DEV T trunc_(T a) { return a; }                                                                         \
  DEV T square(T a) { return mul(a, a); }                                                                 \
  DEV bool logical_not(T a) { return a == 0; }                                                            \
  DEV bool logical_and(T a, T b) { return a != 0 && b != 0; }                                             \
  DEV bool logical_or(T a, T b) { return a != 0 || b != 0; }                                              \
  DEV bool equal(T a, T b) { return a == b; }                                                             \
  DEV bool not_equal(T a, T b) { return a != b; }                                                         \
  DEV bool less(T a, T b) { return a < b; }                                                               \
  DEV bool less_equal(T a, T b) { return a <= b; }                                                        \
  DEV bool greater(T a, T b) { return a > b; }                                                            \
  DEV bool greater_equal(T a, T b) { return a >= b; }
INTEGERS(INTEGER)

DEV bool add(bool a, bool b) { return a || b; }
DEV bool mul(bool a, bool b) { return a && b; }
DEV bool square(bool a) { return a; }
DEV bool maximum(bool a, bool b) { return a || b; }
DEV bool minimum(bool a, bool b) { return a && b; }
DEV bool bit_and(bool a, bool b) { return a && b; }
DEV bool bit_or(bool a, bool b) { return a || b; }
DEV bool bit_xor(bool a, bool b) { return a != b; }
DEV bool bit_not(bool a) { return !a; }
DEV bool absolute(bool a) { return a; }
DEV bool sign(bool a) { return a; }
DEV bool ceil_(bool a) { return a; }
DEV bool floor_(bool a) { return a; }
DEV bool round_(bool a) { return a; }
DEV bool trunc_(bool a) { return a; }
DEV bool logical_not(bool a) { return !a; }
DEV bool logical_and(bool a, bool b) { return a && b; }
DEV bool logical_or(bool a, bool b) { return a || b; }
DEV bool equal(bool a, bool b) { return a == b; }
DEV bool not_equal(bool a, bool b) { return a != b; }
DEV bool less(bool a, bool b) { return !a && b; }
DEV bool less_equal(bool a, bool b) { return !a || b; }
DEV bool greater(bool a, bool b) { return a && !b; }
DEV bool greater_equal(bool a, bool b) { return a || !b; }

// Inverse error function in double: Winitzki's start (2008) and Halley's steps, on the complement near 1.
static __device__ __noinline__ double erfinv_wide(double x) {
  double a = fabs(x);
  if (a == 1.0) return copysign((double)INF, x);
  if (!(a < 1.0)) return (double)NAN_F;
  if (a < 1e-9) return x * 0.88622692545275801365;
  double l = log1p(-a) + log1p(a);
  double k = 2.0 / (3.14159265358979323846 * 0.147) + l / 2.0;
  double y = sqrt(sqrt(k * k - l / 0.147) - k);
  for (int i = 0; i < 3; i++) {
    double miss = a > 0.5 ? (1.0 - a) - erfc(y) : erf(y) - a;
    double step = miss / (1.12837916709551257390 * exp(-y * y));
    y -= step / (1.0 + y * step);
  }
  return copysign(y, x);
}
DEV float erfinv_(float x) { return (float)erfinv_wide((double)x); }
DEV double erfinv_(double x) { return erfinv_wide(x); }

// Logarithmic derivative of the gamma function: reflection, recurrence, asymptotic series (Abramowitz and Stegun
// 6.3.7, 6.3.5, 6.3.18).
static __device__ __noinline__ double digamma_wide(double x) {
  if (x == 0.0) return copysign((double)INF, -x);
  double y = 0.0;
  if (x < 0.0) {
    if (x == floor(x)) return (double)NAN_F;
    // The distance to the nearest pole, which is exact.
    y = -3.14159265358979323846 / tan(3.14159265358979323846 * (x - rint(x)));
    x = 1.0 - x;
  }
  for (; x < 10.0; x += 1.0) y -= 1.0 / x;
  double s = 1.0 / (x * x);
  return y + log(x) - 0.5 / x - s * (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s / 132))));
}
DEV float digamma_(float x) { return (float)digamma_wide((double)x); }
DEV double digamma_(double x) { return digamma_wide(x); }

#define REAL(T, S)                                                                                        \
  DEV T add(T a, T b) { return a + b; }                                                                   \
  DEV T sub(T a, T b) { return a - b; }                                                                   \
  DEV T mul(T a, T b) { return a * b; }                                                                   \
  DEV T divide(T a, T b) { return a / b; }                                                                \
  DEV T neg(T a) { return -a; }                                                                           \
  DEV T absolute(T a) { return fabs##S(a); }                                                              \
  DEV T sign(T a) { return a > 0 ? (T)1 : a < 0 ? (T)-1 : a; }                                            \
  DEV T ceil_(T a) { return ceil##S(a); }                                                                 \
  DEV T floor_(T a) { return floor##S(a); }                                                               \
  DEV T round_(T a) { return rint##S(a); }                                                                \
  DEV T trunc_(T a) { return trunc##S(a); }                                                               \
  DEV T lgamma_(T a) { return lgamma##S(a); }                                                             \
  DEV T hypot_(T a, T b) { return hypot##S(a, b); }                                                       \
  DEV T copysign_(T a, T b) { return copysign##S(a, b); }                                                 \
  DEV T square(T a) { return a * a; }                                                                     \
  DEV T sqrt_(T a) { return sqrt##S(a); }                                                                 \
  DEV T rsqrt_(T a) { return (T)1 / sqrt##S(a); }                                                         \
  DEV T exp_(T a) { return exp##S(a); }                                                                   \
  DEV T expm1_(T a) { return expm1##S(a); }                                                               \
  DEV T log_(T a) { return log##S(a); }                                                                   \
  DEV T log2_(T a) { return log2##S(a); }                                                                 \
  DEV T log10_(T a) { return log10##S(a); }                                                               \
  DEV T log1p_(T a) { return log1p##S(a); }                                                               \
  DEV T sin_(T a) { return sin##S(a); }                                                                   \
  DEV T cos_(T a) { return cos##S(a); }                                                                   \
  DEV T tan_(T a) { return tan##S(a); }                                                                   \
  DEV T asin_(T a) { return asin##S(a); }                                                                 \
  DEV T acos_(T a) { return acos##S(a); }                                                                 \
  DEV T atan_(T a) { return atan##S(a); }                                                                 \
  DEV T sinh_(T a) { return sinh##S(a); }                                                                 \
  DEV T cosh_(T a) { return cosh##S(a); }                                                                 \
  DEV T tanh_(T a) { return tanh##S(a); }                                                                 \
  DEV T asinh_(T a) { return asinh##S(a); }                                                               \
  DEV T acosh_(T a) { return acosh##S(a); }                                                               \
  DEV T atanh_(T a) { return atanh##S(a); }                                                               \
  DEV T erf_(T a) { return erf##S(a); }                                                                   \
  DEV T sigmoid(T a) {                                                                                    \
    T e = exp##S(-fabs##S(a));                                                                            \
    return a < 0 ? e / ((T)1 + e) : (T)1 / ((T)1 + e);                                                    \
  }                                                                                                       \
  DEV T floor_divide(T a, T b) {                                                                          \
    /* From the exact remainder, as Python: the rounded quotient alone can be one too large. */           \
    if (b == 0) return a / b;                                                                             \
    T r = fmod##S(a, b), q = (a - r) / b;                                                                 \
    if (r != 0 && (r < 0) != (b < 0)) q -= (T)1;                                                          \
    if (q == 0) return copysign##S((T)0, a / b);                                                          \
    T f = floor##S(q);                                                                                    \
    return q - f > (T)0.5 ? f + (T)1 : f;                                                                 \
  }                                                                                                       \
  DEV T remainder_(T a, T b) {                                                                            \
    T r = fmod##S(a, b);                                                                                  \
    if (r == 0) return copysign##S((T)0, b);                                                              \
    return (r < 0) != (b < 0) ? r + b : r;                                                                \
  }                                                                                                       \
  DEV T power(T a, T b) { return pow##S(a, b); }                                                          \
  DEV T maximum(T a, T b) { return a > b || a != a ? a : b; }                                             \
  DEV T minimum(T a, T b) { return a < b || a != a ? a : b; }                                             \
  DEV T atan2_(T a, T b) { return atan2##S(a, b); }                                                       \
  DEV T log_add_exp(T a, T b) {                                                                           \
    if (a != a || b != b) return a + b;                                                                   \
    T high = a > b ? a : b, low = a > b ? b : a;                                                          \
    /* Equal infinities have no difference. */                                                            \
    return high == low ? high + (T)0.693147180559945309417 : high + log1p##S(exp##S(low - high));         \
  }                                                                                                       \
  DEV bool logical_not(T a) { return a == 0; }                                                            \
  DEV bool logical_and(T a, T b) { return a != 0 && b != 0; }                                             \
  DEV bool logical_or(T a, T b) { return a != 0 || b != 0; }                                              \
  DEV bool equal(T a, T b) { return a == b; }                                                             \
  DEV bool not_equal(T a, T b) { return a != b; }                                                         \
  DEV bool less(T a, T b) { return a < b; }                                                               \
  DEV bool less_equal(T a, T b) { return a <= b; }                                                        \
  DEV bool greater(T a, T b) { return a > b; }                                                            \
  DEV bool greater_equal(T a, T b) { return a >= b; }
REAL(float, f)
REAL(double, )

// Complex numbers: products and quotients through double, where squares of float neither overflow nor vanish.
DEV c64 complex_of(double re, double im) { c64 r = {(float)re, (float)im}; return r; }
DEV c64 add(c64 a, c64 b) { c64 r = {a.re + b.re, a.im + b.im}; return r; }
DEV c64 sub(c64 a, c64 b) { c64 r = {a.re - b.re, a.im - b.im}; return r; }
DEV c64 mul(c64 a, c64 b) {
  double ar = a.re, ai = a.im, br = b.re, bi = b.im;
  return complex_of(ar * br - ai * bi, ar * bi + ai * br);
}
DEV c64 divide(c64 a, c64 b) {
  double ar = a.re, ai = a.im, br = b.re, bi = b.im, d = br * br + bi * bi;
  return complex_of((ar * br + ai * bi) / d, (ai * br - ar * bi) / d);
}
DEV c64 neg(c64 a) { c64 r = {-a.re, -a.im}; return r; }
DEV c64 square(c64 a) { return mul(a, a); }
DEV c64 conj_(c64 a) { c64 r = {a.re, -a.im}; return r; }
DEV float real_(c64 a) { return a.re; }
DEV float imag_(c64 a) { return a.im; }
DEV float absolute(c64 a) {
  double x = a.re, y = a.im;
  return fabsf(a.re) == INF || fabsf(a.im) == INF ? INF : (float)sqrt(x * x + y * y);
}
DEV bool true_(c64 a) { return a.re != 0.0f || a.im != 0.0f; }
DEV bool logical_not(c64 a) { return !true_(a); }
DEV bool logical_and(c64 a, c64 b) { return true_(a) && true_(b); }
DEV bool logical_or(c64 a, c64 b) { return true_(a) || true_(b); }
DEV bool equal(c64 a, c64 b) { return a.re == b.re && a.im == b.im; }
DEV bool not_equal(c64 a, c64 b) { return a.re != b.re || a.im != b.im; }
DEV c64 sqrt_(c64 a) {
  double x = a.re, y = a.im;
  if (fabsf(a.im) == INF) { c64 r = {INF, a.im}; return r; }
  if (x == 0.0 && y == 0.0) { c64 r = {0.0f, a.im}; return r; }
  double t = sqrt((sqrt(x * x + y * y) + fabs(x)) / 2.0);
  return x >= 0.0 ? complex_of(t, y / (2.0 * t)) : complex_of(fabs(y) / (2.0 * t), copysign(t, y));
}
DEV c64 exp_(c64 a) {
  double x = a.re, y = a.im, r = exp(x);
  if (y == 0.0) { c64 z = {(float)r, a.im}; return z; }
  if (a.re == -INF) { c64 z = {0.0f, 0.0f}; return z; }
  return complex_of(r * cos(y), r * sin(y));
}
