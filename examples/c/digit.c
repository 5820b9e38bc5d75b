// SPDX-License-Identifier: Apache-2.0
// Compiles the digits model and recognises a digit drawn with characters. Usage: digit examples/digits/digits.onnx
#include <stdio.h>
#include <weft/weft.h>

static const char picture[8][9] = {"..xxxxx.", "......x.", ".....xx.", "...xxxxx",
                                   "....xx..", "...xx...", "...xx...", "..xx...."};

static int fail(weft_status* status) {
  fprintf(stderr, "%s\n", weft_status_text(status));
  int code = weft_status_kind(status);
  weft_status_free(status);
  return code;
}

int main(int count, char** arguments) {
  float pixels[64];
  for (int i = 0; i < 64; ++i) pixels[i] = picture[i / 8][i % 8] == 'x';
  const int64_t dims[] = {1, 1, 8, 8};

  weft_program* program = NULL;
  weft_context* context = NULL;
  weft_tensor *image = NULL, *probability = NULL;
  weft_status* status = weft_compile(count > 1 ? arguments[1] : "digits.onnx", NULL, &program);
  if (!status) status = weft_context_new(program, &context);
  if (!status) status = weft_tensor_wrap(WEFT_F32, dims, 4, pixels, sizeof pixels, NULL, NULL, &image);
  if (!status) status = weft_run(context, (const weft_tensor*[]){image}, 1, &probability, 1, NULL);
  if (status) return fail(status);

  const float* p = weft_tensor_data(probability);
  int best = 0;
  for (int i = 1; i < 10; ++i) best = p[i] > p[best] ? i : best;
  printf("%d (%.1f %%)\n", best, 100 * p[best]);

  weft_tensor_free(probability);
  weft_tensor_free(image);
  weft_context_free(context);
  weft_program_free(program);
  return 0;
}
