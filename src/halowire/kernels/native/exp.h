// The exponential of one vector, to about two units in the last place, for arguments up to 88.
#pragma once
#include "simd.h"

namespace {

// e^x = 2^n e^r with n = round(x / ln 2) and |r| <= ln 2 / 2, e^r by its series; below -87 zero, NaN stays NaN.
inline vf exp(vf x) {
  constexpr float rounder = 12582912.0f;  // 1.5 * 2^23: adding it leaves no fraction
  const vf n = (x * 1.44269504f + rounder) - rounder;
  const vf r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
  vf sum = splat(1.0f / 5040);
  sum = sum * r + 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  const vi in_range = ~reinterpret_cast<vi>(x < -87.0f);
  const vi power = __builtin_convertvector(select(in_range, n), vi) + 127;
  return select(in_range, sum * reinterpret_cast<vf>(power << 23));
}

}  // namespace
