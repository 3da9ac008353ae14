// How masks become bytes and bytes masks, in place of torch's own ways. The bytes are the same.
//
// To store a mask, torch converts as many lanes as a vector has bytes, up to 64, and writes those
// that are there: a loop that drew words for 4096 numbers took 3 us, and storing their masks
// another 20. Here only the lanes that are there are converted.
//
// To read a mask, torch branches on each byte. Of a mask of dropout each fourth branch is guessed
// wrong, and reading 4096 bytes took 8 us. Here a byte is negated.
//
// `fast.compiled.replaced.quicker` looks whether torch still has these ways and no others.

#pragma once

#ifdef INDUCTOR_USE_VECTOR_TYPES
#if INDUCTOR_USE_VECTOR_TYPES() // not where a processor has no vectors that torch knows

namespace at::vec {
inline namespace CPU_CAPABILITY {

template <typename T, int N>
struct VecMaskTo<
    bool, 1, T, N,
    std::enable_if_t<(VectorizedN<T, N>::size() < Vectorized<bool>::size())>> {
  static inline VecMask<bool, 1> apply(const VecMask<T, N>& mask) {
    constexpr int lanes = VectorizedN<T, N>::size();
    __at_align__ T held[lanes];
    __at_align__ bool bytes[Vectorized<bool>::size()] = {};
    VectorizedN<T, N>(mask).store(held);
#pragma GCC unroll 32
    for (int lane = 0; lane < lanes; lane++) {
      bytes[lane] = c10::bit_cast<int_same_size_t<T>>(held[lane]) != 0;
    }
    return Vectorized<bool>::loadu(bytes);
  }
};

#define READ_BY_NEGATING(T, N)                                           \
  template <>                                                            \
  template <>                                                            \
  constexpr T VecMask<T, N>::value_to_mask<bool>(bool byte) {            \
    using bits = int_same_size_t<T>;                                     \
    return c10::bit_cast<T>(static_cast<bits>(-static_cast<bits>(byte)));\
  }
READ_BY_NEGATING(float, 1)
READ_BY_NEGATING(float, 2)
READ_BY_NEGATING(float, 4)
READ_BY_NEGATING(double, 1)
READ_BY_NEGATING(double, 2)
READ_BY_NEGATING(double, 4)
READ_BY_NEGATING(int32_t, 1)
READ_BY_NEGATING(int32_t, 2)
READ_BY_NEGATING(int64_t, 1)
READ_BY_NEGATING(int64_t, 2)
READ_BY_NEGATING(int64_t, 4)
#undef READ_BY_NEGATING

} // namespace CPU_CAPABILITY
} // namespace at::vec

#endif
#endif
