/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#if defined(__GNUC__)
#define MIGRAPHX_C_EXPORT __attribute__((visibility("default")))
#else
#define MIGRAPHX_C_EXPORT
#endif
