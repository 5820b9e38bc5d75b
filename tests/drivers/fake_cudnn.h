// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Functions that control the fake cuDNN.
extern "C" {

/// Return the number of plans made, and the number of runs, including runs that are captured into a graph.
int fake_cudnn_plans();
int fake_cudnn_runs();
/// Return the engine of the last run (fake_cudnn.cpp), and its graph as text: "conv 3x16x48x48 bias relu" with the
/// sizes of x.
int fake_cudnn_engine();
const char* fake_cudnn_work();
}
