/* The digit that a model.bin sees in a picture: classify model.bin image.raw */
#include <npu_runtime.h>

#include <stdio.h>

static int fail(void) {
  fprintf(stderr, "%s\n", npu_last_error());
  return 1;
}

int main(int argc, char **argv) {
  float image[64], scores[10];
  FILE *f = argc == 3 ? fopen(argv[2], "rb") : NULL;
  if (!f || fread(image, sizeof image, 1, f) != 1)
    return 2;
  fclose(f);
  npu_model *model;
  npu_session *session;
  if (npu_model_load(argv[1], &model) || npu_session_create(model, NULL, &session) ||
      npu_session_bind_input(session, 0, image, sizeof image) ||
      npu_session_bind_output(session, 0, scores, sizeof scores) || npu_session_run(session))
    return fail();
  int best = 0;
  for (int i = 1; i < 10; ++i)
    if (scores[i] > scores[best])
      best = i;
  printf("%d\n", best);
  npu_session_free(session);
  npu_model_free(model);
  return 0;
}
