/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The version of MIGraphX whose C interface this is; weft_version() tells Weft's own. */
#define MIGRAPHX_VERSION_MAJOR 2
#define MIGRAPHX_VERSION_MINOR 16
#define MIGRAPHX_VERSION_PATCH 0
